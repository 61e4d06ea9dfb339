//! Reads a job's task for the two who need it: the one who decides about the file that it writes,
//! before it begins, and the job itself.

use std::sync::Arc;

use sandbox::Resolved;
use serde_json::Value;
use session::{AgentJob, JobOutput, ToolError};

use super::NAME;
use super::opening;
use super::plan::JobPlan;
use super::storing::unstored;
use super::table::TableRow;
use crate::agents::{AgentCaller, Agents};
use services::command_environment::command_tmpdir;

impl Agents {
    /// Where a job would write its results, if it could begin now. Stores nothing.
    ///
    /// # Errors
    /// The job cannot begin as it is described.
    pub(crate) async fn plan_job(
        &self,
        caller: &AgentCaller,
        job: &AgentJob,
    ) -> Result<JobOutput, ToolError> {
        self.limits(caller).check_depth(caller.depth() + 1)?;
        let (plan, _) = self.read_plan(caller, job, Value::Null).await?;
        let (plan, thread) = (Arc::new(plan), caller.id.as_str());
        let store = match caller.ephemeral {
            true => self.ephemeral_jobs.find(thread, plan.fingerprint),
            false => Some(self.store.get().await.map_err(|error| unstored(&error))?.clone()),
        };
        let earlier = self.ephemeral_jobs.written(thread, plan.fingerprint);
        let found = match &store {
            Some(store) => opening::find(store, thread, plan.fingerprint, earlier).await?,
            None => opening::FoundJob { unfinished: None, written: earlier },
        };
        let replaces = opening::check_unused(&plan, found.written, &self.files).await?;
        let (job, is_continued) = match found.unfinished {
            Some(job) => (job.id, true),
            None => (self.options.ids.next(), false),
        };
        Ok(plan.output_of(&job, is_continued, replaces))
    }

    /// Reads the plan of a job and its rows. `call`: the item of the call, for the store.
    ///
    /// # Errors
    /// The job cannot be done as it is described.
    pub(super) async fn read_plan(
        &self,
        caller: &AgentCaller,
        job: &AgentJob,
        call: Value,
    ) -> Result<(JobPlan, Vec<TableRow>), ToolError> {
        let cwd = caller.settings.cwd.clone();
        let tmpdir = command_tmpdir(&self.options, &caller.config);
        let confinement = caller.settings.sandbox().confinement(&cwd);
        let (config, job) = (caller.config.clone(), job.clone());
        let home = [self.options.home.clone()];
        let path = cwd.join(&job.csv_path);
        let read = self.files.run(&path, move || {
            let policy = Resolved::new(&confinement, tmpdir.as_deref());
            let policy = policy.guarding(&config.trusted_folders).keeping(&home);
            JobPlan::read(&job, &call, &cwd, policy)
        });
        read.await.map_err(|error| ToolError::new(format!("{NAME}: {error}")))?
    }
}
