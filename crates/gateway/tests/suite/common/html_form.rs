//! Forms of HTML pages, as a browser without scripts reads and fills them.

/// A form: its address and the values that a browser would send.
#[derive(Clone, Debug)]
pub(crate) struct HtmlForm {
    pub(crate) action: String,
    pub(crate) pairs: Vec<(String, String)>,
    /// All names of its fields, even of those that send nothing.
    pub(crate) names: Vec<String>,
}

impl HtmlForm {
    /// The form of a page that is sent to an address with this end, if there is one.
    pub(crate) fn find(page: &str, end: &str) -> Option<Self> {
        let mut rest = page;
        while let Some((_, form)) = rest.split_once("<form ") {
            let (form, after) = form.split_once("</form>").expect("the end of a form");
            let action = attribute(head(form), "action").expect("an address");
            if action.ends_with(end) {
                return Some(Self::read(action, form));
            }
            rest = after;
        }
        None
    }

    fn read(action: String, form: &str) -> Self {
        let mut read = Self { action, pairs: Vec::new(), names: Vec::new() };
        let mut select = String::new();
        for tag in form.split('<').skip(1) {
            let name = attribute(head(tag), "name").unwrap_or_default();
            let value = attribute(head(tag), "value").unwrap_or_default();
            let is_box = attribute(head(tag), "type").as_deref() == Some("checkbox");
            match tag.split([' ', '>']).next().unwrap_or_default() {
                "input" => {
                    if !is_box || has(head(tag), "checked") {
                        read.pairs.push((name.clone(), value));
                    }
                    read.names.push(name);
                }
                "select" => {
                    read.names.push(name.clone());
                    select = name;
                }
                // A browser sends the first option where none is selected.
                "option" => {
                    let is_first = read.pairs.iter().all(|(name, _)| *name != select);
                    if is_first || has(head(tag), "selected") {
                        read.set(&select.clone(), &value);
                    }
                }
                _ => {}
            }
        }
        read
    }

    /// Replaces the values of a field.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        assert!(self.names.iter().any(|known| known == name), "no {name} in {:?}", self.names);
        self.pairs.retain(|(known, _)| known != name);
        self.pairs.push((name.to_owned(), value.to_owned()));
    }

    /// The value of a field; empty without one.
    pub(crate) fn get(&self, name: &str) -> &str {
        let found = self.pairs.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).unwrap_or_default()
    }

    /// The body that a browser sends.
    pub(crate) fn body(&self) -> String {
        let pairs: Vec<String> = self
            .pairs
            .iter()
            .map(|(name, value)| format!("{}={}", escape(name), escape(value)))
            .collect();
        pairs.join("&")
    }
}

/// Percent-encodes a text.
pub(crate) fn escape(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
                char::from(byte).to_string()
            }
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

/// The start tag that a text begins with.
fn head(text: &str) -> &str {
    text.split('>').next().unwrap_or_default()
}

fn attribute(tag: &str, name: &str) -> Option<String> {
    let (_, rest) = tag
        .split_once(&format!(" {name}=\""))
        .or_else(|| tag.strip_prefix(&format!("{name}=\"")).map(|rest| ("", rest)))?;
    let value = rest.split('"').next().unwrap_or_default();
    Some(
        value
            .replace("&lt;", "<")
            .replace("&gt;", ">")
            .replace("&quot;", "\"")
            .replace("&amp;", "&"),
    )
}

/// Returns whether a tag has an attribute without a value.
fn has(tag: &str, name: &str) -> bool {
    tag.split(' ').any(|part| part == name)
}
