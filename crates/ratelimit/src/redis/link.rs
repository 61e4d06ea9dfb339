//! The connection to the store: one, shared by all calls and re-established in the background when
//! it is lost. Loads the library of functions if it is missing. It does not interpret the
//! functions.
//!
//! Without a connection a call fails immediately. A call waits for at most [`PATIENCE`].

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, ConnectionAddr, RedisError};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::fault::{self, Fault};
use super::wire;
use crate::{Bound, Error, ErrorKind, RedisOptions};

/// Longest wait for a reply.
pub(super) const PATIENCE: Duration = Duration::from_millis(500);
/// Shortest and longest pause between two attempts to connect.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(25), Duration::from_millis(500));
/// Interval of inspections of a connected store.
const INSPECTION: Duration = Duration::from_secs(10);
/// The library's name; each version of its code or its data has its own.
const LIBRARY: &str = "limits_4";
/// The libraries of earlier versions, newest first, which count in the same data.
const EARLIER: [&str; 3] = ["limits_3", "limits_2", "limits_1"];
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
    /// Calls of a function that changes something, without an effect on any limit.
    probe: Cmd,
    /// The fault that the last attempt to connect or the last inspection has shown.
    fault: Mutex<Option<Error>>,
    /// The fault that the last call has shown.
    call_fault: Mutex<Option<Error>>,
    has_call_fault: AtomicBool,
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
    pub(super) fn new(options: &RedisOptions) -> Result<Self, Error> {
        let client = Client::open(options.url.as_str()).map_err(|error| {
            Error::misconfigured(format!("has no valid address: {error}"))
                .next_step("correct [limits] url: redis://user:password@host:port/database")
        })?;
        if matches!(client.get_connection_info().addr(), ConnectionAddr::TcpTls { .. }) {
            // An application that has chosen another provider keeps it.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        // Messages contain the address, so it must not include user and password.
        let address = client.get_connection_info().addr().to_string();
        Ok(Self {
            client,
            connection: Mutex::default(),
            generation: AtomicU64::new(0),
            lost: Notify::new(),
            may_be_new: AtomicBool::new(options.first_start),
            address,
            probe: probe(options.durable),
            fault: Mutex::default(),
            call_fault: Mutex::default(),
            has_call_fault: AtomicBool::new(false),
        })
    }

    /// The present fault of the store, if there is one.
    pub(super) fn fault(&self) -> Option<Error> {
        lock(&self.fault).clone().or_else(|| lock(&self.call_fault).clone())
    }

    pub(super) fn is_up(&self) -> bool {
        self.lock().is_some()
    }

    /// Returns whether calls can succeed, as far as that is known.
    pub(super) fn is_usable(&self) -> bool {
        let is_misconfigured = || {
            let fault = lock(&self.call_fault);
            fault.as_ref().is_some_and(|fault| fault.kind() == ErrorKind::Misconfigured)
        };
        self.is_up() && !(self.has_call_fault.load(Ordering::Relaxed) && is_misconfigured())
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
        // A look succeeds where changes fail.
        let heals = function != "look";
        let first = self.ask(&mut connection, generation, &command, heals).await;
        match first {
            Err(CallError::NotDone(reason)) if reason.contains("Function not found") => {
                self.load(&mut connection).await.map_err(|error| self.failed(generation, error))?;
                self.ask(&mut connection, generation, &command, heals).await
            }
            other => other,
        }
    }

    async fn ask(
        &self,
        connection: &mut MultiplexedConnection,
        generation: u64,
        command: &Cmd,
        heals: bool,
    ) -> Result<Vec<i64>, CallError> {
        match timeout(PATIENCE, command.query_async(connection)).await {
            Ok(Ok(reply)) => {
                if heals && self.has_call_fault.swap(false, Ordering::Relaxed) {
                    *lock(&self.call_fault) = None;
                }
                Ok(reply)
            }
            Ok(Err(error)) => Err(self.failed(generation, error)),
            Err(_) => {
                self.give_up(generation);
                Err(CallError::Unknown(format!("{} does not answer", self.address)))
            }
        }
    }

    fn failed(&self, generation: u64, error: RedisError) -> CallError {
        let reason = format!("{}: {error}", self.address);
        if let Some(fault) = fault::of_error(&error) {
            *lock(&self.call_fault) = Some(fault.at(&self.address));
            self.has_call_fault.store(true, Ordering::Relaxed);
        }
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
                if timeout(INSPECTION, self.lost.notified()).await.is_err() {
                    self.inspect_again().await;
                }
                continue;
            }
            if self.connect().await.is_err() {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(BACKOFF.1);
            }
        }
    }

    /// Inspects the store while it is connected: its configuration may have changed.
    async fn inspect_again(&self) {
        let Some(mut connection) = self.lock().clone() else { return };
        // A store that does not answer is found by calls.
        if let Ok(Ok(found)) = timeout(PATIENCE, fault::inspect(&mut connection)).await {
            let fault = found.map(|(Fault::Prevents(fault) | Fault::Endangers(fault))| fault);
            *lock(&self.fault) = fault.map(|fault| fault.at(&self.address));
        }
        // Without requests, no call would find that it has passed.
        if self.has_call_fault.load(Ordering::Relaxed) {
            let generation = self.generation.load(Ordering::Acquire);
            // A fault that stays is noted again.
            let _ = self.ask(&mut connection, generation, &self.probe, true).await;
        }
    }

    /// One attempt to connect.
    ///
    /// # Errors
    /// The store's fault, or why it does not answer.
    pub(super) async fn connect(&self) -> Result<(), Error> {
        let (fault, connected) = match self.attempt().await {
            Ok(danger) => (danger.map(|danger| danger.at(&self.address)), Ok(())),
            Err(error) => {
                let error = error.at(&self.address);
                (Some(error.clone()), Err(error))
            }
        };
        *lock(&self.fault) = fault;
        connected
    }

    /// The result is a fault with which decisions go on: at the first connection there may be none.
    async fn attempt(&self) -> Result<Option<Error>, Error> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(PATIENCE))
            .set_response_timeout(None);
        let attempt = async {
            let mut connection =
                self.client.get_multiplexed_async_connection_with_config(&config).await?;
            let was_connected = self.generation.load(Ordering::Acquire) > 0;
            let danger = match fault::inspect(&mut connection).await? {
                None => None,
                Some(Fault::Endangers(fault)) if was_connected => Some(fault),
                Some(Fault::Prevents(fault) | Fault::Endangers(fault)) => return Ok(Err(fault)),
            };
            self.load(&mut connection).await?;
            // What its user may not do shows now, and not with the first request.
            let _: Vec<i64> = self.probe.query_async(&mut connection).await?;
            Ok::<_, RedisError>(Ok((connection, danger)))
        };
        let (connection, danger) = match timeout(2 * PATIENCE, attempt).await {
            Ok(Ok(connected)) => connected?,
            failed => return Err(self.explain(failed.ok().and_then(Result::err)).await),
        };
        // From now on an empty store has been emptied, and is not a new one.
        self.may_be_new.store(false, Ordering::Release);
        let mut current = self.lock();
        self.generation.fetch_add(1, Ordering::AcqRel);
        *current = Some(connection);
        Ok(danger)
    }

    /// Why an attempt to connect has failed; without an error, because it took too long.
    async fn explain(&self, error: Option<RedisError>) -> Error {
        if let Some(fault) = error.as_ref().and_then(fault::of_error) {
            return fault;
        }
        let is_refused = error.as_ref().is_some_and(RedisError::is_connection_refusal);
        if !is_refused
            && let Some(fault) = fault::of_listener(self.client.get_connection_info().addr()).await
        {
            return fault;
        }
        Error::unreachable(error.map_or_else(|| "it took too long".to_owned(), |e| e.to_string()))
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

    fn lock(&self) -> MutexGuard<'_, Option<MultiplexedConnection>> {
        lock(&self.connection)
    }
}

