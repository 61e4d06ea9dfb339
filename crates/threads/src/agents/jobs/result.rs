//! `report_agent_job_result`: takes the result of a row, stores it, and answers the worker.

use std::sync::Arc;

use serde_json::json;
use session::{AgentOutcome, JobReport, ToolError};
use store::{JobItemOutcome, JobWrite, StoreError, Write};

use super::rows::Row;
use crate::agents::{AgentCaller, Agents};

/// The tool, for errors.
const NAME: &str = "report_agent_job_result";

/// Why a row takes no result.
const ROW_ENDED: &str = "your row has ended, so it takes no result; end your work";

/// Largest result in bytes of JSON.
const MAX_RESULT: usize = 64 * 1024;

impl Agents {
    pub(in crate::agents) async fn report_job_result(
        self: &Arc<Self>,
        caller: &AgentCaller,
        report: JobReport,
    ) -> Result<AgentOutcome, ToolError> {
        let failed = |why: String| ToolError::new(format!("{NAME}: {why}"));
        let row = self.rows.of_worker(&caller.id).ok_or_else(|| failed(ROW_ENDED.to_owned()))?;
        let result = check(&row, &report).map_err(failed)?;
        let Some(reporting) = row.begin_report() else {
            return Err(failed(match row.is_closed() {
                true => ROW_ENDED.to_owned(),
                false => "the row has a result already; report exactly once".to_owned(),
            }));
        };
        let Some(room) = row.room.take(result.len() as u64) else {
            return Err(failed(
                "the results of the job have no more room; report less, or write the result to a \
                 file and report its path"
                    .to_owned(),
            ));
        };
        let ends_job = report.stop;
        // A task: the result may be stored although the worker is interrupted meanwhile.
        let storing = tokio::spawn(async move {
            store_result(reporting.row(), result, ends_job).await?;
            room.keep();
            if ends_job {
                reporting.row().course.end();
            }
            reporting.stored();
            Ok(())
        });
        let outcome = storing.await.map_err(|error| failed(error.to_string()))?;
        outcome.map_err(|error: StoreError| {
            failed(match error {
                StoreError::JobItemEnded { .. } => ROW_ENDED.to_owned(),
                error => format!("the result cannot be stored: {error}; report again"),
            })
        })?;
        let output =
            json!({ "accepted": true, "job_id": row.place.job_id, "item_id": row.place.id });
        Ok(AgentOutcome {
            receivers: Vec::new(),
            spawned: None,
            states: Vec::new(),
            model: None,
            effort: None,
            output: Ok(output.to_string()),
        })
    }
}

async fn store_result(row: &Row, result: String, ends_job: bool) -> Result<(), StoreError> {
    let place = &row.place;
    let write = JobWrite::FinishItem {
        job: place.job_key,
        number: place.number,
        worker: place.worker.clone(),
        outcome: JobItemOutcome::Completed { result, ends_job },
    };
    row.store.commit(vec![Write::Job { thread: place.thread.clone(), write }]).await
}

/// The result as JSON, when it is one for this row.
fn check(row: &Row, report: &JobReport) -> Result<String, String> {
    for (name, given, own) in
        [("job_id", &report.job, &row.place.job_id), ("item_id", &report.item, &row.place.id)]
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
