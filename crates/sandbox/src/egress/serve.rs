//! Serves the proxies of one command's network.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::managed::Egress;
use super::{http, socks, udp};

/// Concurrent connections of a command; further ones wait.
const MAX_CONNECTIONS: usize = 256;

/// The proxies of a command's network. Dropping them, with the command, ends all connections.
pub(crate) struct Listeners {
    pub(crate) http: TcpListener,
    pub(crate) socks: Option<TcpListener>,
    pub(crate) udp: Option<UdpSocket>,
}

/// Serves until dropped.
pub(crate) async fn serve(egress: Arc<Egress>, listeners: Listeners) {
    let Listeners { http, socks, udp } = listeners;
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let datagrams = async {
        match udp {
            Some(socket) => udp::relay(&egress, socket).await,
            None => std::future::pending().await,
        }
    };
    let requests = accept(&http, &places, |stream| {
        let egress = egress.clone();
        async move { http::serve(&egress, stream).await }
    });
    let tunnels = async {
        match &socks {
            Some(socks) => {
                let serve = |stream| {
                    let egress = egress.clone();
                    async move { socks::serve(&egress, stream).await }
                };
                accept(socks, &places, serve).await;
            }
            None => std::future::pending().await,
        }
    };
    tokio::join!(datagrams, requests, tunnels);
}

/// A proxy for connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proxy {
    Http = 1,
    Socks = 2,
}

impl Proxy {
    pub(crate) fn from_tag(tag: u8) -> Option<Self> {
        [Self::Http, Self::Socks].into_iter().find(|proxy| *proxy as u8 == tag)
    }
}

/// Serves connections that are made elsewhere, until there are no more.
pub(crate) async fn serve_each<F>(egress: Arc<Egress>, next: impl Fn() -> F)
where
    F: Future<Output = Option<(Proxy, TcpStream)>>,
{
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut running = JoinSet::new();
    loop {
        let place = places.clone().acquire_owned().await.expect("the semaphore is never closed");
        tokio::select! {
            made = next() => {
                let Some((proxy, stream)) = made else { break };
                let egress = egress.clone();
                running.spawn(async move {
                    match proxy {
                        Proxy::Http => http::serve(&egress, stream).await,
                        Proxy::Socks => socks::serve(&egress, stream).await,
                    }
                    drop(place);
                });
            }
            Some(_) = running.join_next() => {}
        }
    }
    while running.join_next().await.is_some() {}
}

/// Serves connections. Errors of a connection concern only its client.
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
                // Most likely out of descriptors, which is temporary.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            },
            Some(_) = running.join_next() => {}
        }
    }
}
