//! A tool call as hooks see it, and what they say about it.

use hooks::{EventName, Permission, ToolUse};
use serde_json::{Map, Value, json};

use super::Called;
use crate::approvals::Verdict;
use crate::history::CallKind;
use crate::port::hook::HookEvents;

/// The name by which hooks know every tool that runs commands.
const COMMAND: &str = "Bash";
/// Further names of the tool that changes files.
const EDITS: &[&str] = &["Edit", "Write"];
/// Those of a command that may be a patch.
const PATCH_COMMANDS: &[&str] = &["apply_patch", "Edit", "Write"];

/// A call that hooks may be about.
pub(crate) struct Hooked {
    /// The call as the model made it, or as a hook changed it.
    pub(crate) called: Called,
    /// The same for hooks.
    pub(crate) tool: ToolUse,
    /// True if hooks are to run before it begins.
    pub(crate) is_unchecked: bool,
    /// True if hooks read its result.
    pub(crate) reads_answer: bool,
    /// The hook's decision in the user's place.
    pub(crate) permission: Option<Permission>,
}

impl Hooked {
    /// The call, when any hook is about calls.
    pub(crate) fn new(called: &Called, events: HookEvents) -> Option<Box<Self>> {
        if !events.has_calls() {
            return None;
        }
        let Called { call_id, kind, name, input, previewed } = called;
        let called = Called {
            call_id: call_id.clone(),
            kind: kind.clone(),
            name: name.clone(),
            input: input.clone(),
            previewed: previewed.clone(),
        };
        let tool = tool_use(&called);
        let is_unchecked = events.has(EventName::PreToolUse);
        let reads_answer = events.has(EventName::PostToolUse);
        Some(Box::new(Self { called, tool, is_unchecked, reads_answer, permission: None }))
    }

    /// Takes over arguments that a hook gives in place of the model's.
    ///
    /// # Errors
    /// They do not fit the tool: a sentence for the model.
    pub(crate) fn update(&mut self, updated: Value) -> Result<(), String> {
        let input = match shape(&self.called) {
            Shape::Line(member) => {
                let mut arguments = object(&self.called.input);
                arguments.insert(member.to_owned(), command_of(&updated)?.into());
                Value::Object(arguments).to_string()
            }
            Shape::Argv => {
                let mut arguments = object(&self.called.input);
                let argv = json!(["bash", "-c", command_of(&updated)?]);
                arguments.insert("command".to_owned(), argv);
                Value::Object(arguments).to_string()
            }
            Shape::Text => command_of(&updated)?.to_owned(),
            Shape::Arguments => updated.to_string(),
        };
        self.called.input = input;
        self.tool = tool_use(&self.called);
        Ok(())
    }
}

/// Applies what a hook says to what the policy decided: its consent answers a question, and its
/// question precedes what could run. A refusal of the policy stands.
pub(crate) fn weighed(verdict: Verdict, permission: Option<&Permission>, can_ask: bool) -> Verdict {
    match (verdict, permission) {
        (Verdict::Ask { unsandboxed, .. }, Some(Permission::Allow)) => Verdict::Run { unsandboxed },
        (Verdict::Run { .. }, Some(Permission::Ask(_))) if !can_ask => Verdict::Refuse(
            "a hook wants the user to be asked, which the approval policy does not allow"
                .to_owned(),
        ),
        (Verdict::Run { unsandboxed }, Some(Permission::Ask(why))) => {
            Verdict::Ask { reason: Some(question(why.as_deref())), unsandboxed }
        }
        (Verdict::Ask { reason, unsandboxed }, Some(Permission::Ask(why))) => {
            let question = question(why.as_deref());
            let reason = match reason {
                Some(reason) => format!("{question}\n{reason}"),
                None => question,
            };
            Verdict::Ask { reason: Some(reason), unsandboxed }
        }
        (verdict, _) => verdict,
    }
}

fn question(why: Option<&str>) -> String {
    match why {
        Some(why) => format!("a hook asks for your approval: {why}"),
        None => "a hook asks for your approval".to_owned(),
    }
}

