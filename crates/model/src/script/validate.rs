//! What a well-formed script must satisfy beyond its shape. Problems name the response and the
//! step, counted from 1.

use hyper::header::{HeaderName, HeaderValue};

use super::{ErrorStep, Message, Script, Step};
use crate::Phase;

/// Longest text of one message in bytes, repetitions included: it must fit one event.
const MAX_MESSAGE_BYTES: usize = 8 << 20;

pub(super) fn check(script: &Script) -> Result<(), String> {
    if script.responses.is_empty() {
        return Err("`responses` is empty; give at least one response".to_owned());
    }
    for (response, scripted) in script.responses.iter().enumerate() {
        let mut ended = false;
        for (at, step) in scripted.steps.iter().enumerate() {
            let place =
                |problem: String| format!("response {}, step {}: {problem}", response + 1, at + 1);
            if ended {
                return Err(place("never runs, the step before it ends the response".to_owned()));
            }
            let begun = scripted.steps[..at].iter().any(|step| !matches!(step, Step::DelayMs(_)));
            check_step(step, begun).map_err(place)?;
            ended = matches!(step, Step::Error(_) | Step::Cut(_) | Step::Idle);
        }
    }
    Ok(())
}

fn check_step(step: &Step, begun: bool) -> Result<(), String> {
    match step {
        Step::Message(message) => check_message(message),
        Step::Error(error) => check_error(error, begun),
        Step::Reasoning(reasoning) if reasoning.chunk_chars == Some(0) => {
            Err("`chunk_chars` must be at least 1".to_owned())
        }
        _ => Ok(()),
    }
}

fn check_message(message: &Message) -> Result<(), String> {
    if !message.text.is_empty() && !message.chunks.is_empty() {
        return Err("give `text` or `chunks`, not both".to_owned());
    }
    if message.chunk_chars == Some(0) {
        return Err("`chunk_chars` must be at least 1".to_owned());
    }
    if let Some(phase) = message.phase.as_deref()
        && Phase::from_name(phase).is_none()
    {
        return Err(format!("phase `{phase}` is neither `commentary` nor `final_answer`"));
    }
    let once = message.text.len() + message.chunks.iter().map(String::len).sum::<usize>();
    if once.saturating_mul(message.repeat.unwrap_or(1)) > MAX_MESSAGE_BYTES {
        return Err(format!("the message exceeds {} MiB", MAX_MESSAGE_BYTES >> 20));
    }
    Ok(())
}

fn check_error(error: &ErrorStep, begun: bool) -> Result<(), String> {
    if error.status.is_none() && error.code.is_none() && error.incomplete.is_none() {
        return Err("`error` needs `status`, `code` or `incomplete`".to_owned());
    }
    if error.incomplete.is_some() && (error.status.is_some() || error.code.is_some()) {
        return Err("`incomplete` stands without `status` and `code`".to_owned());
    }
    let Some(status) = error.status else { return Ok(()) };
    if !(400..600).contains(&status) {
        return Err(format!("status {status} is no error; use 400 to 599"));
    }
    if begun {
        return Err("an error with a `status` must come before anything but delays".to_owned());
    }
    for (name, value) in &error.headers {
        if HeaderName::from_bytes(name.as_bytes()).is_err() || HeaderValue::from_str(value).is_err()
        {
            return Err(format!("header `{name}` has an unusable name or value"));
        }
    }
    Ok(())
}
