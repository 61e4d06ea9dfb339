//! The fields of a `multipart/form-data` body, as clients of the hosted API send them.

use memchr::memmem;

use super::reply::Refused;

/// Most fields of a form.
const MAX_FIELDS: usize = 256;

/// One field; only a file has a file name.
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
    /// It is not a form.
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

/// The names of a part and of its file.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TYPE: &str = "multipart/form-data; boundary=\"b\"";

    #[test]
    fn fields_are_found() {
        let body = b"--b\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\none\r\n--b\r\n\
            content-disposition: form-data; name=\"image[]\"; filename=\"a.png\"\r\n\
            Content-Type: image/png\r\n\r\n\r\n--\r\n--b--\r\n";
        let form = Form::read(TYPE, body).unwrap();
        assert_eq!((form.text("x"), form.text("y")), (Some("one"), None));
        let file = form.file("image").unwrap();
        assert_eq!((file.file_name.as_deref(), file.content), (Some("a.png"), &b"\r\n--"[..]));
        assert!(form.file("x").is_err());
        for bad in [&b""[..], b"--b", b"--b\r\n\r\nx\r\n--b--", b"--c--", &body[..60]] {
            assert!(Form::read(TYPE, bad).is_err());
        }
        assert!(Form::read("application/json", body).is_err());
    }

    proptest! {
        #[test]
        fn never_panics(body in prop::collection::vec(any::<u8>(), 0..100), kind in ".{0,40}") {
            let _ = Form::read(&kind, &body);
            let _ = Form::read(TYPE, &[b"--b\r\n", &body[..], b"\r\n\r\n\r\n--b--"].concat());
        }
    }
}
