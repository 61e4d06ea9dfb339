//! Tools that a client runs (specification: Dynamic tool call): their definitions are data.

use std::borrow::Cow;

use super::arguments::Arguments;
use super::tool::{CallCx, Step, Tool, ToolCall, described, tool_item};
use crate::Id;
use crate::port::item::Item;
use crate::port::tool_error::ToolError;
use crate::port::tool_set::{DynamicTool, ToolSet};
use crate::tools::rejected::RejectedCall;

#[derive(Debug)]
struct ClientCall {
    namespace: Option<String>,
    tool: String,
    arguments: String,
}

impl Tool for DynamicTool {
    fn name(&self) -> Cow<'_, str> {
        match &self.namespace {
            Some(_) => self.full_name().into(),
            None => Cow::Borrowed(&self.name),
        }
    }

    fn definition(&self, _: &ToolSet) -> Option<String> {
        Some(definition(self))
    }

    fn is_callable(&self, _: &ToolSet) -> bool {
        true
    }

    fn read(&self, arguments: &str) -> Result<Box<dyn ToolCall>, ToolError> {
        Ok(Box::new(ClientCall {
            namespace: self.namespace.clone(),
            tool: self.name.clone(),
            arguments: Arguments::exact(&self.full_name(), arguments)?,
        }))
    }

    fn rejected_item(&self, id: Id, call: &RejectedCall<'_>) -> Item {
        tool_item(id, self.namespace.clone(), self.name.clone(), call.json())
    }
}

/// Returns the definition that the model is offered.
pub(super) fn definition(tool: &DynamicTool) -> String {
    described(&tool.full_name(), &tool.description, &tool.schema)
}

impl ToolCall for ClientCall {
    fn begin(&self, _: &mut CallCx<'_>) -> Step {
        let Self { namespace, tool, arguments } = self;
        let (namespace, tool) = (namespace.clone(), tool.clone());
        Step::Delegate { namespace, tool, arguments: arguments.clone() }
    }
}
