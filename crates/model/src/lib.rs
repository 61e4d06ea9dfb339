//! Model providers: streaming requests over HTTP, in the Responses API or translated from and to it, and a small
//! catalog of models. It
//! knows neither threads nor the wire protocol of the application server, reads no environment, and
//! never decides whether to run a tool or to retry a request. The features `bedrock` and `vertex` add clouds, whose
//! credentials it looks up itself, in places that callers name.

mod client;
mod clients;
mod cloud;
mod compression;
mod decode;
mod endpoint;
mod event;
mod failure;
mod http_clients;
mod local;
mod local_server;
mod open;
mod pacing;
mod plan_usage;
mod price;
mod printable;
mod prompt;
mod provider;
mod rate_limits;
mod read;
mod reported_limits;
mod stream_text;
mod upgrade;
mod websocket;
mod wire_listing;
mod wires;

pub mod catalog;
pub mod json;

pub use ::cloud::{AwsAuth, AwsContainer, AwsKeys, AwsSigner, GoogleAuth};
#[cfg(feature = "bedrock")]
pub use ::cloud::{FrameError, FrameReader, MAX_FRAME};
pub use client::{Client, ModelsAnswer, OfflineTransport, Options, ResponseStream};
pub use decode::Decoder;
pub use endpoint::Endpoint;
pub use event::{Event, Item, ItemKind, Phase, Usage};
pub use failure::{Failure, excerpt, failure_from_status};
pub use http_client::{FailureKind, Network, Retry, Secret, TlsFiles};
pub use http_clients::connect;
pub use local_server::LocalServer;
pub use pacing::Arrival;
pub use plan_usage::{Credits, PlanUsage, PlanWindow};
pub use price::{Price, Prices, TierPrices, dollars};
pub use prompt::{OutputLimits, Prompt, Reasoning};
pub use provider::{
    Authorization, AuthorizationFuture, Credentials, KeySource, Provider, Transport,
};
pub use rate_limits::{RateLimit, RateLimits};
pub use upgrade::WebSocket;
pub use wire::{CacheHints, CacheMarks, Platform, Wire};
pub use wires::{host_of, known_wire, wire_of_address};
