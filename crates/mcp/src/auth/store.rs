//! The stored logins: one for each server, and a lock next to its file that one process holds while it
//! refreshes.

use std::fs::{File, TryLockError};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::transport::auth::{
    AuthError, CredentialRefreshGuard, CredentialStore, StoredCredentials,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::time::{Instant, sleep};

use crate::auth::place::{Place, folder_of, problem};
use crate::definition::HttpServer;
use crate::error::{Error, ErrorKind};
use crate::port::Keyring;

/// Maximum wait for another process that refreshes: longer than a refresh takes at most.
const WAIT: Duration = Duration::from_secs(90);
/// Pauses of that wait, the first and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(100));

/// Where the logins of a home are.
#[derive(Clone)]
pub(crate) struct Store {
    folder: PathBuf,
    keyring: Arc<dyn Keyring>,
}

/// The login at one server.
#[derive(Clone)]
pub(super) struct CredentialFile {
    place: Place,
    url: String,
    /// The client of a login that begins; stored with its tokens.
    client: Arc<Mutex<Option<Client>>>,
}

/// A client that an authorization server knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Client {
    pub(super) id: String,
    pub(super) secret: Option<String>,
    pub(super) redirect_uri: String,
}

/// The content of a file. The issuer is part of the credentials.
#[derive(Serialize, Deserialize)]
struct Stored {
    /// For people who read the file.
    url: String,
    client: Client,
    credentials: StoredCredentials,
}

impl Store {
    pub(crate) fn new(folder: PathBuf, keyring: Arc<dyn Keyring>) -> Self {
        Self { folder, keyring }
    }

    pub(super) fn file(&self, server: &HttpServer) -> CredentialFile {
        let digest = Sha256::digest(&server.url);
        let name: String = digest.iter().take(12).map(|byte| format!("{byte:02x}")).collect();
        let path = self.folder.join(format!("{name}.json"));
        let place = Place { path, store: server.oauth.store, keyring: self.keyring.clone() };
        CredentialFile { place, url: server.url.clone(), client: Arc::default() }
    }

    /// Returns whether there is a login at a server.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) async fn has_login(&self, server: &HttpServer) -> Result<bool, Error> {
        Ok(self.file(server).client().await?.is_some())
    }

    /// Deletes the login at a server; returns whether there was one.
    ///
    /// # Errors
    /// It cannot be deleted.
    pub(crate) async fn log_out(&self, server: &HttpServer) -> Result<bool, Error> {
        let place = self.file(server).place;
        blocking(move || place.delete()).await.map_err(unusable)
    }
}

impl CredentialFile {
    /// The client of the login that is stored; `None` without tokens.
    pub(super) async fn client(&self) -> Result<Option<Client>, Error> {
        let stored = self.read().await.map_err(unusable)?;
        Ok(stored.filter(|one| one.credentials.token_response.is_some()).map(|one| one.client))
    }

    /// The scopes that were granted so far.
    pub(super) async fn granted_scopes(&self) -> Result<Vec<String>, Error> {
        let stored = self.read().await.map_err(unusable)?;
        Ok(stored.map(|one| one.credentials.granted_scopes).unwrap_or_default())
    }

    /// The client that the next tokens belong to.
    pub(super) fn set_client(&self, client: Client) {
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = Some(client);
    }

    async fn read(&self) -> Result<Option<Stored>, String> {
        let place = self.place.clone();
        blocking(move || {
            let Some(bytes) = place.read()? else { return Ok(None) };
            let parsed = serde_json::from_slice(&bytes).map(Some);
            parsed.map_err(|error| problem("read", &place.path, &error))
        })
        .await
    }

    async fn write(&self, credentials: StoredCredentials) -> Result<(), String> {
        let begun = self.client.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let client = match begun {
            Some(client) => client,
            None => match self.read().await? {
                Some(stored) => stored.client,
                None => return Err("the login was removed meanwhile".to_owned()),
            },
        };
        let stored = Stored { url: self.url.clone(), client, credentials };
        let place = self.place.clone();
        blocking(move || place.write(&json(&stored)?)).await
    }
}

