//! `read_tool_output`: more of an output that was too long for one answer.

use std::borrow::Cow;

use serde_json::json;

use super::arguments::Arguments;
use super::tool::{CallCx, Step, Tool, ToolCall, function};
use crate::history::CallOutput;
use crate::outputs::{Outputs, Piece};
use crate::port::thread::Limits;
use crate::port::tool_error::ToolError;
use crate::port::tool_set::ToolSet;

const NAME: &str = "read_tool_output";
/// About how many bytes make a token.
const BYTES_A_TOKEN: u64 = 4;

pub(super) struct ReadToolOutput;

#[derive(Debug)]
struct ReadCall {
    output: u64,
    offset: u64,
}

impl Tool for ReadToolOutput {
    fn name(&self) -> Cow<'_, str> {
        NAME.into()
    }

    fn definition(&self, tools: &ToolSet) -> Option<String> {
        let description = "Returns more of a tool's output that was too long for one answer. The \
                           answer names the output and where it goes on.";
        let properties = json!({
            "output_id": { "type": "number", "description": "The output, as the answer names it." },
            "offset": { "type": "number", "description": "Where to begin, in bytes. Default: 0." },
        });
        let definition = || function(NAME, description, &["output_id"], &properties);
        self.is_callable(tools).then(definition)
    }

    fn is_callable(&self, tools: &ToolSet) -> bool {
        !tools.server_tools.is_empty()
    }

    fn read(&self, arguments: &str) -> Result<Box<dyn ToolCall>, ToolError> {
        let mut arguments = Arguments::read(NAME, arguments)?;
        let missing = arguments.missing("output_id", "the output that the answer names");
        let output = arguments.whole_number("output_id")?.ok_or(missing)?;
        let offset = arguments.whole_number("offset")?.unwrap_or(0);
        Ok(Box::new(ReadCall { output, offset }))
    }
}

impl ToolCall for ReadCall {
    fn begin(&self, cx: &mut CallCx<'_>) -> Step {
        let offset = usize::try_from(self.offset).unwrap_or(usize::MAX);
        let most = budget(&cx.cx.limits);
        match cx.outputs.piece(self.output, offset, most) {
            Some(piece) => Step::Finish(CallOutput::Text(written(&piece, self.output))),
            None => {
                let arguments = json!({ "output_id": self.output, "offset": self.offset });
                let message = format!(
                    "the output {} is not kept, or no longer; call the tool that returned it again",
                    self.output
                );
                cx.fail(NAME, &arguments, message)
            }
        }
    }
}

/// Bytes of an answer.
fn budget(limits: &Limits) -> usize {
    usize::try_from(limits.tool_output_tokens.saturating_mul(BYTES_A_TOKEN)).unwrap_or(usize::MAX)
}

/// The beginning of an output for the model; one that is too long is kept, and says how to read on.
pub(crate) fn bounded(text: String, outputs: &mut Outputs, limits: &Limits) -> String {
    let most = budget(limits);
    if text.len() <= most {
        return text;
    }
    let number = outputs.keep(&text);
    match outputs.piece(number, 0, most) {
        Some(piece) => written(&piece, number),
        None => text,
    }
}

fn written(piece: &Piece<'_>, number: u64) -> String {
    let Piece { text, start, total } = piece;
    let end = start + text.len();
    match piece.next() {
        Some(next) => format!(
            "{text}\n[bytes {start} to {end} of {total}; `{NAME}` with {{\"output_id\": {number}, \
             \"offset\": {next}}} returns what follows]"
        ),
        None => format!("{text}\n[bytes {start} to {end} of {total}: the end]"),
    }
}
