//! The stored login of a home, for asynchronous callers: read and changed on threads that may block, in
//! bounded time.

use std::path::PathBuf;
use std::sync::Arc;

use files::Pool;
use tokio::sync::Mutex;

use crate::credentials::{Login, Stored};
use crate::error::Error;
use crate::lock::{LockWait, Locked};
use crate::settings::Settings;
use crate::storage::{Room, Storage};

/// Asynchronous access to the stored login of a home.
#[derive(Debug)]
pub(crate) struct Vault {
    home: PathBuf,
    files: Pool,
    /// Held while this process changes what is stored.
    changing: Arc<Mutex<()>>,
}

impl Vault {
    pub(crate) fn new(home: PathBuf) -> Self {
        Self { home, files: Pool::default(), changing: Arc::default() }
    }

    pub(crate) async fn read(&self, settings: &Settings) -> Result<Option<Stored>, Error> {
        self.run(settings, |storage| storage.read()).await
    }

    /// The stored login.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub(crate) async fn login(&self, settings: &Settings) -> Result<Login, Error> {
        match self.read(settings).await? {
            Some(Stored::Login(login)) => Ok(login),
            Some(Stored::Ended { reason }) => Err(Error::Ended { reason }),
            None => Err(Error::NotLoggedIn),
        }
    }

    /// Begins to wait for the lock, without which nothing may be changed.
    pub(crate) async fn wait_for_lock(&self, settings: &Settings) -> LockWait {
        let path = self.storage(settings).lock_path();
        LockWait::begin(self.files.clone(), path, self.changing.clone()).await
    }

    /// Checks that credentials can be written, and reserves the space.
    pub(crate) async fn reserve(
        &self,
        settings: &Settings,
        _: &Locked,
    ) -> Result<Option<Room>, Error> {
        self.run(settings, |storage| storage.reserve()).await
    }

    pub(crate) async fn write(
        &self,
        settings: &Settings,
        stored: Stored,
        room: Option<Room>,
        _: &Locked,
    ) -> Result<(), Error> {
        self.run(settings, move |storage| storage.write(&stored, room)).await
    }

    /// Replaces the login with the reason why it ended, and returns that as an error.
    pub(crate) async fn end(&self, settings: &Settings, reason: String, locked: &Locked) -> Error {
        tracing::warn!(target: "account", "the login was ended: {reason}");
        let ended = Stored::Ended { reason: reason.clone() };
        match self.write(settings, ended, None, locked).await {
            Ok(()) => Error::Ended { reason },
            Err(error) => error,
        }
    }

    /// Deletes what is stored. Returns whether there was anything.
    pub(crate) async fn delete(&self, settings: &Settings, _: &Locked) -> Result<bool, Error> {
        self.run(settings, |storage| storage.delete()).await
    }

    /// Waits until this process changes nothing.
    pub(crate) async fn settled(&self) {
        drop(self.changing.lock().await);
    }

    pub(crate) fn file(&self, settings: &Settings) -> PathBuf {
        self.storage(settings).path().to_owned()
    }

    fn storage(&self, settings: &Settings) -> Storage {
        Storage::new(&self.home, settings.store)
    }

    async fn run<T: Send + 'static>(
        &self,
        settings: &Settings,
        work: impl FnOnce(&Storage) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let storage = self.storage(settings);
        let path = storage.path().to_owned();
        let done = self.files.run(&path, move || work(&storage)).await;
        done.unwrap_or_else(|error| {
            let cause = error.into_io().to_string();
            Err(Error::Storage { action: "use", path, cause })
        })
    }
}
