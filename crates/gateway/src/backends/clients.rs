//! Clients of one network, one for each thread that serves connections: a connection to an upstream is used where it was
//! opened, since any other thread would wait for that one with every read and write.

use std::sync::{Arc, OnceLock};

use http_client::HttpClient;

use crate::workers;

/// Clients that differ in their connections only.
#[derive(Clone, Debug)]
pub(super) struct Clients {
    /// That of the threads which serve no connections.
    first: HttpClient,
    /// Those of the workers, made when they are used first.
    of_workers: Arc<[OnceLock<HttpClient>]>,
}

impl Clients {
    pub(super) fn new(first: HttpClient) -> Self {
        let count = std::thread::available_parallelism().map_or(1, usize::from);
        Self { first, of_workers: (0..count).map(|_| OnceLock::new()).collect() }
    }

    /// The client of the calling thread. Workers beyond the number of processors share those of the first ones.
    pub(super) fn here(&self) -> &HttpClient {
        match workers::number() {
            0 => &self.first,
            number => {
                let client = &self.of_workers[(number - 1) % self.of_workers.len()];
                client.get_or_init(|| self.first.with_own_connections())
            }
        }
    }
}
