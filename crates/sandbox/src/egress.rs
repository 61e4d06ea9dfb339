//! The managed network: the only way out of a sandbox whose network is its own loopback interface.
//! Commands use it as an HTTP proxy (`CONNECT` and plain requests) and, if configured, as a SOCKS5
//! proxy. It allows what an [`EgressPolicy`] allows, asks about other hosts, and connects from
//! outside of the sandbox.
//!
//! What the proxies serve is passed out of the sandbox through a socket. If it is not served, no connection leaves the
//! sandbox. Names are resolved
//! here, once per connection, and the connection uses the resolved address.
//!
//! The proxy does not see what an allowed server does with a request, nor what is inside of TLS.
//! With domain fronting, it checks only the name that the command gives to the proxy.
//!
//! The network is a namespace that has only loopback. The first process in there opens the listeners and passes them
//! out. Where namespaces cannot be made, the command's supervisor connects its sockets instead, to nothing but the
//! proxies (`supervise/broker/network.rs`). The server decides with an [`EgressPolicy`], and asks the thread about
//! hosts on no list.

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
#[cfg(target_os = "linux")]
pub(crate) use serve::{Listeners, Proxy, serve, serve_each};
pub use upstream::Upstream;
