//! Reads the arguments of a tool call as models write them: numbers and booleans may be strings, a
//! command may be a list or a line. Whatever has only one meaning is accepted; any other error
//! names the tool and the member, and says what is wanted.

use serde_json::{Map, Value};

use super::json_text;
use crate::port::tool_error::ToolError;

/// The members of a call's arguments. Unknown members are ignored unless their names are checked.
pub(crate) struct Arguments<'n> {
    tool: &'n str,
    members: Map<String, Value>,
}

impl<'n> Arguments<'n> {
    /// Reads an object. Empty text is an empty object; an object inside a JSON string is unwrapped.
    pub(crate) fn read(tool: &'n str, text: &str) -> Result<Self, ToolError> {
        let unreadable = |error: serde_json::Error| {
            ToolError::new(format!("{tool}: the arguments cannot be read: {error}"))
        };
        if text.trim().is_empty() {
            return Ok(Self { tool, members: Map::new() });
        }
        let mut value: Value = serde_json::from_str(text).map_err(unreadable)?;
        if let Value::String(inner) = &value
            && inner.trim_start().starts_with(['{', 'n'])
        {
            value = serde_json::from_str(inner).map_err(unreadable)?;
        }
        match value {
            Value::Object(members) => Ok(Self { tool, members }),
            Value::Null => Ok(Self { tool, members: Map::new() }),
            other => {
                let shown = shown(&other);
                Err(ToolError::new(format!(
                    "{tool}: the arguments must be a JSON object, not {shown}"
                )))
            }
        }
    }

    /// The text of an object as it was written, without blanks and needless escapes: numbers keep their
    /// digits, and members their order. Empty text and objects inside JSON strings are read as by
    /// [`Arguments::read`].
    pub(crate) fn exact(tool: &'n str, text: &str) -> Result<String, ToolError> {
        let members = Self::read(tool, text)?.members;
        if members.is_empty() {
            return Ok("{}".to_owned());
        }
        let inner = serde_json::from_str::<String>(text);
        let text = inner.as_deref().unwrap_or(text);
        json_text::compact(text).map_err(|problem| ToolError::new(format!("{tool}: {problem}")))
    }

    pub(crate) fn into_value(self) -> Value {
        Value::Object(self.members)
    }

    /// The members that were not read yet, as JSON.
    pub(crate) fn json(&self) -> String {
        Value::Object(self.members.clone()).to_string()
    }

    /// A string; a number or a boolean is taken for its text.
    pub(crate) fn text(&mut self, name: &str) -> Result<Option<String>, ToolError> {
        match self.take(name) {
            None => Ok(None),
            Some(value) => match plain_text(&value) {
                Some(text) => Ok(Some(text)),
                None => Err(self.wrong(name, &value, "a string")),
            },
        }
    }

    /// A patch: a string, or the last word of a command, as in `["apply_patch", TEXT]` and `["bash", "-lc",
    /// SCRIPT]`. From a word on with the stars of a patch, the words are its lines.
    pub(crate) fn patch(&mut self, name: &str) -> Result<Option<String>, ToolError> {
        let words = self.members.get(name).and_then(word_list);
        let is_marker = |word: &String| word.trim_start().starts_with("***");
        let text = words.and_then(|mut words| match words.iter().position(is_marker) {
            Some(at) => Some(words[at..].join("\n")),
            None => words.pop(),
        });
        match text {
            Some(text) => Ok(Some(text)),
            None => self.text(name),
        }
    }

    /// A required string; `wanted` describes it.
    pub(crate) fn needed_text(&mut self, name: &str, wanted: &str) -> Result<String, ToolError> {
        let missing = self.missing(name, wanted);
        self.text(name)?.ok_or(missing)
    }

