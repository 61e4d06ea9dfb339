//! `report_agent_job_result`: how an agent that works on a row of a job hands in its result.

use std::borrow::Cow;

use serde_json::json;

use super::arguments::Arguments;
use super::tool::{CallCx, Step, Tool, ToolCall, function};
use crate::port::agent_request::{AgentRequest, JobReport, REPORT as NAME};
use crate::port::tool_error::ToolError;
use crate::port::tool_set::ToolSet;

const MEMBERS: [&str; 4] = ["job_id", "item_id", "result", "stop"];

pub(super) struct Report;

impl Tool for Report {
    fn name(&self) -> Cow<'_, str> {
        NAME.into()
    }

    fn definition(&self, tools: &ToolSet) -> Option<String> {
        let description = "Hands in the result of your row. Call it exactly once: your work ends \
             with it, and without it the row fails.";
        let text = |description: &str| json!({ "type": "string", "description": description });
        let result = json!({ "type": "object", "description": "The result: a JSON object." });
        let stop = "Whether to end the whole job here: no further row is worked on.";
        let properties = json!({
            "job_id": text("The job, as in your instruction."),
            "item_id": text("The row, as in your instruction."),
            "result": result,
            "stop": { "type": "boolean", "description": stop },
        });
        let required = ["job_id", "item_id", "result"];
        self.is_callable(tools).then(|| function(NAME, description, &required, &properties))
    }

    fn is_callable(&self, tools: &ToolSet) -> bool {
        tools.agents.as_ref().is_some_and(|agents| agents.is_job_worker)
    }

    fn read(&self, arguments: &str) -> Result<Box<dyn ToolCall>, ToolError> {
        let mut arguments = Arguments::read(NAME, arguments)?;
        arguments.check_names(&MEMBERS)?;
        let report = JobReport {
            arguments: arguments.json(),
            job: arguments.text("job_id")?,
            item: arguments.text("item_id")?,
            result: arguments
                .object("result")?
                .map(Arguments::into_value)
                .ok_or_else(|| arguments.missing("result", "a JSON object"))?,
            stop: arguments.flag("stop")?,
        };
        Ok(Box::new(ReportCall(report)))
    }
}

/// A call that was read.
#[derive(Debug)]
struct ReportCall(JobReport);

impl ToolCall for ReportCall {
    fn begin(&self, _: &mut CallCx<'_>) -> Step {
        Step::Agents(AgentRequest::ReportJobResult(self.0.clone()))
    }
}
