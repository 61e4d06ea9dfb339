//! Validates a batch. Its file is read line by line; either all lines are stored and the batch is
//! queued, or it fails with a list of invalid lines. Idempotent.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::reading::{Lines, foreign_encoding};
use crate::api::{self, LineRequest};
use crate::state::Gateway;
use gateway_policy::dates::seconds;
use gateway_policy::error::ApiError;
use gateway_policy::model_access;
use gateway_policy::refusal::{queue_full, queue_full_today};
use gateway_policy::settings::{Model, Settings};
use gateway_policy::tenants::Caller;
use gateway_store::records::batch_lines::{self, Line};
use gateway_store::records::batch_queue::{self, Admission, Checked, Limit, Scope};
use gateway_store::records::batches::{self, Batch, Outcome, Status};
use gateway_store::records::files;

/// Most lines of a batch.
const MAX_LINES: u64 = 50_000;
/// Most reported errors; reading of the file stops there.
const MAX_ERRORS: usize = 100;
/// Longest `custom_id`, in bytes.
const MAX_NAME: usize = 512;
/// Lines per insert: by number and by bytes.
const TOGETHER: (usize, usize) = (200, 1 << 20);
const DAY_SECONDS: i64 = 86_400;

/// Validates a batch in the state `validating`, and advances it.
///
/// # Errors
/// The store's; the call may be repeated.
pub(crate) async fn check(
    gateway: &Arc<Gateway>,
    batch: &Batch,
) -> Result<(), gateway_store::Error> {
    let _place = gateway.batches.checks.acquire().await;
    let (database, now) = (&gateway.database, seconds(gateway.clock.now()));
    let caller = match gateway.directory.on_behalf(&batch.key, &batch.project).await {
        Ok(caller) => caller,
        Err(error) if error.kind() == gateway_store::ErrorKind::UnknownKey => {
            let error = Fault::new("project_archived", "The project of the batch is archived.");
            return fail(gateway, batch, &[error]).await;
        }
        Err(error) => return Err(error),
    };
    let file = files::get(database, &batch.project, &batch.input_file, now).await?;
    let Some(file) = file else {
        let error = Fault::new("file_not_found", "The input file no longer exists.");
        return fail(gateway, batch, &[error.param("input_file_id")]).await;
    };
    let settings = gateway.settings.load_full();
    let mut checking = Checking::new(gateway, &settings, &caller, batch);
    let mut lines = Lines::new(database, &file);
    let mut number = 0;
    while let Some(line) = lines.next().await? {
        if number == 0
            && let Some(encoding) = foreign_encoding(&line)
        {
            let message = format!(
                "The input file is {encoding} text. Please save it as UTF-8, with or without a byte order mark."
            );
            let error = Fault::new("invalid_file_encoding", message).param("input_file_id");
            return fail(gateway, batch, &[error]).await;
        }
        checking.line(number, line.freeze()).await?;
        number += 1;
        if checking.errors.len() >= MAX_ERRORS || checking.total > MAX_LINES {
            break;
        }
    }
    checking.store().await?;
    match checking.into_found() {
        Ok(found) => queue(gateway, &settings, &caller, batch, &found).await,
        Err(errors) => fail(gateway, batch, &errors).await,
    }
}

/// The contents of a valid file.
struct Found {
    /// The model, and its name in the lines.
    model: Arc<Model>,
    name: String,
    tokens: u64,
    total: u64,
}

async fn queue(
    gateway: &Arc<Gateway>,
    settings: &Settings,
    caller: &Caller,
    batch: &Batch,
    found: &Found,
) -> Result<(), gateway_store::Error> {
    let now = seconds(gateway.clock.now());
    let limits = limits(settings, caller, &found.model, now);
    let checked = Checked {
        id: &batch.id,
        organization: &caller.organization.id,
        project: &caller.project.id,
        model: &found.model.name,
        tokens: found.tokens,
        total: found.total,
    };
    let Admission::Full(index) =
        batch_queue::admit(&gateway.database, &checked, &limits, now).await?
    else {
        return Ok(());
    };
    let Some(limit) = limits.get(index) else { return Ok(()) };
    let message = match limit.scope {
        Scope::Queued(_) => queue_full(&found.name, &caller.organization.id, limit.most),
        Scope::Since(..) => queue_full_today(&found.name, &caller.project.id, limit.most),
    };
    fail(gateway, batch, &[Fault::new("token_limit_exceeded", message)]).await
}

