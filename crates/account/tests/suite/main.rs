//! Logins against a login service that the tests script, good and bad.
#![allow(clippy::unwrap_used)]

#[cfg(all(feature = "keyring", target_os = "linux"))]
mod keyring;
mod login_service;
mod logins;
mod network;
mod refresh;
mod stored;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use account::{Accounts, Options, Settings, StoreKind};
use http_client::Network;
use tempfile::TempDir;

/// A home, with a clock that tests set.
struct Home {
    folder: TempDir,
    now_ms: Arc<AtomicI64>,
}

impl Home {
    fn new() -> Self {
        let now_ms = Arc::new(AtomicI64::new(1_767_225_600_000));
        Self { folder: tempfile::tempdir().unwrap(), now_ms }
    }

    /// The account as another process has it: nothing in memory is shared.
    fn accounts(&self) -> Accounts {
        self.accounts_in(Network::default())
    }

    /// The account of a program in another network.
    fn accounts_in(&self, network: Network) -> Accounts {
        let clock = self.now_ms.clone();
        Accounts::new(Options {
            home: self.folder.path().to_owned(),
            now_ms: Arc::new(move || clock.load(Ordering::Relaxed)),
            random: Arc::new(|bytes| {
                static NEXT: AtomicI64 = AtomicI64::new(1);
                let next = NEXT.fetch_add(1, Ordering::Relaxed).to_le_bytes();
                bytes.iter_mut().zip(next.iter().cycle()).for_each(|(to, from)| *to = *from);
            }),
            network,
        })
    }

    fn advance(&self, seconds: i64) {
        self.now_ms.fetch_add(seconds * 1000, Ordering::Relaxed);
    }

    fn file(&self) -> std::path::PathBuf {
        self.folder.path().join("credentials.json")
    }
}

fn settings(service: &str) -> Settings {
    Settings {
        store: StoreKind::File,
        forced_method: None,
        forced_workspace: None,
        login_service: Some(service.to_owned()),
        client_id: "agentd".to_owned(),
    }
}
