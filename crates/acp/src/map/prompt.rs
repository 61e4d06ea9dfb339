//! A prompt as the input of a turn.

use protocol::UserInput;
use url::Url;

use super::commands::{self, Skill, Typed};
use crate::schema::content::{ContentBlock, Resource};

/// Most linked files of a prompt that are read through the client; of others the model gets the address.
pub(crate) const MAX_READ: usize = 20;
/// Most lines of a linked file.
pub(crate) const MAX_LINES: u32 = 2_000;
/// Most bytes of a linked file; a longer text is cut.
const MAX_BYTES: usize = 128 << 10;

/// A part of the input.
#[derive(Debug, PartialEq)]
pub(crate) enum Part {
    Ready(UserInput),
    /// A file that the client may have open with unsaved changes.
    File {
        name: String,
        uri: String,
        path: String,
    },
}

impl Part {
    /// The input, for a file with the text that the client has of it.
    pub(crate) fn into_inputs(self, text: Option<String>) -> Vec<UserInput> {
        match self {
            Self::Ready(input) => vec![input],
            Self::File { name, uri, .. } => match text {
                Some(text) => vec![embedded(&name, &uri, &cut(text))],
                None => vec![link(&name, &uri)],
            },
        }
    }
}

/// The parts of a prompt. Files are named as such if the client can be asked for them.
///
/// # Errors
/// Content that this agent does not take, for the client.
pub(crate) fn parts(
    blocks: Vec<ContentBlock>,
    skills: &[Skill],
    reads_files: bool,
) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    let mut files = 0;
    for (at, block) in blocks.into_iter().enumerate() {
        match block {
            ContentBlock::Text { text } if at == 0 => {
                parts.extend(first(text, skills).into_iter().map(Part::Ready));
            }
            ContentBlock::Text { text } => parts.push(Part::Ready(plain(text))),
            ContentBlock::Image { data, mime_type, .. } => {
                parts.push(Part::Ready(image(&mime_type, &data)));
            }
            ContentBlock::Audio { .. } => {
                return Err(format!("`prompt[{at}]`: this agent takes no audio"));
            }
            ContentBlock::ResourceLink { name, uri, .. } => match file(&uri) {
                Some(path) if reads_files && files < MAX_READ => {
                    files += 1;
                    parts.push(Part::File { name, uri, path });
                }
                _ => parts.push(Part::Ready(link(&name, &uri))),
            },
            ContentBlock::Resource { resource } => match resource {
                Resource::Text { uri, text, .. } => {
                    parts.push(Part::Ready(embedded(&name_of(&uri), &uri, &text)));
                }
                Resource::Blob { blob, mime_type: Some(kind), .. }
                    if kind.starts_with("image/") =>
                {
                    parts.push(Part::Ready(image(&kind, &blob)));
                }
                Resource::Blob { uri, mime_type, .. } => {
                    let kind = mime_type.as_deref().unwrap_or("an unknown type");
                    return Err(format!(
                        "`prompt[{at}]`: the resource {uri} is binary ({kind}), and this agent takes \
                         texts and images: send a link to the file"
                    ));
                }
            },
        }
    }
    if parts.is_empty() {
        return Err("`prompt` is empty".to_owned());
    }
    Ok(parts)
}

/// The command of this program that the prompt consists of.
pub(crate) fn command(blocks: &[ContentBlock]) -> Option<commands::Command> {
    let [ContentBlock::Text { text }] = blocks else { return None };
    match commands::typed(text, &[]) {
        Typed::Command(command) => Some(command),
        Typed::Skill(..) | Typed::Text => None,
    }
}

/// Returns the part of an input that the user sees, for the history.
pub(crate) fn shown(input: &UserInput) -> Option<ContentBlock> {
    match input {
        UserInput::Text { text, .. } => Some(ContentBlock::text(text.clone())),
        UserInput::Image { url } => {
            let (kind, data) = url.strip_prefix("data:")?.split_once(";base64,")?;
            let (data, mime_type) = (data.to_owned(), kind.to_owned());
            Some(ContentBlock::Image { data, mime_type, uri: None })
        }
        UserInput::LocalImage { path } | UserInput::Mention { path, .. } => {
            let name = match input {
                UserInput::Mention { name, .. } => name.clone(),
                _ => name_of(path),
            };
            let uri = Url::from_file_path(path).map_or_else(|()| path.clone(), String::from);
            Some(ContentBlock::ResourceLink {
                name,
                uri,
                title: None,
                description: None,
                mime_type: None,
            })
        }
        // The text that comes with it has its name.
        UserInput::Skill { .. } => None,
    }
}

/// The first text, which may invoke a skill.
fn first(text: String, skills: &[Skill]) -> Vec<UserInput> {
    if commands::is_init(&text) {
        return vec![plain(commands::INIT_PROMPT.to_owned())];
    }
    match commands::typed(&text, skills) {
        Typed::Skill(skill, rest) => {
            let said = format!("${} {rest}", skill.name);
            let named = UserInput::Skill { name: skill.name.clone(), path: skill.path.clone() };
            vec![plain(said.trim_end().to_owned()), named]
        }
        Typed::Command(_) | Typed::Text => vec![plain(text)],
    }
}

