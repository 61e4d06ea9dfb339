//! The shared parts of every crate that sends requests to model servers: one way to build a pooled
//! HTTPS client, one parser of server-sent events, one policy for waiting and retrying, one type
//! for failures, one for secrets, one decoder of compressed answers. It knows no API and no provider.

#[cfg(feature = "client")]
mod client;
#[cfg(feature = "client")]
mod coding;
#[cfg(feature = "client")]
mod decoded;
mod failure;
#[cfg(feature = "client")]
mod network;
#[cfg(feature = "client")]
mod proxy;
pub mod retry;
mod secret;
pub mod sse;
#[cfg(feature = "tls")]
mod tls;

#[cfg(feature = "client")]
pub use client::{
    HttpClient, HttpVersions, PoolOptions, error_chain, http_client, permanent_problem,
};
#[cfg(feature = "client")]
pub use coding::CodingError;
#[cfg(feature = "client")]
pub use decoded::{BodyError, DecodedBody, UnknownCoding, decoded};
pub use failure::{Failure, FailureKind, Retry};
#[cfg(feature = "client")]
pub use network::{Network, NetworkError, TlsFiles};
#[cfg(feature = "client")]
pub use proxy::{Connector, ProxyError, Stream};
pub use secret::Secret;
#[cfg(feature = "tls")]
pub use tls::{ClientIdentity, Roots, TlsError, client_config, tls_config};
