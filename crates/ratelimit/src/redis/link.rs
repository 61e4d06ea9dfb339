//! The connection to the store: one, shared by all calls and re-established in the background when
//! it is lost. Loads the library of functions if it is missing. It does not interpret the
//! functions.
//!
//! Without a connection a call fails immediately. A call waits for at most [`PATIENCE`].

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, RedisError};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::RedisOptions;

/// Longest wait for a reply.
pub(super) const PATIENCE: Duration = Duration::from_millis(500);
/// Shortest and longest pause between two attempts to connect.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(25), Duration::from_millis(500));
/// The library's name; each version of its code or its data has its own.
const LIBRARY: &str = "limits_2";
/// The library of earlier versions, which counts in the same data.
const EARLIER: &str = "limits_1";
const TEXT: &str = include_str!("limits.lua");

/// The connection to the store.
#[derive(Debug)]
pub(super) struct Link {
    client: Client,
    connection: Mutex<Option<MultiplexedConnection>>,
    /// Counts connections: a failed call drops the connection that it used, and no later one.
    generation: AtomicU64,
    lost: Notify,
    /// True if this node may treat an empty store as a new one.
    may_be_new: AtomicBool,
    address: String,
}

/// Why a call has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CallError {
    /// The call had no effect.
    NotDone(String),
    /// The call may have taken effect.
    Unknown(String),
}

impl CallError {
    pub(super) fn into_reason(self) -> String {
        match self {
            Self::NotDone(reason) | Self::Unknown(reason) => reason,
        }
    }
}

impl Link {
    /// # Errors
    /// The URL is invalid.
    pub(super) fn new(options: &RedisOptions) -> Result<Self, RedisError> {
        let client = Client::open(options.url.as_str())?;
        // Messages contain the address, so it must not include user and password.
        let address = client.get_connection_info().addr().to_string();
        Ok(Self {
            client,
            connection: Mutex::default(),
            generation: AtomicU64::new(0),
            lost: Notify::new(),
            may_be_new: AtomicBool::new(options.first_start),
            address,
        })
    }

    pub(super) fn is_up(&self) -> bool {
        self.lock().is_some()
    }

    /// Calls a function of the library, which returns a list of integers.
    pub(super) async fn call(
        &self,
        function: &str,
        keys: &[String],
        args: &[Vec<u8>],
    ) -> Result<Vec<i64>, CallError> {
        let mut command = redis::cmd("FCALL");
        command.arg(format!("{LIBRARY}_{function}")).arg(keys.len()).arg(keys).arg(args);
        let generation = self.generation.load(Ordering::Acquire);
        let Some(mut connection) = self.lock().clone() else {
            return Err(CallError::NotDone(format!("{} is not connected", self.address)));
        };
        let first = self.ask(&mut connection, generation, &command).await;
        match first {
            Err(CallError::NotDone(reason)) if reason.contains("Function not found") => {
                self.load(&mut connection).await.map_err(|error| self.failed(generation, error))?;
                self.ask(&mut connection, generation, &command).await
            }
            other => other,
        }
    }

