//! The network outside of the sandbox.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use tokio::net::TcpStream;

type Future<T> = Pin<Box<dyn std::future::Future<Output = io::Result<T>> + Send>>;

/// The network outside of the sandbox, as functions that tests replace.
#[derive(Clone)]
pub struct Outside {
    /// Resolves a host.
    pub resolve: Arc<dyn Fn(String, u16) -> Future<Vec<SocketAddr>> + Send + Sync>,
    /// Opens a connection.
    pub connect: Arc<dyn Fn(SocketAddr) -> Future<TcpStream> + Send + Sync>,
}

impl Outside {
    /// The network of this process.
    pub fn real() -> Self {
        Self {
            resolve: Arc::new(|host, port| {
                Box::pin(async move {
                    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
                    Ok(tokio::net::lookup_host((host, port)).await?.collect())
                })
            }),
            connect: Arc::new(|address| Box::pin(TcpStream::connect(address))),
        }
    }
}
