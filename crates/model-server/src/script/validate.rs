//! The validity rules of a script beyond its JSON shape. An error names the response and the step,
//! counted from 1.

use hyper::header::{HeaderName, HeaderValue};

use super::{ErrorStep, Message, Script, Step};
use model::Phase;

/// Longest text of one message in bytes, repetitions included: it must fit one event.
const MAX_MESSAGE_BYTES: usize = 8 << 20;

/// An error in a script and its position, for the author.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Problem(String);

impl Problem {
    fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

pub(super) fn check(script: &Script) -> Result<(), Problem> {
    if script.responses.is_empty() {
        return Err(Problem::new("`responses` is empty; give at least one response"));
    }
    for (response, scripted) in script.responses.iter().enumerate() {
        let mut ended = false;
        for (at, step) in scripted.steps.iter().enumerate() {
            let located = |Problem(text): Problem| {
                Problem(format!("response {}, step {}: {text}", response + 1, at + 1))
            };
            if ended {
                let problem = "this step never runs: the step before it ends the response";
                return Err(located(Problem::new(problem)));
            }
            let begun = scripted.steps[..at].iter().any(|step| !matches!(step, Step::DelayMs(_)));
            check_step(step, begun).map_err(located)?;
            ended = matches!(step, Step::Error(_) | Step::Cut(_) | Step::Idle);
        }
    }
    Ok(())
}

fn check_step(step: &Step, begun: bool) -> Result<(), Problem> {
    match step {
        Step::Message(message) => check_message(message),
        Step::Error(error) => check_error(error, begun),
        Step::Reasoning(reasoning) if reasoning.chunk_chars == Some(0) => {
            Err(Problem::new("`chunk_chars` must be at least 1"))
        }
        _ => Ok(()),
    }
}

fn check_message(message: &Message) -> Result<(), Problem> {
    if !message.text.is_empty() && !message.chunks.is_empty() {
        return Err(Problem::new("give `text` or `chunks`, not both"));
    }
    if message.chunk_chars == Some(0) {
        return Err(Problem::new("`chunk_chars` must be at least 1"));
    }
    if let Some(phase) = message.phase.as_deref()
        && Phase::from_name(phase).is_none()
    {
        return Err(Problem::new(format!(
            "phase `{phase}` is neither `commentary` nor `final_answer`"
        )));
    }
    let once = message.text.len() + message.chunks.iter().map(String::len).sum::<usize>();
    if once.saturating_mul(message.repeat.unwrap_or(1)) > MAX_MESSAGE_BYTES {
        return Err(Problem::new(format!("the message exceeds {} MiB", MAX_MESSAGE_BYTES >> 20)));
    }
    Ok(())
}

fn check_error(error: &ErrorStep, begun: bool) -> Result<(), Problem> {
    if error.status.is_none() && error.code.is_none() && error.incomplete.is_none() {
        return Err(Problem::new("`error` needs `status`, `code` or `incomplete`"));
    }
    if error.incomplete.is_some() && (error.status.is_some() || error.code.is_some()) {
        return Err(Problem::new("`incomplete` cannot be combined with `status` or `code`"));
    }
    let Some(status) = error.status else { return Ok(()) };
    if !(400..600).contains(&status) {
        return Err(Problem::new(format!(
            "status {status} is not an error status; use 400 to 599"
        )));
    }
    if begun {
        return Err(Problem::new("an error with a `status` may follow delays only"));
    }
    for (name, value) in &error.headers {
        if HeaderName::from_bytes(name.as_bytes()).is_err() || HeaderValue::from_str(value).is_err()
        {
            return Err(Problem::new(format!("header `{name}` has an invalid name or value")));
        }
    }
    Ok(())
}
