//! `apply_patch`: edits files with one patch, as a function or as a custom tool with a grammar.

use std::borrow::Cow;

use serde_json::json;

use super::arguments::Arguments;
use super::tool::{CallCx, Found, Step, Tool, ToolCall, function};
use crate::Id;
use crate::port::item::{Item, ItemStatus};
use crate::port::tool::ToolRequest;
use crate::port::tool_error::ToolError;
use crate::port::tool_set::{PatchTool, ToolSet};
use crate::tools::rejected::RejectedCall;

const NAME: &str = "apply_patch";
/// The member of the arguments, and its names in tools of other agents.
const MEMBERS: [&str; 4] = ["input", "patch", "command", "cmd"];

/// The format, in a word.
macro_rules! format_text {
    () => {
        "The patch begins with `*** Begin Patch` and ends with `*** End Patch`. Between them: \
         `*** Add File: PATH` and lines with `+`; `*** Delete File: PATH`; `*** Update File: PATH`, \
         perhaps `*** Move to: PATH`, and hunks that begin with `@@` and hold lines with ` `, `-` or \
         `+`."
    };
}

const DESCRIPTION: &str = concat!("Edits files with one patch. ", format_text!());

/// For a model that edits files by a command of the shell: [`PatchTool::Shell`].
pub(crate) const SHELL_INSTRUCTIONS: &str = concat!(
    "# How to edit files\n\nRun `apply_patch` as a shell command of its own, with one patch as a \
     here-document: `apply_patch <<'EOF'`, the patch, `EOF`. ",
    format_text!()
);

pub(super) struct ApplyPatch;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct PatchCall {
    pub(super) text: String,
}

impl Tool for ApplyPatch {
    fn name(&self) -> Cow<'_, str> {
        NAME.into()
    }

    fn definition(&self, tools: &ToolSet) -> Option<String> {
        if tools.reads_only {
            return None;
        }
        match tools.patch {
            PatchTool::Off | PatchTool::Shell => None,
            PatchTool::Custom => Some(
                json!({
                    "type": "custom",
                    "name": NAME,
                    "description": DESCRIPTION,
                    "format": { "type": "grammar", "syntax": "lark", "definition": include_str!("apply_patch.lark") },
                })
                .to_string(),
            ),
            PatchTool::Function => {
                let input = json!({ "type": "string", "description": "The patch." });
                Some(function(NAME, DESCRIPTION, &["input"], &json!({ "input": input })))
            }
        }
    }

    fn is_callable(&self, tools: &ToolSet) -> bool {
        tools.patch != PatchTool::Off
    }

    fn takes_text(&self) -> bool {
        true
    }

    fn read(&self, arguments: &str) -> Result<Box<dyn ToolCall>, ToolError> {
        Ok(Box::new(PatchCall::read(arguments)?))
    }

    fn rejected_item(&self, id: Id, _: &RejectedCall<'_>) -> Item {
        let (changes, status) = (Vec::new(), ItemStatus::InProgress);
        Item::FileChange { id, changes, status, reason: None }
    }
}

impl PatchCall {
    /// Models that know the function write its arguments as the text of the custom tool, and the
    /// other way round.
    pub(super) fn read(input: &str) -> Result<Self, ToolError> {
        let unquoted = serde_json::from_str::<String>(input).ok();
        let input = unquoted.as_deref().unwrap_or(input);
        if !input.trim_start().starts_with('{') {
            return Ok(Self { text: input.to_owned() });
        }
        let mut arguments = Arguments::read(NAME, input)?;
        for member in MEMBERS {
            if let Some(text) = arguments.patch(member)? {
                return Ok(Self { text });
            }
        }
        Err(ToolError::new("apply_patch: `input` is missing; give the text of the patch"))
    }
}

impl ToolCall for PatchCall {
    /// A patch changes what others read.
    fn is_exclusive(&self) -> bool {
        true
    }

    fn begin(&self, _: &mut CallCx<'_>) -> Step {
        Step::Prepare(ToolRequest::Patch { text: self.text.clone() })
    }

    fn prepared(&self, found: Found, _: &mut CallCx<'_>) -> Option<Step> {
        match found {
            Found::Patch(plan) => Some(Step::Patch(plan)),
            Found::Command(_) | Found::Image(_) | Found::Permissions(_) | Found::JobOutput(_) => {
                None
            }
        }
    }
}