    async fn ask(
        &self,
        connection: &mut MultiplexedConnection,
        generation: u64,
        command: &Cmd,
    ) -> Result<Vec<i64>, CallError> {
        match timeout(PATIENCE, command.query_async(connection)).await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(error)) => Err(self.failed(generation, error)),
            Err(_) => {
                self.give_up(generation);
                Err(CallError::Unknown(format!("{} does not answer", self.address)))
            }
        }
    }

    fn failed(&self, generation: u64, error: RedisError) -> CallError {
        let reason = format!("{}: {error}", self.address);
        let Some(code) = error.code() else {
            self.give_up(generation);
            return CallError::Unknown(reason);
        };
        if ["LOADING", "READONLY", "MASTERDOWN", "NOAUTH"].contains(&code) {
            self.give_up(generation);
        }
        CallError::NotDone(reason)
    }

    /// Drops the connection of that generation, unless it was replaced.
    fn give_up(&self, generation: u64) {
        let mut connection = self.lock();
        if self.generation.load(Ordering::Acquire) == generation && connection.take().is_some() {
            self.lost.notify_one();
        }
    }

    /// Connects, and reconnects whenever the connection is lost. Never returns.
    pub(super) async fn stay_connected(self: Arc<Self>) {
        let mut pause = BACKOFF.0;
        loop {
            if self.is_up() {
                pause = BACKOFF.0;
                self.lost.notified().await;
                continue;
            }
            if self.connect().await.is_err() {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(BACKOFF.1);
            }
        }
    }

    /// One attempt to connect.
    pub(super) async fn connect(&self) -> Result<(), CallError> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(PATIENCE))
            .set_response_timeout(None);
        let attempt = async {
            let mut connection =
                self.client.get_multiplexed_async_connection_with_config(&config).await?;
            self.load(&mut connection).await?;
            Ok::<_, RedisError>(connection)
        };
        let connection = timeout(2 * PATIENCE, attempt).await;
        let failed = |reason: String| CallError::NotDone(format!("{}: {reason}", self.address));
        let connection = connection.map_err(|_| failed("it does not answer".to_owned()))?;
        let connection = connection.map_err(|error| failed(error.to_string()))?;
        // From now on an empty store has been emptied, and is not a new one.
        self.may_be_new.store(false, Ordering::Release);
        let mut current = self.lock();
        self.generation.fetch_add(1, Ordering::AcqRel);
        *current = Some(connection);
        Ok(())
    }

    /// Loads the library if it is missing. The library stores the id of the store's current run,
    /// and the time since which the store's memory is complete: always for a new store, else now.
    async fn load(&self, connection: &mut MultiplexedConnection) -> Result<(), RedisError> {
        let mut list = redis::cmd("FUNCTION");
        list.arg("LIST").arg("LIBRARYNAME").arg(LIBRARY);
        let known: Vec<redis::Value> = list.query_async(connection).await?;
        if !known.is_empty() {
            return Ok(());
        }
        let (run, born) = match earlier_birth(connection).await? {
            Some(birth) => birth,
            None => self.birth(connection).await?,
        };
        let text = TEXT.replace("@NAME@", LIBRARY).replace("@RUN@", &run);
        let text = text.replace("@BORN@", &born);
        let mut load = redis::cmd("FUNCTION");
        load.arg("LOAD").arg(text);
        match load.query_async::<String>(connection).await {
            // Another node has loaded it concurrently.
            Err(error) if error.to_string().contains("already exists") => Ok(()),
            other => other.map(|_| ()),
        }
    }

    /// The id of the store's run, and the time since which the store's data is complete.
    async fn birth(
        &self,
        connection: &mut MultiplexedConnection,
    ) -> Result<(String, String), RedisError> {
        let info: String = redis::cmd("INFO").arg("server").query_async(connection).await?;
        let run = info.lines().find_map(|line| line.strip_prefix("run_id:")).unwrap_or_default();
        let entries: u64 = redis::cmd("DBSIZE").query_async(connection).await?;
        let (seconds, micros): (u64, u64) = redis::cmd("TIME").query_async(connection).await?;
        let is_new = entries == 0 && self.may_be_new.load(Ordering::Acquire);
        let born = if is_new { 0 } else { seconds * 1_000_000 + micros };
        Ok((run.trim().to_owned(), born.to_string()))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<MultiplexedConnection>> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The store's birth, as the library of an earlier version has it. Without it, a new version would take all
/// limits as used up.
async fn earlier_birth(
    connection: &mut MultiplexedConnection,
) -> Result<Option<(String, String)>, RedisError> {
    let mut list = redis::cmd("FUNCTION");
    list.arg("LIST").arg("LIBRARYNAME").arg(EARLIER).arg("WITHCODE");
    let known: redis::Value = list.query_async(connection).await?;
    Ok(birth_of(&format!("{known:?}")))
}

/// The run and the birth in the code of a library.
fn birth_of(code: &str) -> Option<(String, String)> {
    let (_, rest) = code.split_once("LOADED_RUN, LOADED_BORN = '")?;
    let (run, rest) = rest.split_once("', ")?;
    let digits = rest.find(|c: char| !c.is_ascii_digit())?;
    let is_run = run.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_run && digits > 0).then(|| (run.to_owned(), rest[..digits].to_owned()))
}
