//! Jobs: `spawn_agents_on_csv` gives each row of a table to a worker, an agent of its own, and each
//! worker hands in one result with `report_agent_job_result`.
//!
//! Before a job begins, the file that it writes is decided about (`planning`), as a patch is.
//!
//! A job and its rows are in the store. A row is finished once its result or its own error is stored.
//! A job that a crash or an interruption cut short, or whose workers were stopped, continues with the
//! other rows when the same call is made again in the same thread.

mod claims;
mod course;
mod ephemeral;
mod export;
mod opening;
mod outputs;
mod plan;
mod planning;
mod progress;
mod result;
mod rows;
mod run;
mod storing;
mod table;
mod template;
mod worker;

pub(super) use claims::Claims;
pub(super) use ephemeral::EphemeralJobs;
pub(super) use progress::ProgressSender;
pub(super) use rows::OpenRows;

/// The tool that starts a job, for errors.
const NAME: &str = "spawn_agents_on_csv";