/// The limits of queued tokens: the model's, its group's, and the project's daily one.
fn limits(settings: &Settings, caller: &Caller, model: &Model, now: i64) -> Vec<Limit> {
    let tier = caller.organization.tier;
    let mut limits = Vec::new();
    if let Some(most) = model.limits(tier).batch_queue_tokens {
        limits.push(Limit { scope: Scope::Queued(vec![model.name.clone()]), most });
    }
    if let (Some(group), Some(most)) =
        (&model.shared_limit, model.group_limits(tier).batch_queue_tokens)
    {
        let models = settings.catalog.models();
        let ours = models.filter(|model| model.shared_limit.as_ref() == Some(group));
        let names = ours.map(|model| model.name.clone()).collect();
        limits.push(Limit { scope: Scope::Queued(names), most });
    }
    let mut names = std::iter::once(&model.name).chain(&model.aliases);
    let project = names.find_map(|name| caller.project.limits.get(name));
    if let Some(most) = project.and_then(|limits| limits.batch_1_day_max_input_tokens) {
        limits.push(Limit { scope: Scope::Since(model.name.clone(), now - DAY_SECONDS), most });
    }
    limits
}

async fn fail(
    gateway: &Gateway,
    batch: &Batch,
    errors: &[Fault],
) -> Result<(), gateway_store::Error> {
    let errors = serde_json::to_string(errors).unwrap_or_default();
    let outcome = Outcome { errors: Some(&errors), ..Outcome::default() };
    let (from, to) = (&[Status::Validating], Status::Failed);
    let now = seconds(gateway.clock.now());
    batches::advance(&gateway.database, &batch.id, from, to, &outcome, now).await.map(drop)
}

/// An entry of `errors.data`.
#[derive(Clone, Debug, Serialize)]
struct Fault {
    code: Cow<'static, str>,
    message: String,
    param: Option<&'static str>,
    /// Line number, from 1.
    line: Option<u64>,
}

impl Fault {
    fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), param: None, line: None }
    }

    fn param(mut self, param: &'static str) -> Self {
        self.param = Some(param);
        self
    }
}

struct Checking<'a> {
    gateway: &'a Gateway,
    settings: &'a Settings,
    caller: &'a Caller,
    batch: &'a Batch,
    names: HashSet<Box<str>>,
    model: Option<(Arc<Model>, String)>,
    tokens: u64,
    total: u64,
    errors: Vec<Fault>,
    /// Lines to store, and their size in bytes.
    ready: (Vec<Line>, usize),
}

/// A line of the file.
#[derive(Deserialize)]
struct Written<'a> {
    #[serde(borrow)]
    custom_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    url: Option<Cow<'a, str>>,
    #[serde(borrow)]
    body: Option<&'a RawValue>,
}

impl<'a> Checking<'a> {
    fn new(
        gateway: &'a Gateway,
        settings: &'a Settings,
        caller: &'a Caller,
        batch: &'a Batch,
    ) -> Self {
        Self {
            gateway,
            settings,
            caller,
            batch,
            names: HashSet::new(),
            model: None,
            tokens: 0,
            total: 0,
            errors: Vec::new(),
            ready: (Vec::new(), 0),
        }
    }

    async fn line(&mut self, number: u64, text: Bytes) -> Result<(), gateway_store::Error> {
        if text.iter().all(u8::is_ascii_whitespace) {
            return Ok(());
        }
        self.total += 1;
        match self.read(number, &text) {
            Ok(line) => {
                self.tokens = self.tokens.saturating_add(line.tokens);
                self.ready.1 += line.body.len();
                self.ready.0.push(line);
            }
            Err(fault) => self.errors.push(Fault { line: Some(number + 1), ..fault }),
        }
        match self.ready.0.len() >= TOGETHER.0 || self.ready.1 >= TOGETHER.1 {
            true => self.store().await,
            false => Ok(()),
        }
    }

