//! The input of a turn: the prompt, the images and the schema, read from the places that the
//! arguments name.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use json_schema::Validator;
use protocol::{JsonText, UserInput};

use super::Arguments;

/// Larger prompts are refused, in bytes: a message to the server has a bound too.
const MAX_PROMPT: u64 = 8 << 20;

/// Larger schemas are refused, in bytes.
const MAX_SCHEMA: u64 = 1 << 20;

/// The error of a missing prompt.
pub(super) const NO_PROMPT: &str = "the prompt is missing. Give it as an argument, as in \
    `agentd exec \"fix the failing test\"`, or on standard input: `agentd exec < prompt.txt`.";

/// Fails outside of a git repository.
pub(super) fn check_repository(cwd: &Path) -> anyhow::Result<()> {
    if cwd.ancestors().any(|folder| folder.join(".git").symlink_metadata().is_ok()) {
        return Ok(());
    }
    bail!(
        "Not inside a trusted directory: {} is not in a git repository. Run in one, or use \
         --skip-git-repo-check",
        cwd.display()
    )
}

/// The input of a turn.
#[derive(Debug)]
pub(super) struct Input {
    pub(super) parts: Vec<UserInput>,
    pub(super) schema: Option<Schema>,
}

/// The schema that the final message must follow.
#[derive(Debug)]
pub(super) struct Schema {
    pub(super) text: JsonText,
    /// Absent if the message is not compared with it here.
    pub(super) validator: Option<Validator>,
}

impl Input {
    /// Reads everything that the arguments name; relative paths start from `cwd`.
    ///
    /// # Errors
    /// Files that cannot be read, a schema that is no JSON object, a file that is not an image, an empty
    /// prompt.
    pub(super) fn read(
        arguments: &Arguments,
        prompt: Option<&str>,
        cwd: &Path,
    ) -> anyhow::Result<Self> {
        let schema = arguments.output_schema.as_ref().map(|file| schema(&cwd.join(file)));
        // Before standard input is read, which may take as long as its writer likes.
        let mut schema = schema.transpose()?;
        if let Some(schema) = &mut schema
            && !arguments.checks_answer()
        {
            schema.validator = None;
        }
        let images = arguments.images.iter().map(|image| self::image(&cwd.join(image)));
        let images = images.collect::<anyhow::Result<Vec<_>>>()?;
        let text = match prompt {
            None | Some("-") => prompt_of_input()?,
            Some(prompt) => prompt.to_owned(),
        };
        let mut parts = Vec::new();
        if !text.trim().is_empty() {
            parts.push(UserInput::Text { text, text_elements: Vec::new() });
        } else if images.is_empty() {
            bail!("the prompt is empty: describe what to do");
        }
        parts.extend(images);
        Ok(Self { parts, schema })
    }

    /// Appends a block to the prompt.
    pub(super) fn append(&mut self, block: String) {
        match self.parts.first_mut() {
            Some(UserInput::Text { text, .. }) => *text = appended(text, &block),
            _ => self.parts.insert(0, UserInput::Text { text: block, text_elements: Vec::new() }),
        }
    }
}

/// A prompt with a block after it.
pub(super) fn appended(prompt: &str, block: &str) -> String {
    format!("{prompt}\n\n{block}")
}

/// Returns whether the prompt would be read from a terminal without an invitation to type.
pub(super) fn is_prompt_missing(prompt: Option<&str>, is_terminal: bool) -> bool {
    prompt.is_none() && is_terminal
}

/// The folder that the option `flag` names, without links.
///
/// # Errors
/// When it is not there, or has no name in UTF-8.
pub(super) fn folder(flag: &str, cwd: &Path, named: &Path) -> anyhow::Result<PathBuf> {
    let folder = cwd.join(named);
    let found = folder
        .canonicalize()
        .with_context(|| format!("{flag}: cannot use {}", folder.display()))?;
    if !found.is_dir() {
        bail!("{flag}: {} is not a folder", folder.display());
    }
    path(&found).with_context(|| flag.to_owned())?;
    Ok(found)
}

/// The text on standard input.
///
/// # Errors
/// When it cannot be read, or is too large.
pub(super) fn prompt_of_input() -> anyhow::Result<String> {
    prompt(io::stdin().lock())
}