/// Where a call has what hooks read and change.
enum Shape {
    /// A member with a command line.
    Line(&'static str),
    /// A program and its arguments.
    Argv,
    /// The call is its text.
    Text,
    /// All arguments.
    Arguments,
}

fn shape(called: &Called) -> Shape {
    match (called.name.as_str(), &called.kind) {
        ("exec_command", CallKind::Function) => Shape::Line("cmd"),
        ("write_stdin", CallKind::Function) if types_text(&called.input) => Shape::Line("chars"),
        ("shell", CallKind::Function) => Shape::Argv,
        ("apply_patch", CallKind::Function) => Shape::Line("input"),
        (_, CallKind::Custom) => Shape::Text,
        _ => Shape::Arguments,
    }
}

fn tool_use(called: &Called) -> ToolUse {
    let is_command = match called.name.as_str() {
        "exec_command" | "shell" => true,
        "write_stdin" => types_text(&called.input),
        _ => false,
    };
    let name = if is_command { COMMAND } else { &called.name };
    let input = match shape(called) {
        Shape::Line(member) => {
            let line = object(&called.input).shift_remove(member).unwrap_or_default();
            json!({ "command": line })
        }
        Shape::Argv => json!({ "command": line_of(object(&called.input).shift_remove("command")) }),
        Shape::Text => json!({ "command": called.input }),
        Shape::Arguments => serde_json::from_str(&called.input)
            .unwrap_or_else(|_| Value::String(called.input.clone())),
    };
    let aliases = match called.name.as_str() {
        "apply_patch" => EDITS,
        // A command can turn out to be a patch: guards of files look at it too.
        _ if is_command && called.input.contains("apply_patch") => PATCH_COMMANDS,
        _ => &[],
    };
    ToolUse { name: name.to_owned(), aliases, input, call_id: called.call_id.clone() }
}

/// Returns whether a call types into a running command, and does not only wait for it.
fn types_text(input: &str) -> bool {
    object(input).get("chars").and_then(Value::as_str).is_some_and(|chars| !chars.is_empty())
}

/// The line of a shell that a program and its arguments are, or the script of one that is started.
fn line_of(argv: Option<Value>) -> Value {
    let Some(Value::Array(argv)) = argv else { return argv.unwrap_or_default() };
    let words: Vec<&str> = argv.iter().filter_map(Value::as_str).collect();
    match words.as_slice() {
        ["bash" | "sh" | "zsh", "-c" | "-lc", script] => Value::String((*script).to_owned()),
        words => Value::String(words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")),
    }
}

fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:,+@%".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

fn object(json: &str) -> Map<String, Value> {
    serde_json::from_str(json).unwrap_or_default()
}

fn command_of(updated: &Value) -> Result<&str, String> {
    let command = updated.get("command").and_then(Value::as_str);
    command.ok_or_else(|| {
        "a hook changed the call to one without a command, so that it was not carried out"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called(name: &str, kind: CallKind, input: &str) -> Called {
        let (name, input) = (name.into(), input.into());
        Called { call_id: "c".into(), kind, name, input, previewed: None }
    }

    #[test]
    fn calls_have_one_form_for_hooks() {
        use CallKind::{Custom, Function};
        let cases = [
            (
                "exec_command",
                Function,
                r#"{"cmd": "ls -l", "tty": true}"#,
                "Bash",
                json!({"command": "ls -l"}),
            ),
            (
                "shell",
                Function,
                r#"{"command": ["ls", "a b", "it's"]}"#,
                "Bash",
                json!({"command": r"ls 'a b' 'it'\''s'"}),
            ),
            (
                "shell",
                Function,
                r#"{"command": ["bash", "-lc", "ls | wc"]}"#,
                "Bash",
                json!({"command": "ls | wc"}),
            ),
            ("apply_patch", Custom, "*** Begin", "apply_patch", json!({"command": "*** Begin"})),
            (
                "apply_patch",
                Function,
                r#"{"input": "*** Begin"}"#,
                "apply_patch",
                json!({"command": "*** Begin"}),
            ),
            ("mcp__s__t", Function, r#"{"a": 1}"#, "mcp__s__t", json!({"a": 1})),
            ("update_plan", Function, "{", "update_plan", json!("{")),
            (
                "write_stdin",
                Function,
                r#"{"session_id": 1, "chars": "rm x\n"}"#,
                "Bash",
                json!({"command": "rm x\n"}),
            ),
            (
                "write_stdin",
                Function,
                r#"{"session_id": 1, "chars": ""}"#,
                "write_stdin",
                json!({"session_id": 1, "chars": ""}),
            ),
        ];
        for (name, kind, input, expected, arguments) in cases {
            let tool = tool_use(&called(name, kind, input));
            assert_eq!((tool.name.as_str(), tool.input), (expected, arguments), "{input}");
        }
    }

    #[test]
    fn a_hook_changes_what_it_reads() {
        use CallKind::{Custom, Function};
        let events = EventName::ALL.into_iter().collect();
        let update = |name: &str, kind, input: &str, updated: Value| {
            let mut hooked = Hooked::new(&called(name, kind, input), events).unwrap();
            hooked.update(updated).map(|()| hooked.called.input)
        };
        let new = || json!({"command": "pwd"});
        assert_eq!(
            update("exec_command", Function, r#"{"cmd":"ls","tty":true}"#, new()).unwrap(),
            r#"{"cmd":"pwd","tty":true}"#
        );
        assert_eq!(
            update("shell", Function, r#"{"command":["ls"]}"#, new()).unwrap(),
            r#"{"command":["bash","-c","pwd"]}"#
        );
        assert_eq!(update("apply_patch", Custom, "x", new()).unwrap(), "pwd");
        assert_eq!(update("mcp__s__t", Function, "{}", json!({"a": 1})).unwrap(), r#"{"a":1}"#);
        assert!(update("shell", Function, "{}", json!({"a": 1})).is_err());
    }

    #[test]
    fn a_refusal_of_the_policy_stands() {
        let ask = || Verdict::Ask { reason: None, unsandboxed: true };
        let refuse = || Verdict::Refuse("no".into());
        let ask_user = Permission::Ask(None);
        let (allow, question) = (Some(&Permission::Allow), Some(&ask_user));
        assert!(matches!(weighed(ask(), allow, true), Verdict::Run { unsandboxed: true }));
        assert!(matches!(weighed(refuse(), allow, true), Verdict::Refuse(_)));
        assert!(matches!(weighed(Verdict::Fail("no".into()), allow, true), Verdict::Fail(_)));
        let run = || Verdict::Run { unsandboxed: false };
        assert!(matches!(weighed(run(), question, true), Verdict::Ask { unsandboxed: false, .. }));
        assert!(matches!(weighed(run(), question, false), Verdict::Refuse(_)));
        assert!(matches!(weighed(run(), None, true), Verdict::Run { .. }));
    }
}