/// Seeds a meter that no request draws on with nothing, which needs all that a decision needs.
fn probe(is_durable: bool) -> Cmd {
    let keys = ["rates", "money"].map(|what| wire::key("~probe", what));
    let mut args = vec![u8::from(is_durable).to_string().into_bytes()];
    wire::push_bound(&mut args, "probe", Bound::Spend { most: None, month: 0 });
    wire::push(&mut args, 0);
    let mut command = redis::cmd("FCALL");
    command.arg(format!("{LIBRARY}_seed")).arg(keys.len()).arg(&keys[..]).arg(args);
    command
}

fn lock<T>(slot: &Mutex<T>) -> MutexGuard<'_, T> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The store's birth, as the library of an earlier version has it. Without it, a new version would take all
/// limits as used up.
async fn earlier_birth(
    connection: &mut MultiplexedConnection,
) -> Result<Option<(String, String)>, RedisError> {
    for library in EARLIER {
        let mut list = redis::cmd("FUNCTION");
        list.arg("LIST").arg("LIBRARYNAME").arg(library).arg("WITHCODE");
        let known: redis::Value = list.query_async(connection).await?;
        if let Some(birth) = birth_of(&format!("{known:?}")) {
            return Ok(Some(birth));
        }
    }
    Ok(None)
}

/// The run and the birth in the code of a library.
fn birth_of(code: &str) -> Option<(String, String)> {
    let (_, rest) = code.split_once("LOADED_RUN, LOADED_BORN = '")?;
    let (run, rest) = rest.split_once("', ")?;
    let digits = rest.find(|c: char| !c.is_ascii_digit())?;
    let is_run = run.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_run && digits > 0).then(|| (run.to_owned(), rest[..digits].to_owned()))
}