fn prompt(input: impl Read) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    input
        .take(MAX_PROMPT + 1)
        .read_to_end(&mut bytes)
        .context("cannot read the prompt from standard input")?;
    if bytes.len() as u64 > MAX_PROMPT {
        bail!("the prompt on standard input is larger than 8 MiB: refer to a file instead");
    }
    match files::decoded(bytes) {
        Ok(text) => Ok(text),
        Err(_) => bail!("the prompt on standard input is neither UTF-8 nor UTF-16"),
    }
}

fn schema(file: &Path) -> anyhow::Result<Schema> {
    let text = files::read_argument(file, MAX_SCHEMA).context("--output-schema")?;
    if text.trim().is_empty() {
        bail!("--output-schema: {} is empty; write a JSON Schema into it", file.display());
    }
    let read = JsonText::read(&text).and_then(|text| Ok((text.value()?, text)));
    let (value, text) =
        read.with_context(|| format!("--output-schema: {} is not JSON", file.display()))?;
    if !value.is_object() {
        bail!("--output-schema: {} does not hold a JSON Schema object", file.display());
    }
    let validator = Validator::new(&value).map_err(|why| {
        anyhow::anyhow!("--output-schema: {} is not a valid JSON Schema: {why}", file.display())
    })?;
    Ok(Schema { text, validator: Some(validator) })
}

fn image(file: &Path) -> anyhow::Result<UserInput> {
    server::check_image(file).context("--image")?;
    Ok(UserInput::LocalImage { path: path(file).context("--image")? })
}