    /// A number that is not negative, without its fraction.
    pub(crate) fn number(&mut self, name: &str) -> Result<Option<u64>, ToolError> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let number = match &value {
            Value::Number(number) => number.as_u64().or_else(|| whole(number.as_f64()?)),
            Value::String(text) => {
                let text = text.trim();
                text.parse().ok().or_else(|| whole(text.parse().ok()?))
            }
            _ => None,
        };
        match number {
            Some(number) => Ok(Some(number)),
            None => Err(self.wrong(name, &value, "a number that is not negative")),
        }
    }

    /// As [`Arguments::number`], where a fraction is an error.
    pub(crate) fn whole_number(&mut self, name: &str) -> Result<Option<u64>, ToolError> {
        let number = match self.members.get(name) {
            Some(Value::Number(number)) => number.as_f64(),
            Some(Value::String(text)) => text.trim().parse().ok(),
            _ => None,
        };
        match (number, self.members.get(name)) {
            (Some(number), Some(value)) if number.fract() != 0.0 => {
                Err(self.wrong(name, value, "a whole number"))
            }
            _ => self.number(name),
        }
    }

    /// A required number; `wanted` describes it.
    pub(crate) fn needed_number(&mut self, name: &str, wanted: &str) -> Result<u64, ToolError> {
        let missing = self.missing(name, wanted);
        self.number(name)?.ok_or(missing)
    }

    /// A boolean; `false` when absent.
    pub(crate) fn flag(&mut self, name: &str) -> Result<bool, ToolError> {
        let Some(value) = self.take(name) else { return Ok(false) };
        let flag = match &value {
            Value::Bool(flag) => Some(*flag),
            Value::String(text) => text.trim().to_ascii_lowercase().parse().ok(),
            _ => None,
        };
        flag.ok_or_else(|| self.wrong(name, &value, "true or false"))
    }

    /// A list of strings.
    pub(crate) fn words(&mut self, name: &str) -> Result<Option<Vec<String>>, ToolError> {
        match self.take(name) {
            None => Ok(None),
            Some(value) => match word_list(&value) {
                Some(words) => Ok(Some(words)),
                None => Err(self.wrong(name, &value, "a list of strings")),
            },
        }
    }

    /// A list of objects, which may be written as a string.
    pub(crate) fn objects(&mut self, name: &str) -> Result<Vec<Arguments<'n>>, ToolError> {
        let Some(mut value) = self.take(name) else {
            return Err(self.missing(name, "a list of objects"));
        };
        if let Value::String(text) = &value
            && let Ok(inner) = serde_json::from_str(text)
        {
            value = inner;
        }
        let tool = self.tool;
        let objects: Option<Vec<Arguments<'n>>> = value.as_array().and_then(|list| {
            let object = |value: &Value| value.as_object().cloned();
            list.iter().map(|value| Some(Arguments { tool, members: object(value)? })).collect()
        });
        objects.ok_or_else(|| self.wrong(name, &value, "a list of objects"))
    }

    /// An object, which may be written as a string.
    pub(crate) fn object(&mut self, name: &str) -> Result<Option<Arguments<'n>>, ToolError> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let inner = match &value {
            Value::String(text) => serde_json::from_str(text).unwrap_or(Value::Null),
            other => other.clone(),
        };
        match inner {
            Value::Object(members) => Ok(Some(Arguments { tool: self.tool, members })),
            _ => Err(self.wrong(name, &value, "an object")),
        }
    }

    /// As [`Arguments::objects`]; empty when absent.
    pub(crate) fn optional_objects(&mut self, name: &str) -> Result<Vec<Arguments<'n>>, ToolError> {
        match self.members.get(name) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(_) => self.objects(name),
        }
    }

    /// A command for a shell, and that shell when the call names it. A program with arguments is
    /// quoted.
    pub(crate) fn script(&mut self, name: &str) -> Result<(String, Option<String>), ToolError> {
        match self.take(name) {
            None => Err(self.missing(name, "a shell command")),
            Some(Value::String(script)) => Ok((script, None)),
            Some(value) => match word_list(&value).as_deref() {
                Some([shell, flag, script]) if is_shell(shell) && is_script_flag(flag) => {
                    Ok((script.clone(), Some(shell.clone())))
                }
                Some(words) => Ok((quoted(words), None)),
                None => Err(self.wrong(name, &value, "a shell command as a string")),
            },
        }
    }

    /// A program and its arguments; a line is a script for `bash`.
    pub(crate) fn command(&mut self, name: &str) -> Result<Vec<String>, ToolError> {
        match self.take(name) {
            None => Err(self.missing(name, "a program and its arguments")),
            Some(Value::String(script)) if script.trim().is_empty() => Ok(Vec::new()),
            Some(Value::String(script)) => match serde_json::from_str(&script) {
                Ok(words) => Ok(words),
                Err(_) => Ok(vec!["bash".to_owned(), "-c".to_owned(), script]),
            },
            Some(value) => {
                word_list(&value).ok_or_else(|| self.wrong(name, &value, "a list of strings"))
            }
        }
    }

    /// Refuses members that are not among `known`: a misspelt name must not pass for an absent
    /// member.
    pub(crate) fn check_names(&self, known: &[&str]) -> Result<(), ToolError> {
        let unknown = self.members.keys().find(|name| !known.contains(&name.as_str()));
        let Some(name) = unknown else { return Ok(()) };
        Err(self.fault(&format!(
            "there is no member {}; the members are {}",
            shown(&Value::from(name.as_str())),
            known.join(", ")
        )))
    }

    /// As [`Arguments::check_names`], of an object inside the arguments: `place` is its path.
    pub(crate) fn check_names_in(&self, place: &str, known: &[&str]) -> Result<(), ToolError> {
        let unknown = self.members.keys().find(|name| !known.contains(&name.as_str()));
        let Some(name) = unknown else { return Ok(()) };
        Err(self.fault(&format!(
            "`{place}` has no member {}; its members are {}",
            shown(&Value::from(name.as_str())),
            known.join(", ")
        )))
    }

    /// An error with this message.
    pub(crate) fn fault(&self, message: &str) -> ToolError {
        ToolError::new(format!("{}: {message}", self.tool))
    }

    /// A member; `null` counts as absent.
    fn take(&mut self, name: &str) -> Option<Value> {
        self.members.shift_remove(name).filter(|value| !value.is_null())
    }

    pub(crate) fn missing(&self, name: &str, wanted: &str) -> ToolError {
        ToolError::new(format!("{}: `{name}` is missing; give {wanted}", self.tool))
    }

    pub(crate) fn wrong(&self, name: &str, value: &Value, wanted: &str) -> ToolError {
        ToolError::new(format!("{}: `{name}` is {}; give {wanted}", self.tool, shown(value)))
    }
}