    /// Stores the pending lines, unless the batch has failed.
    async fn store(&mut self) -> Result<(), gateway_store::Error> {
        let (lines, _) = std::mem::take(&mut self.ready);
        if lines.is_empty() || !self.errors.is_empty() {
            return Ok(());
        }
        batch_lines::insert(&self.gateway.database, &self.batch.id, &lines).await
    }

    fn read(&mut self, number: u64, text: &Bytes) -> Result<Line, Fault> {
        let written: Written<'_> = serde_json::from_slice(text).map_err(|error| {
            let message = format!("This line is not a valid JSON object: {error}.");
            Fault::new("invalid_json_line", message)
        })?;
        let custom_id = written.custom_id.ok_or_else(|| missing("custom_id"))?;
        if custom_id.is_empty() || custom_id.len() > MAX_NAME {
            let message = format!("`custom_id` must have 1 to {MAX_NAME} bytes.");
            return Err(Fault::new("invalid_value", message).param("custom_id"));
        }
        if !self.names.insert((&*custom_id).into()) {
            let message = format!("The custom_id `{custom_id}` is used by an earlier line.");
            return Err(Fault::new("duplicate_custom_id", message).param("custom_id"));
        }
        if written.method.as_deref() != Some("POST") {
            let message = "The method of every line must be POST.";
            return Err(Fault::new("invalid_method", message).param("method"));
        }
        let endpoint = &*self.batch.endpoint;
        if written.url.as_deref() != Some(endpoint) {
            let message =
                format!("The url of every line must be the batch's endpoint, {endpoint}.");
            return Err(Fault::new("invalid_url", message).param("url"));
        }
        let body = written.body.ok_or_else(|| missing("body"))?.get();
        let body = Bytes::copy_from_slice(body.as_bytes());
        let line = api::read_line(endpoint, &body).map_err(|error| body_fault(&error))?;
        if line.streams {
            let message = "Batches cannot stream. Please remove `stream`.";
            return Err(Fault::new("invalid_value", message).param("body"));
        }
        self.note_model(&line)?;
        let body = std::str::from_utf8(&body).map_err(|_| missing("body"))?;
        let tokens = line.tokens;
        Ok(Line { number, custom_id: (&*custom_id).into(), body: body.into(), tokens })
    }

    /// Checks that all lines are for one model.
    fn note_model(&mut self, line: &LineRequest) -> Result<(), Fault> {
        let name = line.model.as_deref().or(match line.is_moderation {
            true => self.settings.moderation_model.as_deref(),
            false => None,
        });
        let name = name.ok_or_else(|| missing("body.model"))?;
        let known = self.settings.catalog.find(name);
        let served = known.filter(|model| model.is_served(self.gateway.clock.now()));
        let Some(model) = served else {
            let message = format!("The model `{name}` does not exist or is no longer served.");
            return Err(Fault::new("model_not_found", message).param("body.model"));
        };
        model_access::check(self.caller, model, name).map_err(|error| {
            let code = error.code().unwrap_or("model_not_found");
            Fault::new(code, error.message().to_owned()).param("body.model")
        })?;
        match &self.model {
            None => self.model = Some((Arc::clone(model), name.to_owned())),
            Some((first, first_name)) if first.name != model.name => {
                let message = format!(
                    "All lines of a batch must be for one model; the first is for `{first_name}`, \
                     this one for `{name}`."
                );
                return Err(Fault::new("mismatched_model", message).param("body.model"));
            }
            Some(_) => {}
        }
        Ok(())
    }

    fn into_found(mut self) -> Result<Found, Vec<Fault>> {
        if self.total > MAX_LINES {
            let message = format!("A batch has at most {MAX_LINES} lines.");
            self.errors.push(Fault::new("too_many_tasks", message));
        }
        match self.model {
            Some((model, name)) if self.errors.is_empty() => {
                Ok(Found { model, name, tokens: self.tokens, total: self.total })
            }
            _ if self.total == 0 => {
                let error = Fault::new("empty_file", "The input file has no lines.");
                Err(vec![error.param("input_file_id")])
            }
            _ => Err(self.errors),
        }
    }
}

fn missing(param: &'static str) -> Fault {
    Fault::new("missing_required_parameter", format!("The line has no `{param}`.")).param(param)
}

fn body_fault(error: &ApiError) -> Fault {
    let code = error.code().unwrap_or("invalid_request");
    Fault::new(code, error.message()).param("body")
}