fn path(path: &Path) -> anyhow::Result<String> {
    let text = path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))?;
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use clap::{Args, FromArgMatches};

    use super::super::arguments::Task;
    use super::*;

    fn read(cwd: &Path, line: &[&str]) -> anyhow::Result<Input> {
        let command = Arguments::augment_args(clap::Command::new("exec"));
        let line = std::iter::once(&"exec").chain(line);
        let matches = command.try_get_matches_from(line)?;
        let arguments = Arguments::from_arg_matches(&matches)?;
        let Task::Turn(prompt) = arguments.task()? else { bail!("a review") };
        Input::read(&arguments, prompt, cwd)
    }

    #[test]
    fn arguments_resolve_to_input_or_an_error() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("schema.json"), r#"{"type":"object"}"#).unwrap();
        std::fs::write(dir.path().join("list.json"), "[]").unwrap();
        std::fs::write(dir.path().join("no.json"), "{").unwrap();
        std::fs::write(dir.path().join("odd.json"), r#"{"type":"text"}"#).unwrap();
        let fails = |line: &[&str], expect: &str| {
            let error = format!("{:#}", read(dir.path(), line).unwrap_err());
            assert!(error.contains(expect), "{line:?}: {error}");
        };
        fails(&[" "], "the prompt is empty");
        fails(&["p", "--output-schema", "list.json"], "does not hold a JSON Schema object");
        fails(&["p", "--output-schema", "no.json"], "no.json is not JSON: EOF");
        fails(&["p", "--output-schema", "odd.json"], "odd.json is not a valid JSON Schema: ");
        fails(&["p", "--output-schema", "none.json"], "none.json: No such file");
        fails(&["p", "--ephemeral", "--resume", "t"], "cannot be used with");
        fails(&["resume", "t", " "], "the prompt is empty");
        fails(&["p", "--sandbox", "open"], "read-only, workspace-write, danger-full-access");
        fails(&["p", "-i", "none.png"], "none.png: No such file");
        fails(&["p", "-i", "list.json"], "list.json: ");
        fails(&["p", "-i", "."], "it is a folder");
        let b = dir.path().join("b.png");
        for image in [&dir.path().join("a.png"), &b] {
            std::fs::write(image, b"\x89PNG\r\n\x1a\n").unwrap();
        }
        let b = b.to_str().unwrap();
        std::fs::write(dir.path().join("marked.json"), "\u{feff}{}").unwrap();
        assert!(read(dir.path(), &["p", "--output-schema", "marked.json"]).is_ok());
        let input =
            read(dir.path(), &["p", "--output-schema", "schema.json", "-i", "a.png", "-i", b]);
        let input = input.unwrap();
        assert_eq!(input.schema.unwrap().text.value().unwrap()["type"], "object");
        assert!(read(dir.path(), &["", "-i", "a.png"]).unwrap().parts.len() == 1);
        let [
            UserInput::Text { text, .. },
            UserInput::LocalImage { path: a },
            UserInput::LocalImage { path: second },
        ] = input.parts.as_slice()
        else {
            panic!("{:?}", input.parts)
        };
        assert_eq!((text.as_str(), second.as_str()), ("p", b));
        assert_eq!(Path::new(a), dir.path().join("a.png"));
    }

    /// Schemas as editors store them are read, and what is no schema is named.
    #[test]
    fn odd_files_of_a_schema_are_read_or_named() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, bytes: &[u8]| std::fs::write(dir.path().join(name), bytes).unwrap();
        let text = r#"{"type": "object", "title": "é"}"#;
        let le = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
        let be = |text: &str| text.encode_utf16().flat_map(u16::to_be_bytes).collect::<Vec<u8>>();
        put("plain", text.as_bytes());
        put("marked", format!("\u{feff}{text}").as_bytes());
        put("le", &le(&format!("\u{feff}{text}")));
        put("be", &be(&format!("\u{feff}{text}")));
        put("empty", b"");
        put("blank", b"\xef\xbb\xbf \n");
        put("latin", b"{\"title\": \"caf\xe9\"}");
        put("text", b"type: object");
        put("null", b"null");
        std::fs::create_dir(dir.path().join("folder")).unwrap();
        std::fs::File::create(dir.path().join("huge")).unwrap().set_len(10 << 30).unwrap();
        std::os::unix::fs::symlink("/dev/zero", dir.path().join("device")).unwrap();
        std::os::unix::fs::symlink("nowhere", dir.path().join("dangling")).unwrap();
        let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o600));
        rustix::fs::mknodat(rustix::fs::CWD, dir.path().join("fifo"), kind, mode, 0).unwrap();
        for (name, expect) in [
            ("plain", Ok("é")),
            ("marked", Ok("é")),
            ("le", Ok("é")),
            ("be", Ok("é")),
            ("empty", Err("empty is empty; write a JSON Schema into it")),
            ("blank", Err("blank is empty")),
            ("latin", Err("latin: it is not UTF-8 text")),
            ("text", Err("text is not JSON: expected")),
            ("null", Err("null does not hold a JSON Schema object")),
            ("folder", Err("folder: it is a folder, not a regular file")),
            ("huge", Err("huge: it is larger than")),
            ("device", Err("device: it is a device, not a regular file")),
            ("dangling", Err("dangling: No such file")),
            ("fifo", Err("fifo: it is a named pipe (FIFO), not a regular file")),
        ] {
            match (read(dir.path(), &["p", "--output-schema", name]), expect) {
                (Ok(input), Ok(title)) => {
                    assert_eq!(
                        input.schema.unwrap().text.value().unwrap()["title"],
                        title,
                        "{name}"
                    );
                }
                (Err(error), Err(expect)) => {
                    let error = format!("{error:#}");
                    assert!(error.starts_with("--output-schema: "), "{name}: {error}");
                    assert!(error.contains(expect), "{name}: {error}");
                }
                (Ok(_), Err(expect)) => panic!("{name}: not {expect}"),
                (Err(error), Ok(_)) => panic!("{name}: {error:#}"),
            }
        }
    }

    #[test]
    fn prompts_from_standard_input_are_bounded() {
        assert_eq!(prompt(&b"do it\n"[..]).unwrap(), "do it\n");
        assert_eq!(prompt(&b"\xff\xfed\0o\0"[..]).unwrap(), "do");
        assert!(prompt(&b"\xff"[..]).is_err());
        let error = prompt(io::repeat(b'x')).unwrap_err().to_string();
        assert!(error.contains("8 MiB"), "{error}");
        assert!(is_prompt_missing(None, true));
        assert!(!is_prompt_missing(Some("-"), true) && !is_prompt_missing(None, false));
    }
}
