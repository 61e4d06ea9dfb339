//! Decodes a whole Messages response, as the events of a stream of it would be.

use serde_json::value::RawValue;

use super::decode::Decoder;
use crate::builder::{Sink, malformed};
use crate::failure::Failure;
use crate::json::{At, Object};
use crate::kind::Wire;

pub(super) fn read(decoder: &mut Decoder, text: &str, sink: &mut Sink<'_>) -> Result<(), Failure> {
    let broken = |error: &dyn std::fmt::Display| malformed(Wire::Messages, error);
    let at = At::Root;
    let raw: &RawValue = serde_json::from_str(text).map_err(|error| broken(&error))?;
    let mut message = Object::read(raw, &at).map_err(|error| broken(&error))?;
    if message.peek("error").is_some() {
        let failure = Failure::from_object(None, message);
        return Err(failure.unwrap_or_else(|| broken(&"it has an error without a message")));
    }
    decoder.message_start(raw, sink)?;
    let content = message.opt_array(&at, "content").map_err(|error| broken(&error))?;
    let Some(content) = content else { return Err(broken(&"`content` is missing")) };
    for (index, raw) in content.into_iter().enumerate() {
        let block = Object::read(raw, &at).map_err(|error| broken(&error))?;
        let index = Some(index as u64);
        decoder.start(index, block, raw.get(), sink)?;
        decoder.stop_block(index, sink)?;
    }
    let mut text = |name| message.opt_text(&at, name).ok().flatten().unwrap_or_default();
    let (reason, sequence) = (text("stop_reason"), text("stop_sequence"));
    decoder.set_stop(&reason, &sequence)?;
    decoder.end(sink);
    Ok(())
}