fn plain_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    }
}

fn word_list(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(plain_text).collect()
}

/// A float as a whole number. Huge ones become the largest.
fn whole(number: f64) -> Option<u64> {
    // The cast cuts off the fraction and saturates.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    (number >= 0.0).then_some(number as u64)
}

fn is_shell(program: &str) -> bool {
    matches!(program.rsplit('/').next(), Some("bash" | "sh" | "zsh"))
}

fn is_script_flag(flag: &str) -> bool {
    matches!(flag, "-c" | "-lc")
}

/// Words for a shell, each in quotes where it needs them.
fn quoted(words: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:,+@%".contains(c);
    let quote = |word: &String| match !word.is_empty() && word.chars().all(plain) {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    };
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}

/// A value for an error, shortened when it is long.
fn shown(value: &Value) -> String {
    const MAX: usize = 80;
    let text = value.to_string();
    match text.char_indices().nth(MAX) {
        None => format!("`{text}`"),
        Some((at, _)) => format!("`{}…`", &text[..at]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Arguments<'static> {
        Arguments::read("tool", text).unwrap()
    }

    #[test]
    fn numbers_flags_and_texts_are_read_in_any_form() {
        for (text, expected) in [
            ("{}", Ok(None)),
            ("", Ok(None)),
            ("null", Ok(None)),
            (r#"{"n":null}"#, Ok(None)),
            (r#"{"n":7}"#, Ok(Some(7))),
            (r#"{"n":1000.0}"#, Ok(Some(1000))),
            (r#"{"n":1e3}"#, Ok(Some(1000))),
            (r#"{"n":1.5}"#, Ok(Some(1))),
            (r#"{"n":" 7 "}"#, Ok(Some(7))),
            (r#""{\"n\":7}""#, Ok(Some(7))),
            (r#"{"n":-1}"#, Err("tool: `n` is `-1`; give a number that is not negative")),
            (r#"{"n":"soon"}"#, Err("tool: `n` is `\"soon\"`; give a number that is not negative")),
            (r#"{"n":[7]}"#, Err("tool: `n` is `[7]`; give a number that is not negative")),
        ] {
            assert_eq!(
                read(text).number("n").as_ref().map_err(ToolError::message),
                expected.as_ref().map_err(|e| *e),
                "{text}"
            );
        }
        for (text, expected) in
            [("true", true), ("\"True\"", true), ("\"false\"", false), ("null", false)]
        {
            assert_eq!(read(&format!("{{\"f\":{text}}}")).flag("f"), Ok(expected), "{text}");
        }
        assert_eq!(
            read(r#"{"f":1}"#).flag("f"),
            Err(ToolError::new("tool: `f` is `1`; give true or false"))
        );
        assert_eq!(read(r#"{"t":5}"#).text("t"), Ok(Some("5".into())));
        assert!(read(r#"{"t":{}}"#).text("t").is_err());
        assert!(
            Arguments::read("tool", "[1]")
                .is_err_and(|why| why.message().contains("must be a JSON object"))
        );
        assert!(
            Arguments::read("tool", "{").is_err_and(|why| why.message().contains("cannot be read"))
        );
    }

    #[test]
    fn whole_numbers_have_no_fraction() {
        for (text, expected) in [
            ("{}", Ok(None)),
            (r#"{"n":7.0}"#, Ok(Some(7))),
            (r#"{"n":" 7 "}"#, Ok(Some(7))),
            (r#"{"n":1.5}"#, Err("tool: `n` is `1.5`; give a whole number")),
            (r#"{"n":"1.5"}"#, Err("tool: `n` is `\"1.5\"`; give a whole number")),
        ] {
            let number = read(text).whole_number("n");
            let number = number.as_ref().map_err(ToolError::message);
            assert_eq!(number, expected.as_ref().map_err(|e| *e), "{text}");
        }
    }

    #[test]
    fn exact_arguments_keep_digits_and_order() {
        let exact = |text: &str| Arguments::exact("tool", text);
        for (text, expected) in [
            ("", "{}"),
            ("null", "{}"),
            (" { } ", "{}"),
            (
                r#"{ "z": 123456789012345678901234567890, "a": [1.50, -0, 1E2, {"b": null}] }"#,
                r#"{"z":123456789012345678901234567890,"a":[1.50,-0,1E2,{"b":null}]}"#,
            ),
            (r#"{"\u0061":"\u0072\u006d \"x\\ , \n\u0000"}"#, r#"{"a":"rm \"x\\ , \n\u0000"}"#),
            (r#""{\"n\": 12345678901234567890123}""#, r#"{"n":12345678901234567890123}"#),
            (
                r#"{"a":{"x":1},"b":{"x":1},"c":["x","x"]}"#,
                r#"{"a":{"x":1},"b":{"x":1},"c":["x","x"]}"#,
            ),
        ] {
            assert_eq!(exact(text).as_deref(), Ok(expected), "{text}");
        }
        for (text, why) in [
            (r#""x""#, "must be a JSON object, not `\"x\"`"),
            (r#"[1]"#, "must be a JSON object, not `[1]`"),
            ("\"\"", "must be a JSON object, not `\"\"`"),
            (r#""{x""#, "cannot be read"),
            (r#"{"a":1,"\u0061":2}"#, "the arguments name `a` twice in one object"),
            (r#"{"o":[{"a":1,"b":{"a":1},"a":2}]}"#, "name `a` twice"),
            (r#"{"x":{"$serde_json::private::RawValue":"{}"}}"#, "reserved name"),
            (r#"{"x":{"\u0024serde_json::private::Number":"1"}}"#, "reserved name"),
        ] {
            let error = exact(text).unwrap_err();
            assert!(error.message().contains(why), "{text}: {}", error.message());
        }
    }

    #[test]
    fn commands_are_read_as_lists_and_as_lines() {
        for (text, script, shell) in [
            (r#""ls -l""#, "ls -l", None),
            (r#"["ls","a b","it's"]"#, r"ls 'a b' 'it'\''s'", None),
            (r#"["bash","-lc","ls | wc"]"#, "ls | wc", Some("bash")),
            (r#"["/bin/sh","-c","ls"]"#, "ls", Some("/bin/sh")),
            (r#"["python","-c","1"]"#, "python -c 1", None),
            (r#"["sleep",1]"#, "sleep 1", None),
        ] {
            let expected = (script.to_owned(), shell.map(str::to_owned));
            assert_eq!(read(&format!("{{\"c\":{text}}}")).script("c"), Ok(expected), "{text}");
        }
        for (text, words) in [
            (r#"["ls","-l"]"#, &["ls", "-l"][..]),
            (r#""ls | wc""#, &["bash", "-c", "ls | wc"]),
            (r#""[\"ls\",\"-l\"]""#, &["ls", "-l"]),
            (r#"["sleep",1]"#, &["sleep", "1"]),
            (r#""""#, &[]),
        ] {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            assert_eq!(read(&format!("{{\"c\":{text}}}")).command("c"), Ok(words), "{text}");
        }
        assert!(read(r#"{"c":{"a":1}}"#).script("c").is_err());
        assert!(read(r#"{"c":[[]]}"#).command("c").is_err());
        assert!(read("{}").command("c").is_err_and(|why| why.message().contains("`c` is missing")));
    }
}
