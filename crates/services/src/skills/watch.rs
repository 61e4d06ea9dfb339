//! Watches the folders of skills: any change there makes what was read of them old, and is reported to
//! clients after a pause. Where a folder cannot be watched, its skills are read again each time.

#[cfg(target_os = "linux")]
pub(super) use linux::SkillWatch;

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::HashMap;
    use std::io;
    use std::mem::MaybeUninit;
    use std::os::fd::OwnedFd;
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::sync::{Arc, Mutex, PoisonError};
    use std::time::Duration;

    use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
    use skills::Root;
    use tokio::io::unix::AsyncFd;
    use tokio::sync::Notify;
    use tokio::task::AbortHandle;

    /// Changes within this time count as one.
    const QUIET: Duration = Duration::from_millis(100);
    /// Folders that are watched. Skills in further ones are read again each time.
    const MAX_WATCHES: usize = 8_192;
    /// Names on the way to a folder of skills.
    const NAMES: [&[u8]; 4] = [b".agent", b".agents", b".claude", b"skills"];

    /// The watch of skill folders. Ends with its owner.
    pub(crate) struct SkillWatch {
        /// `None` when the kernel has no more watches.
        events: Option<Arc<Events>>,
        task: Option<AbortHandle>,
    }

    struct Events {
        descriptor: Arc<OwnedFd>,
        generation: AtomicU64,
        /// By watch descriptor; locked while events are read.
        watched: Mutex<HashMap<i32, Watched>>,
        /// A change was not reported yet.
        has_news: AtomicBool,
        news: Notify,
    }

    /// Which changes in a folder count.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Watched {
        /// All: skills are in it.
        Whole,
        /// Those of [`NAMES`]: folders of skills can appear in it.
        Names,
    }

    impl SkillWatch {
        /// `changed` is called after changes.
        pub(crate) fn begin(changed: impl Fn() + Send + Sync + 'static) -> Self {
            let open = || -> io::Result<(AsyncFd<Arc<OwnedFd>>, Arc<OwnedFd>)> {
                let descriptor =
                    Arc::new(inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?);
                // An owned descriptor gives the same one for as long as it lives.
                #[allow(deprecated, reason = "its successor is an unsafe function")]
                let ready = AsyncFd::new(descriptor.clone())?;
                Ok((ready, descriptor))
            };
            let Ok((ready, descriptor)) = open() else { return Self { events: None, task: None } };
            let events = Arc::new(Events {
                descriptor,
                generation: AtomicU64::new(0),
                watched: Mutex::default(),
                has_news: AtomicBool::new(false),
                news: Notify::new(),
            });
            let task = tokio::spawn(events.clone().report(ready, changed)).abort_handle();
            Self { events: Some(events), task: Some(task) }
        }

        /// Grows with every change that counts and has happened.
        pub(crate) fn generation(&self) -> u64 {
            let Some(events) = &self.events else { return 0 };
            events.take();
            events.generation.load(Ordering::Acquire)
        }

        /// Watches a folder; returns whether that is possible.
        pub(crate) fn add(&self, folder: &Path) -> bool {
            self.events.as_ref().is_some_and(|events| events.add(folder, Watched::Whole))
        }

        /// Watches the folders in which the roots can appear.
        pub(crate) fn add_roots(&self, roots: &[Root]) -> bool {
            let Some(events) = &self.events else { return false };
            let above = roots.iter().flat_map(|root| root.path.ancestors().skip(1).take(2));
            above.fold(true, |all, folder| {
                // One that does not exist appears in the next one.
                all & (!folder.is_dir() || events.add(folder, Watched::Names))
            })
        }
    }

    impl Drop for SkillWatch {
        fn drop(&mut self) {
            if let Some(task) = &self.task {
                task.abort();
            }
        }
    }

    impl Events {
        async fn report(self: Arc<Self>, ready: AsyncFd<Arc<OwnedFd>>, changed: impl Fn()) {
            loop {
                tokio::select! {
                    guard = ready.readable() => {
                        let Ok(mut guard) = guard else { return };
                        self.take();
                        guard.clear_ready();
                    }
                    // Taken by a look at the generation.
                    () = self.news.notified() => {}
                }
                if self.has_news.load(Ordering::Acquire) {
                    tokio::time::sleep(QUIET).await;
                    self.take();
                    self.has_news.store(false, Ordering::Release);
                    changed();
                }
            }
        }

        fn add(&self, folder: &Path, kind: Watched) -> bool {
            let mut mask = WatchFlags::CREATE
                | WatchFlags::MOVED_TO
                | WatchFlags::MOVED_FROM
                | WatchFlags::MOVE_SELF
                | WatchFlags::DELETE
                | WatchFlags::DELETE_SELF
                | WatchFlags::ONLYDIR
                // What is watched for another reason stays so.
                | WatchFlags::MASK_ADD;
            if kind == Watched::Whole {
                mask |= WatchFlags::CLOSE_WRITE | WatchFlags::ATTRIB;
            }
            let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
            if watched.len() >= MAX_WATCHES {
                return false;
            }
            let Ok(number) = inotify::add_watch(&self.descriptor, folder, mask) else {
                return false;
            };
            let entry = watched.entry(number).or_insert(kind);
            if kind == Watched::Whole {
                *entry = kind;
            }
            true
        }

        /// Takes the events that have happened.
        fn take(&self) {
            let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
            let mut buffer = [MaybeUninit::uninit(); 4096];
            let mut reader = Reader::new(&*self.descriptor, &mut buffer);
            let mut counts = false;
            while let Ok(event) = reader.next() {
                let flags = event.events();
                if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
                    counts = true;
                    continue;
                }
                let kind = match flags.contains(ReadFlags::IGNORED) {
                    true => watched.remove(&event.wd()),
                    false => watched.get(&event.wd()).copied(),
                };
                counts |= match (kind, event.file_name()) {
                    (None, _) => false,
                    (Some(Watched::Whole), _) => true,
                    (Some(Watched::Names), Some(name)) => NAMES.contains(&name.to_bytes()),
                    // The folder itself.
                    (Some(Watched::Names), None) => {
                        flags.intersects(ReadFlags::MOVE_SELF | ReadFlags::DELETE_SELF)
                    }
                };
            }
            if counts {
                self.generation.fetch_add(1, Ordering::AcqRel);
                self.has_news.store(true, Ordering::Release);
                self.news.notify_one();
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) use elsewhere::SkillWatch;

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use std::path::Path;

    use skills::Root;

    /// Watches nothing.
    pub(crate) struct SkillWatch;

    impl SkillWatch {
        pub fn begin(_: impl Fn() + Send + Sync + 'static) -> Self {
            Self
        }

        pub fn generation(&self) -> u64 {
            0
        }

        pub fn add(&self, _: &Path) -> bool {
            false
        }

        pub(crate) fn add_roots(&self, _: &[Root]) -> bool {
            false
        }
    }
}
