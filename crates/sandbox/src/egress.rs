//! The managed network: the only way out of a sandbox whose network is its own loopback interface.
//! Commands use it as an HTTP proxy (`CONNECT` and plain requests) and, if configured, as a SOCKS5
//! proxy. It allows what an [`EgressPolicy`] allows, asks about other hosts, and connects from
//! outside of the sandbox.
//!
//! The listeners are created in the sandbox's network and passed out through a socket before the
//! command starts. If they are not served, no connection leaves the sandbox. Names are resolved
//! here, once per connection, and the connection uses the resolved address.
//!
//! The proxy does not see what an allowed server does with a request, nor what is inside of TLS.
//! With domain fronting, it checks only the name that the command gives to the proxy.
//!
//! The network is a namespace that has only loopback. The program itself, started inside in place
//! of the 4 KB program of `lead/` (see `lead` in `supervise/child.rs`), opens the listeners there
//! and passes them out. The server accepts their connections, decides with an [`EgressPolicy`],
//! and asks the thread about hosts on no list.

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
