//! The Responses wire, whose forms are also the internal ones: its requests, and its event streams both ways.

mod decode;
mod encode;
mod items;
mod read;
mod write;

pub(crate) use decode::Decoder;
pub(crate) use encode::Encoder;
pub use read::read_item;
pub(crate) use read::read_request;
pub(crate) use write::write_request;

pub(crate) use encode::whole_response;
