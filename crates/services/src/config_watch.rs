//! Watches the configuration files of the user, the administrator and the projects of threads, so
//! that clients learn of a mistake at once. Threads apply a change when their next turn starts. Watches
//! the file with the credentials too, so that clients learn of logins by other processes.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use config::Resolved;
use config::kind::scope;
use config::table::Keys;
use files::Pool;
use protocol::ConfigWarning;
use serde_json::Value;
use tokio::task::AbortHandle;

use crate::accounts::{AccountConfig, Accounts};
use crate::config_source::ConfigSource;
use crate::connections::Connections;
use crate::options::Options;
use crate::warnings;

/// An editor writes a file in several steps, which count as one change.
const QUIET: Duration = Duration::from_millis(50);

/// Folders that are watched, most of them of projects. Changes in further ones are noticed when a turn
/// starts.
const MAX_WATCHED: usize = 256;

/// Ends the watching with the server.
pub(crate) struct ConfigWatch {
    task: AbortHandle,
    folders: Folders,
    /// Those of `folders`, which exist or are watched until they do.
    watched: Mutex<HashSet<PathBuf>>,
}

impl ConfigWatch {
    /// Also watches the folders that hold these files, where there are such folders.
    pub(crate) fn follow(&self, files: &[PathBuf]) {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        for folder in files.iter().filter_map(|file| file.parent()) {
            if watched.len() < MAX_WATCHED && !watched.contains(folder) && folder.is_dir() {
                self.folders.add(folder);
                watched.insert(folder.to_owned());
            }
        }
    }
}

impl Drop for ConfigWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Begins to watch.
pub(crate) fn start(
    (source, accounts): (Arc<ConfigSource>, Arc<Accounts>),
    files: Pool,
    options: &Options,
    connections: Arc<Connections>,
) -> ConfigWatch {
    let home = options.home.clone();
    let folders = [home.clone(), home.join("cache"), options.system_dir.clone()];
    let (changes, watched) = Changes::begin();
    folders.iter().for_each(|folder| watched.add(folder));
    let watcher = Watcher { source, accounts, files, home, connections };
    let task = tokio::spawn(watcher.run(changes)).abort_handle();
    ConfigWatch { task, folders: watched, watched: Mutex::new(folders.into()) }
}

/// A change.
#[derive(Debug, Clone, Copy, Default)]
struct Changed {
    configuration: bool,
    credentials: bool,
}

impl Changed {
    /// A change of the file of this name.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only inotify names files"))]
    fn add(&mut self, name: &[u8]) {
        self.configuration |= matches!(name, b"config.toml" | b"requirements.toml");
        self.credentials |= name == account::CREDENTIALS_FILE.as_bytes();
    }

    fn is_any(self) -> bool {
        self.configuration || self.credentials
    }
}

/// Reads what changed and reports what is wrong with it.
struct Watcher {
    source: Arc<ConfigSource>,
    accounts: Arc<Accounts>,
    files: Pool,
    home: PathBuf,
    connections: Arc<Connections>,
}

impl Watcher {
    async fn run(self, mut changes: Changes) {
        let before = self.source.own().ok().map(|loaded| restart_values(&loaded.resolved));
        let mut before = before.unwrap_or_default();
        while let Some(changed) = changes.next().await {
            tokio::time::sleep(QUIET).await;
            if changed.configuration {
                self.look(&mut before).await;
            }
            self.look_at_account().await;
        }
    }

    /// The configuration decides which account there is, too.
    async fn look_at_account(&self) {
        let source = self.source.clone();
        let loaded = self.files.run(&self.home, move || source.own()).await;
        // Reported by [`Self::look`].
        let Ok(Ok(loaded)) = loaded else { return };
        self.accounts.look(&AccountConfig::new(&loaded.resolved.config)).await;
    }

    async fn look(&self, before: &mut Vec<(&'static str, Option<Value>)>) {
        let source = self.source.clone();
        let looked = self.files.run(&self.home, move || {
            let loaded = source.own();
            // The files of projects too.
            source.refresh();
            loaded
        });
        let loaded = match looked.await {
            Ok(loaded) => loaded,
            Err(error) => return tracing::warn!(target: "server::configuration", "{error}"),
        };
        for error in self.source.broken() {
            tracing::warn!(target: "server::configuration", "{error}");
            self.connections.notify_all::<ConfigWarning>(&warnings::kept(&error));
        }
        let Ok(loaded) = loaded else { return };
        let now = restart_values(&loaded.resolved);
        for ((key, then), (_, value)) in before.iter().zip(&now) {
            if then != value {
                let summary = format!("`{key}` has changed; restart the server to apply it");
                self.connections.notify_all::<ConfigWarning>(&warnings::plain(summary));
            }
        }
        *before = now;
    }
}

/// The values of the keys that count at a start only.
fn restart_values(resolved: &Resolved) -> Vec<(&'static str, Option<Value>)> {
    let entries = Keys::SECTION.entries.iter().filter(|entry| entry.scope & scope::RESTART != 0);
    entries.map(|entry| (entry.name, resolved.value(entry.name).map(|(value, _)| value))).collect()
}

#[cfg(target_os = "linux")]
use linux::{Changes, Folders};

#[cfg(target_os = "linux")]
mod linux {
    use std::mem::MaybeUninit;
    use std::os::fd::OwnedFd;
    use std::path::Path;
    use std::sync::Arc;

