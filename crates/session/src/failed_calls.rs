//! Tool calls that fail before they run. Each is shown as the item that its success would have
//! been, started and completed as failed, with the reason.

use std::path::PathBuf;

use serde_json::Value;

use crate::calls::Call;
use crate::history::{self, CallKind};
use crate::input::Attempted;
use crate::item::{Change, CommandItem, CommandSource, DynamicCall, Item, ItemStatus};
use crate::machine::Machine;
use crate::tools::ToolSet;
use crate::turn::closed_item;
use crate::{Id, output};

/// Bytes shown of a command whose arguments cannot be read.
const MAX_SHOWN: usize = 4_096;

/// A call as the model made it.
pub(crate) struct Called {
    pub(crate) call_id: String,
    /// Tells whether `input` is free text rather than JSON.
    pub(crate) kind: CallKind,
    pub(crate) name: String,
    pub(crate) input: String,
}

impl Machine {
    /// Answers a call that cannot be read, or that is one too many.
    pub(crate) fn reject_call(&mut self, turn: &Id, number: u64, called: Called, message: String) {
        let item = self.rejected_item(&called);
        self.show_failed(turn, item, &message);
        if let Some(active) = &mut self.turn {
            active.calls.push(Call::failed(number, called.call_id, called.kind, message));
        }
    }

    /// Shows an item that only the provider knows, and answers it where the model waits for that.
    pub(crate) fn unknown_item(
        &mut self,
        turn: &Id,
        kind: String,
        call_id: Option<String>,
        raw: &str,
    ) {
        let input = output::shorten(raw, MAX_SHOWN);
        let call_id = call_id.filter(|_| !history::is_output(&kind));
        if let Some(call_id) = call_id {
            let message = format!(
                "calls of the type `{kind}` cannot be carried out here; use one of the tools that \
                 the request offers"
            );
            let number = self.number();
            let name = kind.clone();
            let called = Called { call_id, kind: CallKind::Other(kind), name, input };
            return self.reject_call(turn, number, called, message);
        }
        let message = format!(
            "the model's response has an item of the type `{kind}`, which this version does not \
             know; it is kept for the model and has no other effect"
        );
        let arguments = serde_json::from_str(&input).unwrap_or(Value::String(input));
        let item = self.tool_item(None, kind, arguments.to_string());
        self.show_failed(turn, item, &message);
    }

    /// Answers a call that cannot be done.
    pub(crate) fn refuse_call(
        &mut self,
        turn: &Id,
        number: u64,
        attempted: Attempted,
        message: String,
    ) {
        let item = match attempted {
            Attempted::Command { display, cwd } => self.command_item(display, cwd),
            Attempted::Patch { changes } => self.patch_item(changes),
        };
        self.show_failed(turn, item, &message);
        self.answer(number, message);
    }

    /// Answers a call of a tool that shows no item when it succeeds.
    pub(crate) fn fail_tool(
        &mut self,
        turn: &Id,
        number: u64,
        tool: &str,
        arguments: &Value,
        message: String,
    ) {
        let item = self.tool_item(None, tool.to_owned(), arguments.to_string());
        self.show_failed(turn, item, &message);
        self.answer(number, message);
    }

    /// Shows an item that begins and fails at once.
    pub(crate) fn show_failed(&mut self, turn: &Id, item: Item, message: &str) {
        self.item_started(turn, item.clone());
        self.item_completed(turn, closed_item(item, ItemStatus::Failed, Some(message)));
    }

    /// What the call would have been shown as, as far as it can be read.
    fn rejected_item(&mut self, called: &Called) -> Item {
        let Called { name, input, kind, .. } = called;
        let is_json = *kind != CallKind::Custom;
        let arguments = is_json.then(|| serde_json::from_str::<Value>(input).ok()).flatten();
        let text = |member: &str| arguments.as_ref()?.get(member)?.as_str().map(str::to_owned);
        let kind = Shown::of_tool(&self.toolset(), name);
        match kind {
            Shown::Command => {
                let command = text("cmd").or_else(|| argv(arguments.as_ref()?));
                let command = command.unwrap_or_else(|| input.clone());
                let cwd = self.absolute(text("workdir"));
                self.command_item(output::shorten(&command, MAX_SHOWN), cwd)
            }
            Shown::Patch => self.patch_item(Vec::new()),
            Shown::Image => {
                let path = self.absolute(text("path"));
                self.image_item(path.display().to_string())
            }
            Shown::Tool { namespace, tool } => {
                let arguments = arguments.unwrap_or_else(|| Value::from(input.as_str()));
                self.tool_item(namespace, tool, arguments.to_string())
            }
        }
    }

    fn absolute(&self, path: Option<String>) -> PathBuf {
        let cwd = &self.settings.cwd;
        path.map_or_else(|| cwd.clone(), |path| cwd.join(path))
    }

    fn command_item(&mut self, command: String, cwd: PathBuf) -> Item {
        Item::Command(CommandItem {
            id: self.ids.item(),
            command,
            cwd,
            status: ItemStatus::InProgress,
            actions: Vec::new(),
            output: None,
            exit_code: None,
            duration_ms: None,
            process_id: None,
            source: CommandSource::Agent,
        })
    }

    fn patch_item(&mut self, changes: Vec<Change>) -> Item {
        let status = ItemStatus::InProgress;
        Item::FileChange { id: self.ids.item(), changes, status, reason: None }
    }

    pub(crate) fn image_item(&mut self, path: String) -> Item {
        Item::ImageView { id: self.ids.item(), path, reason: None }
    }

    fn tool_item(&mut self, namespace: Option<String>, tool: String, arguments: String) -> Item {
        Item::DynamicCall(DynamicCall {
            id: self.ids.item(),
            namespace,
            tool,
            arguments,
            status: ItemStatus::InProgress,
            answer: None,
            reason: None,
            duration_ms: None,
        })
    }
}

/// The kind of item that shows a call.
enum Shown {
    Command,
    Patch,
    Image,
    /// Tools of clients, unknown tools, and those that show no item when they succeed.
    Tool {
        namespace: Option<String>,
        tool: String,
    },
}

impl Shown {
    fn of_tool(tools: &ToolSet, name: &str) -> Self {
        if let Some(tool) = tools.dynamic(name) {
            return Self::Tool { namespace: tool.namespace.clone(), tool: tool.name.clone() };
        }
        match name {
            "exec_command" | "shell" if tools.has(name) => Self::Command,
            "apply_patch" if tools.has(name) => Self::Patch,
            "view_image" if tools.has(name) => Self::Image,
            _ => Self::Tool { namespace: None, tool: name.to_owned() },
        }
    }
}

/// The words of a `shell` call.
fn argv(arguments: &Value) -> Option<String> {
    let words = arguments.get("command")?.as_array()?;
    let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
    (!words.is_empty()).then(|| words.join(" "))
}
