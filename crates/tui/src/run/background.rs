//! Discoveries in the background, on the machine of the server. A file system or a server that does
//! not answer delays nothing.

use std::path::PathBuf;

use tokio::runtime::Handle;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::here::{self, AddressFault, AskedServer, FindModels, FindServers, Found};

/// Results that wait for the loop. The one who has more to report waits.
const QUEUE: usize = 8;

/// The background tasks of the program.
pub(super) struct Background {
    runtime: Handle,
    find_servers: Option<FindServers>,
    find_models: Option<FindModels>,
    sender: Sender<Found>,
    receiver: Receiver<Found>,
}

impl Background {
    pub(super) fn new(
        runtime: Handle,
        find_servers: Option<FindServers>,
        find_models: Option<FindModels>,
    ) -> Self {
        let (sender, receiver) = channel(QUEUE);
        Self { runtime, find_servers, find_models, sender, receiver }
    }

    pub(super) fn find_servers(&self) {
        let sender = self.sender.clone();
        let finding = self.find_servers.as_ref().map(|find| find());
        self.runtime.spawn(async move {
            let servers = match finding {
                Some(finding) => finding.await,
                None => Vec::new(),
            };
            // At the end of the program there is no receiver.
            let _ = sender.send(Found::Servers(servers)).await;
        });
    }

    pub(super) fn find_models(&self, server: AskedServer) {
        let sender = self.sender.clone();
        let finding = self.find_models.as_ref().map(|find| find(server.clone()));
        self.runtime.spawn(async move {
            let found = match finding {
                Some(finding) => finding.await,
                None => Err(AddressFault::Address("this program asks no servers".to_owned())),
            };
            // As above.
            let _ = sender.send(Found::Models(server, found)).await;
        });
    }

    pub(super) fn check_writable(&self, folders: Vec<PathBuf>) {
        let sender = self.sender.clone();
        self.runtime.spawn_blocking(move || {
            let open = here::writable_by_all(folders);
            // As above.
            let _ = sender.blocking_send(Found::WritableByAll(open));
        });
    }

    /// Waits for the next result. Cancel safe.
    pub(super) async fn next(&mut self) -> Found {
        match self.receiver.recv().await {
            Some(found) => found,
            // This value has a sender of its own.
            None => std::future::pending().await,
        }
    }
}
