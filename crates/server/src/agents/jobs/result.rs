//! `report_agent_job_result`: takes the result of a row, stores it, and answers the worker.

use std::sync::Arc;

use serde_json::json;
use session::{AgentOutcome, JobReport, ToolError};
use store::{JobItemOutcome, JobWrite, Write};

use super::rows::Row;
use crate::agents::{AgentCaller, Agents};

/// The tool, for errors.
const NAME: &str = "report_agent_job_result";

/// Largest result in bytes of JSON.
const MAX_RESULT: usize = 64 * 1024;

impl Agents {
    pub(in crate::agents) async fn report_job_result(
        self: &Arc<Self>,
        caller: &AgentCaller,
        report: JobReport,
    ) -> Result<AgentOutcome, ToolError> {
        let failed = |why: String| ToolError::new(format!("{NAME}: {why}"));
        let row = self.rows.of_worker(&caller.id).ok_or_else(|| {
            failed("your row has ended, so it takes no result; end your work".to_owned())
        })?;
        let result = check(&row, &report).map_err(failed)?;
        if !row.begin_report() {
            return Err(failed(match row.is_closed() {
                true => "your row has ended, so it takes no result; end your work".to_owned(),
                false => "the row has a result already; report exactly once".to_owned(),
            }));
        }
        if !row.take_room(result.len() as u64) {
            row.end_report(false);
            return Err(failed(
                "the results of the job have no more room; report less, or write the result to a \
                 file and report its path"
                    .to_owned(),
            ));
        }
        // A task: the result may be stored although the worker is interrupted meanwhile.
        let (agents, stored) = (self.clone(), row.clone());
        let storing = tokio::spawn(async move {
            let outcome = agents.store_result(&stored, result).await;
            stored.end_report(outcome.is_ok());
            outcome
        });
        let outcome = storing.await.map_err(|error| failed(error.to_string()))?;
        outcome.map_err(|error| failed(format!("the result cannot be stored: {error}")))?;
        if report.stop {
            row.stop.send_replace(true);
        }
        let output = json!({ "accepted": true, "job_id": row.job_id, "item_id": row.id });
        Ok(AgentOutcome {
            receivers: Vec::new(),
            spawned: None,
            states: Vec::new(),
            model: None,
            effort: None,
            output: Ok(output.to_string()),
        })
    }

    async fn store_result(&self, row: &Row, result: String) -> Result<(), crate::error::Error> {
        let outcome = JobItemOutcome::Completed(result);
        let write = JobWrite::FinishItem { job: row.job_key, number: row.number, outcome };
        let write = Write::Job { thread: row.thread.clone(), write };
        Ok(self.store.get().await?.commit(vec![write]).await?)
    }
}

/// The result as JSON, when it is one for this row.
fn check(row: &Row, report: &JobReport) -> Result<String, String> {
    for (name, given, own) in
        [("job_id", &report.job, &row.job_id), ("item_id", &report.item, &row.id)]
    {
        if let Some(given) = given
            && given != own
        {
            let given: String = given.chars().take(80).collect();
            return Err(format!("`{name}` is `{given}`, but yours is `{own}`"));
        }
    }
    if let Some(schema) = &row.plan.schema {
        schema.check(&report.result).map_err(|why| {
            format!("the result does not fit the schema: {why}; correct it and report again")
        })?;
    }
    let result = report.result.to_string();
    if result.len() > MAX_RESULT {
        return Err(format!(
            "the result has {} bytes, more than {MAX_RESULT}; report less, or write it to a file \
             and report its path",
            result.len()
        ));
    }
    Ok(result)
}