fn plain(text: String) -> UserInput {
    UserInput::Text { text, text_elements: Vec::new() }
}

fn image(mime_type: &str, data: &str) -> UserInput {
    UserInput::Image { url: format!("data:{mime_type};base64,{data}") }
}

fn link(name: &str, uri: &str) -> UserInput {
    let target = file(uri).unwrap_or_else(|| uri.to_owned());
    plain(format!("[@{name}]({target})"))
}

fn embedded(name: &str, uri: &str, text: &str) -> UserInput {
    let target = file(uri).unwrap_or_else(|| uri.to_owned());
    let end = if text.ends_with('\n') { "" } else { "\n" };
    plain(format!(
        "[@{name}]({target}):\n<context uri=\"{}\">\n{text}{end}</context>",
        uri.replace('"', "%22")
    ))
}

/// The path of a `file:` address.
fn file(uri: &str) -> Option<String> {
    let url = Url::parse(uri).ok().filter(|url| url.scheme() == "file")?;
    url.to_file_path().ok()?.into_os_string().into_string().ok()
}

/// The last segment of an address.
fn name_of(uri: &str) -> String {
    let path = uri.split(['?', '#']).next().unwrap_or(uri);
    let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or(path);
    if name.is_empty() { uri.to_owned() } else { name.to_owned() }
}

fn cut(mut text: String) -> String {
    if text.len() > MAX_BYTES {
        let rest = text.len() - MAX_BYTES;
        text.truncate(text.floor_char_boundary(MAX_BYTES));
        text.push_str(&format!("\n[about {rest} further bytes are not shown: read the file]"));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(blocks: Value, reads_files: bool) -> Result<Vec<Part>, String> {
        parts(serde_json::from_value(blocks).unwrap(), &[], reads_files)
    }

    #[test]
    fn blocks_become_inputs_in_order() {
        let blocks = json!([
            { "type": "text", "text": "Look" },
            { "type": "image", "data": "AA==", "mimeType": "image/png" },
            { "type": "resource_link", "name": "a b.rs", "uri": "file:///w/a%20b.rs" },
            { "type": "resource_link", "name": "issue", "uri": "https://h/1" },
            { "type": "resource", "resource": { "uri": "file:///w/c.rs", "text": "fn" } },
            { "type": "resource", "resource": { "uri": "x:1", "blob": "BB==", "mimeType": "image/gif" } },
        ]);
        let text = |text: &str| Part::Ready(plain(text.to_owned()));
        let url = |url: &str| Part::Ready(UserInput::Image { url: url.to_owned() });
        let mut expect = vec![
            text("Look"),
            url("data:image/png;base64,AA=="),
            text("[@a b.rs](/w/a b.rs)"),
            text("[@issue](https://h/1)"),
            text("[@c.rs](/w/c.rs):\n<context uri=\"file:///w/c.rs\">\nfn\n</context>"),
            url("data:image/gif;base64,BB=="),
        ];
        assert_eq!(read(blocks.clone(), false).unwrap(), expect);
        expect[2] = Part::File {
            name: "a b.rs".into(),
            uri: "file:///w/a%20b.rs".into(),
            path: "/w/a b.rs".into(),
        };
        assert_eq!(read(blocks, true).unwrap(), expect);
    }

    #[test]
    fn content_that_cannot_be_used_is_named() {
        let check = |blocks: Value, expect: &str| {
            let error = read(blocks, false).unwrap_err();
            assert!(error.contains(expect), "{error}");
        };
        check(json!([]), "`prompt` is empty");
        check(json!([{ "type": "audio", "data": "", "mimeType": "audio/wav" }]), "no audio");
        let pdf = json!({ "uri": "file:///a.pdf", "blob": "", "mimeType": "application/pdf" });
        check(json!([{ "type": "resource", "resource": pdf }]), "application/pdf");
    }

    #[test]
    fn a_long_file_is_cut_and_says_so() {
        let file = Part::File { name: "n".into(), uri: "file:///n".into(), path: "/n".into() };
        let text = "é".repeat(MAX_BYTES);
        let inputs = file.into_inputs(Some(text));
        let [UserInput::Text { text, .. }] = &inputs[..] else { panic!("{inputs:?}") };
        assert!(
            text.len() < MAX_BYTES + 200 && text.contains("131072 further bytes"),
            "{}",
            text.len()
        );
    }

    #[test]
    fn a_skill_is_invoked_by_its_name() {
        let skills =
            [Skill { name: "lint".into(), description: "d".into(), path: "/s/SKILL.md".into() }];
        let blocks = vec![ContentBlock::text("/lint src")];
        let parts = parts(blocks, &skills, false).unwrap();
        let skill = UserInput::Skill { name: "lint".into(), path: "/s/SKILL.md".into() };
        assert_eq!(parts, [Part::Ready(plain("$lint src".into())), Part::Ready(skill)]);
    }
}
