//! The wire of Gemini's `generateContent`: its requests and its event streams, both ways.

mod decode;
mod encode;
mod read;
mod schema;
mod write;

pub(crate) use decode::{Decoder, envelope_of};
pub(crate) use encode::Encoder;
pub(crate) use read::read_request;
pub(crate) use write::{NO_SIGNATURE, write_request};

pub(crate) use encode::whole_response;
