//! The managed network: the one way out of a sandbox whose network is a loopback interface of its
//! own. Commands reach it as an HTTP proxy (`CONNECT` and plain requests) and, if configured, as a
//! SOCKS5 proxy; it lets through what an [`EgressPolicy`] allows, asks about the rest, and connects
//! from outside of the sandbox.
//!
//! The listeners are made inside of the sandbox's network and handed out through a socket before
//! the command starts, so there is nothing to reach when they are not served: with the proxy down,
//! nothing gets out. Names are resolved here, once for each connection, and what they resolve to
//! is what is connected to.
//!
//! Not seen: what a permitted server does with a request, and what is inside of TLS. A name that
//! fronts for another one inside TLS is let through under the name that the proxy was told.

mod address;
mod dial;
mod gate;
mod http;
mod managed;
mod outside;
mod policy;
mod serve;
mod socks;
#[cfg(test)]
mod tests;
mod udp;
mod upstream;

pub use gate::{Asker, Protocol, Target};
pub use managed::Egress;
pub use outside::Outside;
pub use policy::{EgressPolicy, Mode, Pattern, UnixSockets};
pub(crate) use serve::{Listeners, serve};
pub use upstream::Upstream;
