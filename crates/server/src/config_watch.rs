//! Watches the configuration files of the user and the administrator, so that clients hear of a
//! mistake when it is made. What a change does to a thread is decided when its next turn starts.

use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use config::Resolved;
use config::kind::scope;
use config::table::Keys;
use protocol::ConfigWarning;
use serde_json::Value;
use tokio::task::AbortHandle;

use crate::server::Core;
use crate::warnings;

/// An editor writes a file in several steps: they count as one.
const QUIET: Duration = Duration::from_millis(50);

/// Ends the watching with the server.
pub(crate) struct Watching(AbortHandle);

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Begins to watch.
pub(crate) fn start(core: &Arc<Core>) -> Watching {
    let folders = vec![
        core.options.home.clone(),
        core.options.home.join("cache"),
        core.options.system_dir.clone(),
    ];
    let core = Arc::downgrade(core);
    Watching(tokio::spawn(watch(folders, core)).abort_handle())
}

async fn watch(folders: Vec<PathBuf>, core: Weak<Core>) {
    let Some(begun) = core.upgrade() else { return };
    let before =
        begun.config.own(&begun.options).ok().map(|loaded| restart_values(&loaded.resolved));
    drop(begun);
    let mut before = before.unwrap_or_default();
    let mut changes = Changes::of(&folders);
    while changes.next().await {
        tokio::time::sleep(QUIET).await;
        let Some(core) = core.upgrade() else { return };
        look(&core, &mut before);
    }
}

/// Reads what changed and tells everybody what is wrong with it.
fn look(core: &Core, before: &mut Vec<(&'static str, Option<Value>)>) {
    let loaded = core.config.own(&core.options);
    for error in core.config.broken() {
        core.warn("configuration", &error.to_string());
        core.tell_everybody::<ConfigWarning>(&warnings::kept(&error));
    }
    let Ok(loaded) = loaded else { return };
    let now = restart_values(&loaded.resolved);
    for ((key, then), (_, value)) in before.iter().zip(&now) {
        if then != value {
            let summary = format!("`{key}` changed: it counts when the server starts again");
            core.tell_everybody::<ConfigWarning>(&warnings::plain(summary));
        }
    }
    *before = now;
}

/// The values of the keys that count at a start only.
fn restart_values(resolved: &Resolved) -> Vec<(&'static str, Option<Value>)> {
    let entries = Keys::SECTION.entries.iter().filter(|entry| entry.scope & scope::RESTART != 0);
    entries.map(|entry| (entry.name, resolved.value(entry.name).map(|(value, _)| value))).collect()
}

#[cfg(target_os = "linux")]
use linux::Changes;

#[cfg(target_os = "linux")]
mod linux {
    use std::mem::MaybeUninit;
    use std::os::fd::OwnedFd;
    use std::path::PathBuf;

    use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
    use tokio::io::unix::AsyncFd;

    /// Changes of the files of interest in some folders.
    pub(super) struct Changes {
        /// `None` where the kernel has no more watches to give: then nothing is heard.
        events: Option<AsyncFd<OwnedFd>>,
    }

    impl Changes {
        pub(super) fn of(folders: &[PathBuf]) -> Self {
            let open = || -> std::io::Result<AsyncFd<OwnedFd>> {
                let events = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
                // Not MODIFY: the database in the same folder is written all the time.
                let mask = WatchFlags::CLOSE_WRITE
                    | WatchFlags::MOVED_TO
                    | WatchFlags::MOVED_FROM
                    | WatchFlags::DELETE
                    | WatchFlags::ONLYDIR;
                for folder in folders {
                    // A folder that is not there has no files.
                    let _ = inotify::add_watch(&events, folder, mask);
                }
                // An owned descriptor gives the same one for as long as it lives.
                #[allow(deprecated, reason = "its successor is an unsafe function")]
                AsyncFd::new(events)
            };
            Self { events: open().ok() }
        }

        /// Waits for a change; false when there will be none.
        pub(super) async fn next(&mut self) -> bool {
            let Some(events) = &self.events else { return false };
            loop {
                let Ok(mut ready) = events.readable().await else { return false };
                let mut buffer = [MaybeUninit::uninit(); 4096];
                let mut reader = Reader::new(events.get_ref(), &mut buffer);
                let mut of_interest = false;
                while let Ok(event) = reader.next() {
                    let name = event.file_name().map(|name| name.to_bytes());
                    of_interest |= event.events().contains(ReadFlags::QUEUE_OVERFLOW)
                        || matches!(name, Some(b"config.toml" | b"requirements.toml"));
                }
                ready.clear_ready();
                if of_interest {
                    return true;
                }
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
use elsewhere::Changes;

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use std::path::PathBuf;
    use std::time::{Duration, SystemTime};

    const POLL: Duration = Duration::from_secs(2);

    /// Looks at the files now and then.
    pub(super) struct Changes {
        files: Vec<PathBuf>,
        seen: Vec<Option<SystemTime>>,
    }

    impl Changes {
        pub(super) fn of(folders: &[PathBuf]) -> Self {
            let names = ["config.toml", "requirements.toml"];
            let files: Vec<PathBuf> =
                folders.iter().flat_map(|folder| names.map(|name| folder.join(name))).collect();
            let seen = times(&files);
            Self { files, seen }
        }

        pub(super) async fn next(&mut self) -> bool {
            loop {
                tokio::time::sleep(POLL).await;
                let now = times(&self.files);
                if now != self.seen {
                    self.seen = now;
                    return true;
                }
            }
        }
    }

    fn times(files: &[PathBuf]) -> Vec<Option<SystemTime>> {
        files.iter().map(|file| file.metadata().and_then(|meta| meta.modified()).ok()).collect()
    }
}
