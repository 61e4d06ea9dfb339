//! The fields of a `multipart/form-data` body, as clients of the hosted API send them.

use memchr::memmem;

use super::reply::Refused;

/// Fields of a form.
const MAX_FIELDS: usize = 256;

/// One field; a file has a name.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Field<'a> {
    pub(super) name: String,
    pub(super) file_name: Option<String>,
    pub(super) content: &'a [u8],
}

#[derive(Debug)]
pub(super) struct Form<'a>(Vec<Field<'a>>);

impl<'a> Form<'a> {
    /// Reads `body`.
    ///
    /// # Errors
    /// When it is no form.
    pub(super) fn read(content_type: &str, body: &'a [u8]) -> Result<Self, Refused> {
        let wrong =
            |what: &str| Refused::value("body", format!("The form cannot be read: {what}."));
        let (_, boundary) = content_type
            .split_once("boundary=")
            .filter(|_| content_type.starts_with("multipart/form-data"))
            .ok_or_else(|| wrong("the content type is multipart/form-data with a boundary"))?;
        let boundary = boundary.split(';').next().unwrap_or_default().trim_matches([' ', '"']);
        let delimiter = format!("\r\n--{boundary}");
        let mut rest = body
            .strip_prefix(&delimiter.as_bytes()[2..])
            .ok_or_else(|| wrong("it does not begin with its boundary"))?;
        let mut fields = Vec::new();
        while !rest.starts_with(b"--") {
            let head = memmem::find(rest, b"\r\n\r\n").ok_or_else(|| wrong("a part has no end"))?;
            let content = &rest[head + 4..];
            let end = memmem::find(content, delimiter.as_bytes())
                .ok_or_else(|| wrong("the last boundary is missing"))?;
            let (name, file_name) =
                names(&rest[..head]).ok_or_else(|| wrong("a part has no name"))?;
            fields.push(Field { name, file_name, content: &content[..end] });
            if fields.len() > MAX_FIELDS {
                return Err(wrong("it has too many fields"));
            }
            rest = &content[end + delimiter.len()..];
        }
        Ok(Self(fields))
    }

    /// The text of the field `name`.
    pub(super) fn text(&self, name: &str) -> Option<&'a str> {
        let field = self.0.iter().find(|field| field.name == name)?;
        std::str::from_utf8(field.content).ok()
    }

    /// The file of the field `name`.
    pub(super) fn file(&self, name: &'static str) -> Result<&Field<'a>, Refused> {
        let mut files = self.0.iter().filter(|field| field.file_name.is_some());
        files
            .find(|field| field.name.trim_end_matches("[]") == name)
            .ok_or_else(|| Refused::value(name, format!("The form has no file `{name}`.")))
    }
}

/// The name of a part, and that of its file.
fn names(head: &[u8]) -> Option<(String, Option<String>)> {
    let head = std::str::from_utf8(head).ok()?;
    let line = head.split("\r\n").find(|line| {
        line.split(':').next().is_some_and(|name| name.eq_ignore_ascii_case("content-disposition"))
    })?;
    let value = |name: &str| {
        let (_, after) = line.split_once(&format!("; {name}=\""))?;
        after.split_once('"').map(|(value, _)| value.to_owned())
    };
    Some((value("name")?, value("filename")))
}
