//! The plan of a job: its table, instruction and schema, and the place of its results. All of it is
//! read and checked, under the sandbox policy of the thread, before a worker starts.

use std::path::{Path, PathBuf};

use json_schema::Validator;
use sandbox::Resolved;
use sandbox::files::{Action, Change};
use serde_json::{Value, json};
use session::{AgentJob, JobOutput, PatchTarget, ToolError};
use sha2::{Digest, Sha256};

use super::NAME;
use super::outputs::WrittenOutputs;
use super::table::{MAX_BYTES, Table, TableRow};
use super::template::Template;

/// The plan of a job.
pub(super) struct JobPlan {
    /// The names of the table's columns.
    pub(super) header: Vec<String>,
    pub(super) template: Template,
    pub(super) schema: Option<Validator>,
    /// The schema as JSON, for the workers.
    pub(super) schema_text: Option<String>,
    /// Where the results go.
    pub(super) output: PathBuf,
    /// Where that leads, with links resolved.
    real_output: PathBuf,
    /// Why the policy does not let the results be written, if so.
    outside: Option<String>,
    /// The policy that writing them stays within, unless somebody approved more.
    policy: Resolved,
    /// A hash of all that decides about the results. A call with the same one continues the job.
    pub(super) fingerprint: [u8; 32],
    /// For the store.
    pub(super) detail: Value,
}

impl JobPlan {
    /// `call`: the item of the call, for the store. Returns the rows, too: they are needed only until they are stored. Reads files, so it runs on
    /// a thread of a pool.
    ///
    /// # Errors
    /// The job cannot be done as it is described.
    pub(super) fn read(
        job: &AgentJob,
        call: &Value,
        cwd: &Path,
        policy: Resolved,
    ) -> Result<(Self, Vec<TableRow>), ToolError> {
        let failed = |why: String| ToolError::new(format!("{NAME}: {why}"));
        let given = cwd.join(&job.csv_path);
        let input = policy.check_read(&given).map_err(|error| failed(error.to_string()))?;
        let bytes = files::read(&input, MAX_BYTES).map_err(|error| failed(error.to_string()))?;
        let shown = given.display().to_string();
        let Table { header, rows } = Table::read(&bytes, &shown, job.id_column.as_deref())?;
        let template = Template::parse(&job.instruction, &header)?;
        let schema = job.output_schema.as_ref().map(Validator::new).transpose();
        let schema = schema.map_err(|why| failed(format!("`output_schema`: {why}")))?;
        let schema_text = job.output_schema.as_ref().map(ToString::to_string);
        let fingerprint = fingerprint(job, &input, &bytes);
        let output = match &job.output_csv_path {
            Some(path) => cwd.join(path),
            None => default_output(&given, &fingerprint),
        };
        let (real_output, outside) = check_output(&output, &input, &policy).map_err(failed)?;
        let detail = json!({
            "csvPath": shown,
            "outputCsvPath": output.display().to_string(),
            "instruction": job.instruction,
            "header": header,
            "call": call,
        });
        let plan = Self {
            header,
            template,
            schema,
            schema_text,
            output,
            real_output,
            outside,
            policy,
            fingerprint,
            detail,
        };
        Ok((plan, rows))
    }

    /// Returns the output to decide about before the job begins. `replaces`: see
    /// [`JobPlan::check_unused`].
    pub(super) fn output_of(&self, job: &str, is_continued: bool, replaces: bool) -> JobOutput {
        JobOutput {
            job: job.into(),
            is_continued,
            target: PatchTarget { path: self.output.clone(), real: self.real_output.clone() },
            replaces,
            outside: self.outside.clone(),
        }
    }

    /// Checks that the results go where it was decided that they may.
    ///
    /// # Errors
    /// They would go elsewhere, or leave the sandbox without approval.
    pub(super) fn check_is_as_decided(&self, output: &JobOutput) -> Result<(), ToolError> {
        let shown = self.output.display();
        if self.real_output != output.target.real {
            let real = self.real_output.display();
            return Err(ToolError::new(format!(
                "{NAME}: the results would be written to {real} now, elsewhere than when the call \
                 was decided about; call this again"
            )));
        }
        match &self.outside {
            Some(why) if output.outside.is_none() => Err(ToolError::new(format!(
                "{NAME}: the results cannot be written to {shown}: {why}; give another \
                 `output_csv_path`"
            ))),
            _ => Ok(()),
        }
    }

    /// Checks that writing the results replaces nothing but earlier ones of the job; returns whether
    /// there are such. Runs on a thread of a pool.
    ///
    /// # Errors
    /// Why they cannot be written.
    pub(super) fn check_unused(&self, written: &WrittenOutputs) -> Result<bool, String> {
        written.check(&self.real_output)
    }

    /// Writes the results: all of them or, on an error, nothing. Runs on a thread of a pool.
    pub(super) fn write(&self, contents: Vec<u8>, written: &WrittenOutputs) -> Result<(), String> {
        // Somebody may have created the file while the workers were at work.
        self.check_unused(written)?;
        let action = Action::Write { contents, create_parents: false, mode_of: None };
        let change = Change { path: self.output.clone(), action };
        let policy = self.outside.is_none().then_some(&self.policy);
        let approved = [self.real_output.clone()];
        let done = sandbox::files::apply_approved(&[change], &approved, policy);
        done.map_err(|error| error.to_string())
    }
}

/// A path next to the input. The name is the same when the job is continued, and another for another job.
fn default_output(input: &Path, fingerprint: &[u8; 32]) -> PathBuf {
    let stem = input.file_stem().map_or("table".into(), |stem| stem.to_string_lossy());
    let [a, b, c, d, ..] = fingerprint;
    input.with_file_name(format!("{stem}-results-{a:02x}{b:02x}{c:02x}{d:02x}.csv"))
}

/// Where the output leads, and why the policy does not let it be written, if so.
fn check_output(
    output: &Path,
    input: &Path,
    policy: &Resolved,
) -> Result<(PathBuf, Option<String>), String> {
    let shown = output.display();
    // No approval shows what the policy hides.
    let real = policy.check_read(output).map_err(|error| {
        format!("the results cannot be written: {error}; give another `output_csv_path`")
    })?;
    let outside = policy.check_write(output).err().map(|denied| denied.to_string());
    if real == input {
        return Err(format!("`output_csv_path` is the input, {shown}; give another file"));
    }
    let folder = real.parent().unwrap_or(&real);
    if !folder.is_dir() {
        return Err(format!(
            "the folder of `output_csv_path`, {}, does not exist",
            folder.display()
        ));
    }
    match real.metadata() {
        Ok(found) if !found.is_file() => {
            Err(format!("`output_csv_path`, {shown}, is not a regular file; give another path"))
        }
        _ => Ok((real, outside)),
    }
}

fn fingerprint(job: &AgentJob, input: &Path, bytes: &[u8]) -> [u8; 32] {
    let schema = job.output_schema.as_ref().map(ToString::to_string);
    let path = input.as_os_str().as_encoded_bytes();
    let optional = |text: &Option<String>| text.as_ref().map(|text| text.as_bytes().to_vec());
    let mut hash = Sha256::new();
    for part in [
        Some(path.to_vec()),
        Some(job.instruction.as_bytes().to_vec()),
        optional(&job.id_column),
        optional(&job.output_csv_path),
        optional(&schema),
    ] {
        // The length ends each part, and an absent one differs from an empty one.
        hash.update(part.as_ref().map_or(u64::MAX, |part| part.len() as u64).to_le_bytes());
        hash.update(part.unwrap_or_default());
    }
    hash.update(bytes);
    hash.finalize().into()
}
