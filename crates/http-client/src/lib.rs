//! What every crate that sends requests to model servers shares: one way to build a pooled HTTPS
//! client, one parser of server-sent events, one policy for waiting and retrying, one type for failures, one
//! for secrets.
//! It knows no API and no provider.

#[cfg(feature = "client")]
mod client;
mod failure;
pub mod retry;
mod secret;
pub mod sse;

#[cfg(feature = "client")]
pub use client::{HttpClient, PoolOptions, TlsError, error_chain, http_client, tls_config};
pub use failure::{Failure, FailureKind, Retry};
pub use secret::Secret;
