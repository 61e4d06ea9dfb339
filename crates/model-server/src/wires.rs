//! The four wires of the server: which one a request speaks, its translation to the Responses form that scripts are
//! played for, and the translation of what is played to the caller's wire. It sends nothing.

mod adapter;
mod asked;
mod cache;
mod faults;
mod issued;
mod models;
mod refusal;
mod route;
mod thoughts;
mod translation;

pub(crate) use asked::{Asked, Memory, in_responses_form};
pub(crate) use faults::{FALSE_CONTENT, Faults};
pub(crate) use models::listing;
pub(crate) use refusal::{InWire, of_failure, of_refusal};
pub(crate) use route::{Route, Streams, conversation_of, route, segments};
pub(crate) use translation::{Translated, Translation};
