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
mod policy;
mod socks;
#[cfg(test)]
mod tests;
mod udp;

use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

pub use dial::{Outside, Upstream};
pub use gate::{Asker, Protocol, Target};
pub use policy::{EgressPolicy, Mode, Pattern, PatternError, UnixSockets};

use gate::Gate;

/// Connections of one command at once; one more waits.
const MAX_CONNECTIONS: usize = 256;
/// How long a client may take to say what it wants, and a server to be reached.
const PATIENCE: Duration = Duration::from_secs(30);

/// The proxies of one command's network. Dropped with the command: all connections end with it.
pub(crate) struct Listeners {
    pub(crate) http: TcpListener,
    pub(crate) socks: Option<TcpListener>,
    pub(crate) udp: Option<UdpSocket>,
}

/// The managed network of a thread or a command: its policy and who is asked.
pub struct Egress {
    policy: EgressPolicy,
    gate: Gate,
    outside: Outside,
}

impl std::fmt::Debug for Egress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Egress").field("policy", &self.policy).finish_non_exhaustive()
    }
}

impl Egress {
    /// With nobody to ask, what the policy does not allow is refused.
    pub fn new(policy: EgressPolicy, asker: Option<Arc<dyn Asker>>, outside: Outside) -> Self {
        Self { gate: Gate::new(asker), policy, outside }
    }

    /// The policy.
    pub fn policy(&self) -> &EgressPolicy {
        &self.policy
    }

    /// The variables that make programs use the proxies.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        let http = format!("http://127.0.0.1:{}", self.policy.http_port);
        let all = match self.policy.socks_port {
            Some(port) => format!("socks5h://127.0.0.1:{port}"),
            None => http.clone(),
        };
        // What the command itself serves is on its own loopback interface.
        let own = "localhost,127.0.0.1,::1".to_owned();
        let mut variables = Vec::new();
        for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"] {
            variables.push((name, http.clone()));
        }
        variables.extend([("ALL_PROXY", all.clone()), ("all_proxy", all)]);
        variables.extend([("NO_PROXY", own.clone()), ("no_proxy", own)]);
        variables.push(("NODE_USE_ENV_PROXY", "1".to_owned()));
        variables
    }

    /// Serves until dropped.
    pub(crate) async fn serve(self: Arc<Self>, listeners: Listeners) {
        let Listeners { http, socks, udp } = listeners;
        let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let datagrams = async {
            match udp {
                Some(socket) => udp::relay(&self, socket).await,
                None => std::future::pending().await,
            }
        };
        let requests = accept(&http, &places, |stream| {
            let egress = self.clone();
            async move { http::serve(&egress, stream).await }
        });
        let tunnels = async {
            match &socks {
                Some(socks) => {
                    let serve = |stream| {
                        let egress = self.clone();
                        async move { socks::serve(&egress, stream).await }
                    };
                    accept(socks, &places, serve).await;
                }
                None => std::future::pending().await,
            }
        };
        tokio::join!(datagrams, requests, tunnels);
    }
}

/// Serves what connects; a connection that fails is its client's business.
async fn accept<F>(listener: &TcpListener, places: &Arc<Semaphore>, serve: impl Fn(TcpStream) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut running = JoinSet::new();
    loop {
        let place = places.clone().acquire_owned().await.expect("the semaphore is never closed");
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let served = serve(stream);
                    running.spawn(async move {
                        served.await;
                        drop(place);
                    });
                }
                // Out of descriptors, most likely: some come back.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            },
            Some(_) = running.join_next() => {}
        }
    }
}
