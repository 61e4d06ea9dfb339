//! The Chat Completions wire: its requests and its event streams, both ways. Servers differ: the switches are in
//! [`crate::ChatOptions`], and one decoder reads them all.

mod calls;
mod decode;
mod details;
mod encode;
mod parameters;
mod read;
mod write;

pub(crate) use decode::Decoder;
pub(crate) use encode::Encoder;
pub(crate) use read::read_request;
pub(crate) use write::write_request;

pub(crate) use encode::whole_response;
