//! Questions of a server to the user: bounded in number, size and frequency, so that a server that asks
//! without end occupies neither the user nor a request.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rmcp::model;
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction, ErrorData};
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::calls::{ActiveCall, Origin};
use crate::elicitation;
use crate::port::{Action, Answer, Elicitation, ElicitationMode};
use crate::server::Shared;

/// Questions of a server that wait for the user at the same time; further ones are refused.
const MAX_OPEN: usize = 8;
/// Longest question, with its form or URL, in bytes.
const MAX_QUESTION: usize = 256 << 10;
/// Questions that belong to no request, in each interval of [`INTERVAL`]; further ones are refused.
const MAX_UNSOLICITED: usize = 10;
const INTERVAL: Duration = Duration::from_mins(1);

/// The bounds on the questions of a server.
pub(super) struct Questions {
    open: Semaphore,
    /// The begin of the interval, and the questions since that belong to no request.
    unsolicited: Mutex<(Instant, usize)>,
}

impl Default for Questions {
    fn default() -> Self {
        Self { open: Semaphore::new(MAX_OPEN), unsolicited: Mutex::new((Instant::now(), 0)) }
    }
}

impl Questions {
    /// Counts a question that belongs to no request.
    fn may_ask_unsolicited(&self) -> bool {
        let mut unsolicited = self.unsolicited.lock().unwrap_or_else(PoisonError::into_inner);
        let (begun, count) = &mut *unsolicited;
        if begun.elapsed() >= INTERVAL {
            (*begun, *count) = (Instant::now(), 0);
        }
        *count += 1;
        *count <= MAX_UNSOLICITED
    }
}

impl Shared {
    /// Asks the user, in the name of the call that the question belongs to, if any. It is cancelled with the
    /// call, and with the connection.
    ///
    /// # Errors
    /// Too many or too large questions.
    pub(crate) async fn ask(
        &self,
        params: ElicitRequestParams,
        origin: Origin,
    ) -> Result<ElicitResult, ErrorData> {
        let refused = |text: &str| ErrorData::invalid_params(text.to_owned(), None);
        let Ok(_permit) = self.questions.open.try_acquire() else {
            return Err(refused("too many questions wait for the user"));
        };
        let is_too_long = serde_json::to_vec(&params).is_ok_and(|text| text.len() > MAX_QUESTION);
        if is_too_long {
            return Err(refused("the question is too long"));
        }
        let call = origin.calls.first();
        match call.map(ActiveCall::may_ask) {
            Some(true) => {}
            Some(false) => return Err(refused("the request has asked the user too often")),
            None if self.questions.may_ask_unsolicited() => {}
            None => return Err(refused("the server asks the user too often")),
        }
        let _asking: Vec<_> = origin.calls.iter().map(ActiveCall::pause).collect();
        let (message, meta, mode) = parts(params)?;
        let mut holders = self.holders();
        let caller = call.and_then(|call| call.holder.clone());
        if let Some(caller) = &caller {
            // A call's question is for the caller, and for no other holder.
            holders = vec![caller.clone()];
        }
        let question = Elicitation {
            server: self.definition.name.clone(),
            holders,
            turn: call.and_then(|call| call.turn.clone()),
            message: quoted_message(&message),
            mode,
            meta,
        };
        let answer = tokio::select! {
            answer = self.audience.elicit(question) => answer,
            () = origin.ended() => Answer::without_content(Action::Cancel),
        };
        let action = match answer.action {
            Action::Accept => ElicitationAction::Accept,
            Action::Decline => ElicitationAction::Decline,
            Action::Cancel => ElicitationAction::Cancel,
        };
        let result = ElicitResult::new(action);
        Ok(match answer.content {
            Some(content) => result.with_content(content),
            None => result,
        })
    }
}

fn parts(
    params: ElicitRequestParams,
) -> Result<(String, Option<Value>, ElicitationMode), ErrorData> {
    let json = |meta: Option<model::RequestMetaObject>| {
        let meta = meta.and_then(|meta| serde_json::to_value(meta).ok());
        meta.filter(|meta| meta.as_object().is_some_and(|meta| !meta.is_empty()))
    };
    match params {
        ElicitRequestParams::FormElicitationParams { meta, message, requested_schema } => {
            let schema = serde_json::to_value(requested_schema)
                .map_err(|error| ErrorData::invalid_params(error.to_string(), None))?;
            let schema = elicitation::with_whole_numbers(schema);
            Ok((message, json(meta), ElicitationMode::Form { schema }))
        }
        ElicitRequestParams::UrlElicitationParams { meta, message, url, elicitation_id } => {
            let (url, warning) = elicitation::page_address(&url)
                .map_err(|problem| ErrorData::invalid_params(problem, None))?;
            let message = match warning {
                Some(warning) => format!("{message}\n{warning}"),
                None => message,
            };
            Ok((message, json(meta), ElicitationMode::Url { url, id: elicitation_id }))
        }
        _ => Err(ErrorData::invalid_params("this mode of elicitation is unknown", None)),
    }
}

/// A question of any length with its hidden characters visible.
fn quoted_message(message: &str) -> String {
    visible::text(message).into_owned()
}
