//! Feedback: a report of the user's, in a file that the user can look at and send.

use std::path::PathBuf;

use protocol::feedback::{FeedbackUploadParams, FeedbackUploadResponse};
use protocol::thread::ThreadReadParams;
use protocol::{FeedbackMethods, ThreadMethods};

use crate::feedback::{self, MAX_REPORT, Report};
use crate::server::Server;
use services::error::Error;
use services::folders::absolute;
use services::peer::Caller;

/// Where reports are, in the home.
const FOLDER: &str = "feedback";
/// Longest classification, in bytes.
const MAX_CLASSIFICATION: usize = 64;
/// Longest reason, in bytes.
const MAX_REASON: usize = 64 << 10;
/// Most files of logs that a client names.
const MAX_FILES: usize = 16;
/// Most tags.
const MAX_TAGS: usize = 64;

impl FeedbackMethods<Caller> for Server {
    async fn feedback_upload(
        &self,
        caller: Caller,
        params: FeedbackUploadParams,
    ) -> Result<FeedbackUploadResponse, Error> {
        let config = self.services.configurations.own_for(&caller.peer)?.resolved.config;
        if !config.feedback.enabled {
            return Err(Error::denied("`feedback.enabled` is false in the configuration"));
        }
        check(&params)?;
        let thread = match &params.thread_id {
            Some(id) => {
                let include_turns = params.include_logs;
                let read = ThreadReadParams { thread_id: id.clone(), include_turns };
                // Even where only the id is part of the report: it must be that of a thread.
                let thread = self.thread_read(caller.clone(), read).await?.thread;
                let thread = serde_json::to_value(thread);
                let thread = thread.map_err(|error| Error::failed(error.to_string()))?;
                include_turns.then_some(thread)
            }
            None => None,
        };
        let mut logs: Vec<PathBuf> = Vec::new();
        logs.push(config.log_dir.join("agentd.log"));
        for path in params.extra_log_files.iter().flatten() {
            logs.push(absolute("extraLogFiles", path)?);
        }
        if !params.include_logs {
            logs.clear();
        }
        let options = &self.services.options;
        let id = options.ids.next();
        let report = Report {
            id: id.clone(),
            at_seconds: options.clock.now_ms() / 1000,
            version: options.version.clone(),
            classification: params.classification,
            reason: params.reason,
            tags: params.tags.unwrap_or_default(),
            thread,
        };
        let folder = options.home.join(FOLDER);
        let (name, dry_run) = (id.clone(), params.dry_run);
        let work = move || {
            let report = report.with_logs(&logs);
            let length = report.to_string().len();
            if length > MAX_REPORT {
                return Err(format!(
                    "the report has {length} bytes, more than {MAX_REPORT}; leave the thread or files out"
                ));
            }
            match dry_run {
                true => Ok((None, Some(report))),
                false => Ok((Some(feedback::write(&folder, &name, &report)?), None)),
            }
        };
        let done = self.services.long_files.run(&options.home, work).await?;
        let (path, report) = done.map_err(Error::failed)?;
        // The member is of the experimental API.
        let path = path.filter(|_| caller.peer.is_experimental());
        let path = path.map(|path| path.display().to_string());
        Ok(FeedbackUploadResponse { thread_id: params.thread_id.unwrap_or(id), path, report })
    }
}

fn check(params: &FeedbackUploadParams) -> Result<(), Error> {
    let at_most = |name: &str, unit: &str, found: usize, limit: usize| match found > limit {
        true => {
            Err(Error::invalid_params(format!("`{name}` has {found} {unit}, more than {limit}")))
        }
        false => Ok(()),
    };
    if params.classification.trim().is_empty() {
        return Err(Error::invalid_params(
            "`classification` is empty: say what kind of report it is",
        ));
    }
    at_most("classification", "bytes", params.classification.len(), MAX_CLASSIFICATION)?;
    at_most("reason", "bytes", params.reason.as_ref().map_or(0, String::len), MAX_REASON)?;
    at_most(
        "extraLogFiles",
        "entries",
        params.extra_log_files.as_ref().map_or(0, Vec::len),
        MAX_FILES,
    )?;
    let tags = params.tags.iter().flatten();
    at_most("tags", "entries", tags.clone().count(), MAX_TAGS)?;
    at_most(
        "tags",
        "bytes in an entry",
        tags.map(|(name, value)| name.len() + value.len()).max().unwrap_or(0),
        MAX_REASON,
    )
}