impl CredentialFile {
    /// Deletes tokens that the authorization server refuses for good, unless others have replaced them:
    /// they would be sent again with each call, and the server would count as logged in.
    async fn drop_tokens(&self, rejected: &StoredCredentials) -> Result<(), String> {
        let Some(mut stored) = self.read().await? else { return Ok(()) };
        if refresh_token(&stored.credentials)? == refresh_token(rejected)? {
            stored.credentials.token_response = None;
            let place = self.place.clone();
            blocking(move || place.write(&json(&stored)?)).await?;
        }
        Ok(())
    }
}

fn refresh_token(credentials: &StoredCredentials) -> Result<serde_json::Value, String> {
    // The library exports no other access to it.
    let tokens = serde_json::to_value(&credentials.token_response);
    Ok(tokens.map_err(|error| error.to_string())?["refresh_token"].take())
}

fn json(stored: &Stored) -> Result<Vec<u8>, String> {
    serde_json::to_vec(stored).map_err(|error| error.to_string())
}

// The trait is one of `async_trait`.
impl CredentialStore for CredentialFile {
    fn load<'a, 't>(
        &'a self,
    ) -> crate::port::BoxFuture<'t, Result<Option<StoredCredentials>, AuthError>>
    where
        'a: 't,
        Self: 't,
    {
        Box::pin(async move {
            let stored = self.read().await.map_err(AuthError::CredentialStoreError)?;
            Ok(stored.map(|stored| stored.credentials))
        })
    }

    fn save<'a, 't>(
        &'a self,
        credentials: StoredCredentials,
    ) -> crate::port::BoxFuture<'t, Result<(), AuthError>>
    where
        'a: 't,
        Self: 't,
    {
        Box::pin(
            async move { self.write(credentials).await.map_err(AuthError::CredentialStoreError) },
        )
    }

    fn clear<'a, 't>(&'a self) -> crate::port::BoxFuture<'t, Result<(), AuthError>>
    where
        'a: 't,
        Self: 't,
    {
        Box::pin(async move {
            let place = self.place.clone();
            let deleted = blocking(move || place.delete()).await;
            deleted.map(drop).map_err(AuthError::CredentialStoreError)
        })
    }

    /// Called while the guard of the refresh is held.
    fn on_refresh_token_rejected<'a, 'c, 't>(
        &'a self,
        rejected: &'c StoredCredentials,
    ) -> crate::port::BoxFuture<'t, Result<(), AuthError>>
    where
        'a: 't,
        'c: 't,
        Self: 't,
    {
        Box::pin(async move {
            let dropped = self.drop_tokens(rejected).await;
            dropped.map_err(AuthError::CredentialStoreError)
        })
    }

    fn acquire_refresh_guard<'a, 't>(
        &'a self,
    ) -> crate::port::BoxFuture<'t, Result<Option<CredentialRefreshGuard>, AuthError>>
    where
        'a: 't,
        Self: 't,
    {
        Box::pin(async move {
            let locked = lock(self.place.path.with_extension("lock")).await;
            let guard = locked.map_err(AuthError::CredentialStoreError)?;
            Ok(Some(CredentialRefreshGuard::new(guard)))
        })
    }
}

/// Waits for the lock, which ends with the file or the process.
async fn lock(path: PathBuf) -> Result<File, String> {
    let deadline = Instant::now() + WAIT;
    let mut pause = PAUSES.0;
    loop {
        let place = path.clone();
        let tried = blocking(move || {
            folder_of(&place).map_err(|error| problem("write", &place, &error))?;
            let opened = files::append(&place).map_err(|error| problem("lock", &place, &error))?;
            match opened.file.try_lock() {
                Ok(()) => Ok(Some(opened.file)),
                Err(TryLockError::WouldBlock) => Ok(None),
                Err(TryLockError::Error(error)) => Err(problem("lock", &place, &error)),
            }
        });
        if let Some(locked) = tried.await? {
            return Ok(locked);
        }
        if Instant::now() >= deadline {
            let seconds = WAIT.as_secs();
            return Err(format!("another process held {} for {seconds} s", path.display()));
        }
        sleep(pause).await;
        pause = (pause * 2).min(PAUSES.1);
    }
}

/// Runs work on files outside of the runtime's threads.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(error.to_string()))
}

fn unusable(problem: String) -> Error {
    Error::new(ErrorKind::Unavailable, problem)
}
