//! The Messages wire of Anthropic: its requests and its event streams, both ways.

mod decode;
mod document;
mod encode;
mod marks;
mod parameters;
mod read;
mod usage;
mod write;

pub(crate) use decode::Decoder;
pub(crate) use encode::Encoder;
pub(crate) use read::read_request;
pub(crate) use write::write_request;

pub(crate) use encode::whole_response;
