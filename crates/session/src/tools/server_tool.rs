//! Tools of MCP servers: their definitions are data, and each call is bound to the tool of the server
//! that was offered under the name.

use std::borrow::Cow;
use std::sync::Arc;

use super::arguments::Arguments;
use super::tool::{CallCx, Step, Tool, ToolCall, described};
use crate::Id;
use crate::port::item::Item;
use crate::port::server_tool::{ServerCall, ServerTool, ToolTarget};
use crate::port::tool_error::ToolError;
use crate::port::tool_set::ToolSet;
use crate::tools::rejected::RejectedCall;

#[derive(Debug)]
struct BoundCall {
    target: Arc<ToolTarget>,
    arguments: String,
}

impl Tool for ServerTool {
    fn name(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.name)
    }

    fn definition(&self, _: &ToolSet) -> Option<String> {
        Some(definition(self))
    }

    fn is_callable(&self, _: &ToolSet) -> bool {
        true
    }

    fn read(&self, arguments: &str) -> Result<Box<dyn ToolCall>, ToolError> {
        let arguments = Arguments::exact(&self.name, arguments)?;
        Ok(Box::new(BoundCall { target: self.target.clone(), arguments }))
    }

    fn rejected_item(&self, id: Id, call: &RejectedCall<'_>) -> Item {
        Item::ServerCall(Box::new(ServerCall::started(id, self.target.clone(), call.json())))
    }
}

/// Returns the definition that the model is offered.
pub(super) fn definition(tool: &ServerTool) -> String {
    described(&tool.name, &tool.description, &tool.schema)
}

impl ToolCall for BoundCall {
    fn begin(&self, _: &mut CallCx<'_>) -> Step {
        Step::CallServer { target: self.target.clone(), arguments: self.arguments.clone() }
    }
}