    use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
    use tokio::io::unix::AsyncFd;

    use super::Changed;

    /// Changes of the files of interest in some folders.
    pub(super) struct Changes {
        /// `None` when the kernel has no more watches: changes are not reported then.
        events: Option<AsyncFd<Arc<OwnedFd>>>,
    }

    /// The watched folders.
    pub(super) struct Folders(Option<Arc<OwnedFd>>);

    impl Folders {
        pub(crate) fn add(&self, folder: &Path) {
            // Not MODIFY: the database in the home is written all the time.
            let mask = WatchFlags::CLOSE_WRITE
                | WatchFlags::MOVED_TO
                | WatchFlags::MOVED_FROM
                | WatchFlags::DELETE
                | WatchFlags::ONLYDIR;
            if let Some(events) = &self.0 {
                // A folder that is not there has no files.
                let _ = inotify::add_watch(events, folder, mask);
            }
        }
    }

    impl Changes {
        pub(crate) fn begin() -> (Self, Folders) {
            let open = || -> std::io::Result<(AsyncFd<Arc<OwnedFd>>, Arc<OwnedFd>)> {
                let events = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
                let events = Arc::new(events);
                // An owned descriptor gives the same one for as long as it lives.
                #[allow(deprecated, reason = "its successor is an unsafe function")]
                let ready = AsyncFd::new(events.clone())?;
                Ok((ready, events))
            };
            match open() {
                Ok((ready, events)) => (Self { events: Some(ready) }, Folders(Some(events))),
                Err(_) => (Self { events: None }, Folders(None)),
            }
        }

        /// Waits for a change; `None` when there will be none.
        pub(crate) async fn next(&mut self) -> Option<Changed> {
            let events = self.events.as_ref()?;
            loop {
                let mut ready = events.readable().await.ok()?;
                let mut buffer = [MaybeUninit::uninit(); 4096];
                let mut reader = Reader::new(events.get_ref(), &mut buffer);
                let mut changed = Changed::default();
                while let Ok(event) = reader.next() {
                    if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                        changed = Changed { configuration: true, credentials: true };
                    }
                    changed.add(event.file_name().map(|name| name.to_bytes()).unwrap_or_default());
                }
                ready.clear_ready();
                if changed.is_any() {
                    return Some(changed);
                }
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
use elsewhere::{Changes, Folders};

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use std::path::{Path, PathBuf};
    use std::sync::{Arc, Mutex, PoisonError};
    use std::time::{Duration, SystemTime};

    use super::Changed;

    const POLL: Duration = Duration::from_secs(2);

    /// Looks at the files now and then.
    pub(super) struct Changes {
        files: Arc<Mutex<Vec<PathBuf>>>,
        seen: Vec<Option<SystemTime>>,
    }

    /// The watched folders.
    pub(super) struct Folders(Arc<Mutex<Vec<PathBuf>>>);

    impl Folders {
        pub fn add(&self, folder: &Path) {
            let names = ["config.toml", "requirements.toml", account::CREDENTIALS_FILE];
            let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            files.extend(names.map(|name| folder.join(name)));
        }
    }

    impl Changes {
        pub fn begin() -> (Self, Folders) {
            let files = Arc::<Mutex<Vec<PathBuf>>>::default();
            (Self { files: files.clone(), seen: Vec::new() }, Folders(files))
        }

        pub async fn next(&mut self) -> Option<Changed> {
            loop {
                tokio::time::sleep(POLL).await;
                let files = self.files.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let now: Vec<_> = files
                    .iter()
                    .map(|file| file.metadata().and_then(|meta| meta.modified()).ok())
                    .collect();
                let changed = now.len() == self.seen.len() && now != self.seen;
                self.seen = now;
                if changed {
                    return Some(Changed { configuration: true, credentials: true });
                }
            }
        }
    }
}
