//! `spawn_agents_on_csv`: gives each row of a CSV file to an agent of its own. The driver reads the
//! file and runs the job.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::agents;
use super::arguments::Arguments;
use super::tool::{CallCx, Found, Step, Tool, ToolCall, function};
use crate::plan_mode::CHANGES_NOTHING;
use crate::port::agent_request::{AgentJob, RUN_JOB as NAME};
use crate::port::tool_error::ToolError;
use crate::port::tool_set::ToolSet;

const MEMBERS: [&str; 8] = [
    "csv_path",
    "instruction",
    "id_column",
    "output_csv_path",
    "output_schema",
    "max_concurrency",
    "max_workers",
    "max_runtime_seconds",
];
/// Agents at once of a call that names no number.
const DEFAULT_CONCURRENCY: u64 = 16;
/// Most agents at once; a larger number is cut to it.
const MAX_CONCURRENCY: u64 = 64;
/// Most seconds for a row, as in `agents.job_max_runtime_seconds`; a larger number is cut to it.
const MAX_RUNTIME_SECONDS: u64 = 604_800;
/// Longest instruction in bytes.
const MAX_INSTRUCTION: usize = 256 * 1024;

pub(super) struct SpawnOnCsv;

impl Tool for SpawnOnCsv {
    fn name(&self) -> Cow<'_, str> {
        NAME.into()
    }

    fn definition(&self, tools: &ToolSet) -> Option<String> {
        if !agents::are_offered(tools) || tools.reads_only {
            return None;
        }
        let description = "Starts one agent for each row of a CSV file, many at once, and returns \
             when all have ended. Each agent gets the instruction with the values of its row, and \
             reports one result. The results are written to a CSV file with all columns of the \
             input and `status`, `result` (JSON) and `error`; the output counts them and shows the \
             first failures. When a job was interrupted, by a crash for example, call this again \
             with the same arguments: the job continues, and finished rows are not run again.";
        let text = |description: &str| json!({ "type": "string", "description": description });
        let number = |description: &str| json!({ "type": "number", "description": description });
        let mut properties = Map::new();
        let mut add = |name: &str, definition: Value| properties.insert(name.into(), definition);
        add("csv_path", text("The CSV file. Its first line names the columns."));
        add(
            "instruction",
            text(
                "What an agent is to do, with `{column}` for the values of its row. Write `{{` and \
                 `}}` for braces.",
            ),
        );
        add("id_column", text("The column with the ids of the rows; otherwise `row-1` and so on."));
        add("output_csv_path", text("The file for the results; otherwise next to the input."));
        add(
            "output_schema",
            json!({ "type": "object", "description": "JSON Schema that each result must fit." }),
        );
        add(
            "max_concurrency",
            number("How many agents work at once: 16 when left out, 64 at most."),
        );
        add("max_runtime_seconds", number("The longest time for a row."));
        let properties = Value::Object(properties);
        Some(function(NAME, description, &["csv_path", "instruction"], &properties))
    }

    fn is_callable(&self, tools: &ToolSet) -> bool {
        agents::are_callable(tools)
    }

    fn read(&self, arguments: &str) -> Result<Box<dyn ToolCall>, ToolError> {
        let mut arguments = Arguments::read(NAME, arguments)?;
        arguments.check_names(&MEMBERS)?;
        let shown = arguments.json();
        let job = AgentJob {
            arguments: shown,
            csv_path: path(&mut arguments, "csv_path")?
                .ok_or_else(|| arguments.missing("csv_path", "the path of a CSV file"))?,
            instruction: instruction(&mut arguments)?,
            id_column: arguments.text("id_column")?,
            output_csv_path: path(&mut arguments, "output_csv_path")?,
            output_schema: arguments.object("output_schema")?.map(Arguments::into_value),
            max_concurrency: concurrency(&mut arguments)?,
            max_runtime_seconds: match arguments.number("max_runtime_seconds")? {
                Some(0) => {
                    return Err(arguments.fault("`max_runtime_seconds` is 0; give 1 or more"));
                }
                given => given.map(|seconds| seconds.min(MAX_RUNTIME_SECONDS)),
            },
        };
        Ok(Box::new(JobCall(job)))
    }
}

/// A call that was read.
#[derive(Debug)]
struct JobCall(AgentJob);

impl ToolCall for JobCall {
    fn begin(&self, cx: &mut CallCx<'_>) -> Step {
        if cx.is_planning() {
            return self.fail(CHANGES_NOTHING.to_owned(), cx);
        }
        Step::PlanJob(Box::new(self.0.clone()))
    }

    fn prepared(&self, found: Found, cx: &mut CallCx<'_>) -> Option<Step> {
        let Found::JobOutput(found) = found else { return None };
        Some(match found {
            Ok(output) => Step::Job { job: Box::new(self.0.clone()), output: Box::new(output) },
            Err(error) => self.fail(error.into_message(), cx),
        })
    }
}

impl JobCall {
    fn fail(&self, message: String, cx: &mut CallCx<'_>) -> Step {
        let arguments = serde_json::from_str(&self.0.arguments).unwrap_or(Value::Null);
        cx.fail(NAME, &arguments, message)
    }
}

fn path(arguments: &mut Arguments<'_>, name: &str) -> Result<Option<String>, ToolError> {
    let path = arguments.text(name)?;
    if path.as_ref().is_some_and(|path| path.trim().is_empty() || path.contains('\0')) {
        return Err(arguments.wrong(name, &Value::from(path), "the path of a file"));
    }
    Ok(path)
}

fn instruction(arguments: &mut Arguments<'_>) -> Result<String, ToolError> {
    let wanted = "what each agent is to do, with `{column}` for the values of its row";
    let instruction = arguments.needed_text("instruction", wanted)?;
    if instruction.trim().is_empty() {
        return Err(arguments.wrong("instruction", &Value::from(instruction), wanted));
    }
    if instruction.len() > MAX_INSTRUCTION {
        return Err(arguments.fault(&format!(
            "`instruction` has {} bytes, more than {MAX_INSTRUCTION}; write long texts to a file \
             and name it",
            instruction.len()
        )));
    }
    Ok(instruction)
}

/// `max_concurrency`, which is also called `max_workers`.
fn concurrency(arguments: &mut Arguments<'_>) -> Result<usize, ToolError> {
    let (one, other) = (arguments.number("max_concurrency")?, arguments.number("max_workers")?);
    if let (Some(one), Some(other)) = (one, other)
        && one != other
    {
        return Err(arguments.fault(&format!(
            "`max_concurrency` is {one} and `max_workers`, its other name, is {other}; give one"
        )));
    }
    let number = one.or(other).unwrap_or(DEFAULT_CONCURRENCY);
    if number == 0 {
        return Err(arguments.fault("`max_concurrency` is 0; give 1 to 64"));
    }
    Ok(usize::try_from(number.min(MAX_CONCURRENCY)).unwrap_or(usize::MAX))
}
