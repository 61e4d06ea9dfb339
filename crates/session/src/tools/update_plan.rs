//! `update_plan`: shows the user the steps of the work.

use std::borrow::Cow;

use serde_json::json;

use super::arguments::Arguments;
use super::tool::{CallCx, Step, Tool, ToolCall, function};
use crate::history::CallOutput;
use crate::port::event::{Event, PlanStep, PlanStepStatus};
use crate::port::tool_error::ToolError;
use crate::port::tool_set::ToolSet;

const NAME: &str = "update_plan";
const STATUSES: &str = "`pending`, `in_progress` or `completed`";

pub(super) struct UpdatePlan;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct PlanCall {
    pub(super) explanation: Option<String>,
    pub(super) plan: Vec<PlanStep>,
}

impl Tool for UpdatePlan {
    fn name(&self) -> Cow<'_, str> {
        NAME.into()
    }

    fn definition(&self, _: &ToolSet) -> Option<String> {
        let description = "Shows the user the steps of the work and where each stands.";
        let properties = json!({
            "explanation": { "type": "string" },
            "plan": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "step": { "type": "string" },
                        "status": { "type": "string", "enum": ["pending", "in_progress", "completed"] },
                    },
                    "required": ["step", "status"],
                    "additionalProperties": false,
                },
            },
        });
        Some(function(NAME, description, &["plan"], &properties))
    }

    fn is_callable(&self, _: &ToolSet) -> bool {
        true
    }

    fn read(&self, arguments: &str) -> Result<Box<dyn ToolCall>, ToolError> {
        Ok(Box::new(PlanCall::read(arguments)?))
    }
}

impl PlanCall {
    pub(super) fn read(arguments: &str) -> Result<Self, ToolError> {
        let mut arguments = Arguments::read(NAME, arguments)?;
        let explanation = arguments.text("explanation")?;
        let mut plan = Vec::new();
        for mut step in arguments.objects("plan")? {
            plan.push(PlanStep {
                step: step.needed_text("step", "what is to be done")?,
                status: status(&step.needed_text("status", STATUSES)?)?,
            });
        }
        Ok(Self { explanation, plan })
    }
}

/// A status in any spelling with only one meaning.
fn status(text: &str) -> Result<PlanStepStatus, ToolError> {
    let letters = |c: &char| c.is_ascii_alphabetic();
    let plain: String = text.chars().filter(letters).map(|c| c.to_ascii_lowercase()).collect();
    match plain.as_str() {
        "pending" | "todo" | "notstarted" => Ok(PlanStepStatus::Pending),
        "inprogress" | "active" | "started" => Ok(PlanStepStatus::InProgress),
        "completed" | "complete" | "done" => Ok(PlanStepStatus::Completed),
        _ => {
            let message = format!("update_plan: `status` must be {STATUSES}, not `{text}`");
            Err(ToolError::new(message))
        }
    }
}

impl ToolCall for PlanCall {
    fn begin(&self, cx: &mut CallCx<'_>) -> Step {
        let Self { explanation, plan } = self.clone();
        cx.cx.emit(Event::PlanUpdated { turn: cx.turn.clone(), explanation, plan });
        Step::Finish(CallOutput::Text("Plan updated".into()))
    }
}
