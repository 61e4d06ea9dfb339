//! Model providers: streaming Responses-API requests over HTTP, with retries, a small catalog, and
//! a scripted model that needs no network. It knows neither threads nor the wire protocol of the
//! application server, reads no environment, and never decides whether to run a tool.

mod client;
mod compression;
mod decode;
mod escape;
mod event;
mod failure;
mod http;
mod offline;
mod prompt;
mod provider;
mod retry;
mod sse;

pub mod catalog;
pub mod record;
pub mod script;
pub mod server;

pub use client::{Client, Options, ResponseStream};
pub use decode::Decoder;
pub use event::{Event, Item, ItemKind, Phase, Usage};
pub use failure::{Failure, FailureKind, Retry};
pub use prompt::{Prompt, Reasoning};
pub use provider::{KeySource, Provider, Secret, Transport};
pub use server::{OfflineModel, serve_offline};
