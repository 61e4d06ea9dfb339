//! The scripted model, which answers from a file and needs no network, and the offline model, which
//! covers the hosted API's routes: both as HTTP servers and as a transport of [`model::Client`]
//! inside the process. Over HTTP they speak the wires Responses, Messages, Chat Completions and Gemini. Also the recorder
//! that turns a real provider's responses into a script.

mod check;
mod record;
mod server;
mod signature;
mod transport;
mod wires;

pub mod script;

pub use record::record;
pub use server::{Clock, OfflineModel, RequestLog, serve, serve_offline};
pub use transport::ScriptedTransport;
