//! One connection of an agent, and the ways to make one.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jsonrpc::{
    Client, CloseReason, Connection, ErrorObject, Method, Notification, Observer, Reader, RequestId,
};
use protocol::{InitializeParams, InitializeResponse};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::watch;

use crate::address::Route;
use crate::error::check_version;
use crate::process::Process;
use crate::replay::Replay;
use crate::{Error, connection_limits};

/// Makes a connection.
pub(crate) type Connector =
    Box<dyn Fn() -> Pin<Box<dyn Future<Output = Result<Connection, Error>> + Send>> + Send + Sync>;

/// The way to a server. It says whether the server outlives its connections.
pub(crate) enum Way {
    /// A program that was started, or a connection that was given.
    Once,
    Address(Route),
    Replay(Arc<Replay>),
    Connector(Connector),
}

impl Way {
    /// Returns whether another connection can be made.
    pub(crate) fn is_lasting(&self) -> bool {
        match self {
            Self::Once => false,
            Self::Replay(replay) => replay.is_lasting(),
            Self::Address(_) | Self::Connector(_) => true,
        }
    }

    /// Why there is no further message, whatever the connection says: a replay that differs.
    pub(crate) fn failure(&self) -> Option<Error> {
        match self {
            Self::Replay(replay) => replay.failure(),
            _ => None,
        }
    }

    pub(crate) async fn open(&self) -> Result<Connection, Error> {
        match self {
            Self::Once => Err(Error::lost("the connection was closed")),
            Self::Address(route) => route.connect(connection_limits()).await,
            Self::Replay(replay) => replay.open(),
            Self::Connector(connect) => connect().await,
        }
    }
}

/// Gets a result in the task that reads, before any later message, with the number of the connection.
pub(crate) type OnResult = Arc<dyn Fn(&RawValue, u32) + Send + Sync>;

/// One connection.
pub(crate) struct Link {
    /// Larger than that of every earlier one; from 1.
    pub(crate) number: u32,
    client: Client,
    pub(crate) process: Option<Process>,
    /// Why it ended; `None` while it is there.
    why: watch::Sender<Option<Error>>,
    /// The server wrote what is not the protocol: another connection would be no better.
    pub(crate) is_garbage: AtomicBool,
}

impl Link {
    /// Takes over a connection. Nothing arrives but by the reader.
    pub(crate) fn new(
        number: u32,
        connection: Connection,
        process: Option<Process>,
        observer: Option<Arc<dyn Observer>>,
    ) -> (Arc<Self>, Reader) {
        let (client, reader) = Client::observed(connection, observer);
        let (why, is_garbage) = (watch::Sender::new(None), AtomicBool::new(false));
        (Arc::new(Self { number, client, process, why, is_garbage }), reader)
    }

    /// Completes the handshake.
    pub(crate) async fn shake_hands(
        &self,
        hello: &InitializeParams,
    ) -> Result<InitializeResponse, Error> {
        let raw = self.request(protocol::Initialize::NAME, hello, None).await?;
        let garbage = |why: serde_json::Error| {
            self.is_garbage.store(true, Ordering::Release);
            self.end(Error::not_the_protocol(why))
        };
        let raw: Value = serde_json::from_str(raw.get()).map_err(garbage)?;
        // The version first: the response of another one may have another shape.
        check_version(raw["userAgent"].as_str().unwrap_or_default())?;
        let server = serde_json::from_value(raw).map_err(garbage)?;
        self.client
            .notify_raw(protocol::Initialized::NAME, &Value::Null)
            .map_err(|why| Error::lost(why.to_string()))?;
        Ok(server)
    }

    /// Calls a method on this connection.
    pub(crate) async fn request(
        &self,
        method: &str,
        params: &impl Serialize,
        taken: Option<OnResult>,
    ) -> Result<Box<RawValue>, Error> {
        let number = self.number;
        let taken = taken.map(|taken| -> jsonrpc::Taken {
            Box::new(move |result: &RawValue| taken(result, number))
        });
        match self.client.request_taken(method, params, taken).await {
            Ok(result) => Ok(result),
            Err(error) => match Error::of_call(method, error) {
                Some(error) => Err(error),
                None => Err(self.why().await),
            },
        }
    }

    /// Answers a request of the server.
    pub(crate) fn respond(&self, id: &RequestId, outcome: &Result<Value, ErrorObject>) {
        // On a closed connection there is no receiver; the question is asked again on the next one.
        let _ = self.client.respond(id, outcome);
    }

    /// Gives the connection up, and returns why: the first reason counts.
    pub(crate) fn end(&self, why: Error) -> Error {
        self.set_why(why.clone());
        self.client.outbox().close(CloseReason::Aborted);
        self.lost().unwrap_or(why)
    }

    /// Finishes the connection, after what was sent.
    pub(crate) fn finish(&self) {
        self.client.outbox().close(CloseReason::Finished);
    }

    /// Waits for the end of a server that was started here, whose connection is closed.
    pub(crate) async fn ended(&self) {
        match &self.process {
            Some(process) => process.end().await,
            None => self.client.outbox().ended().await,
        }
    }

    /// Why it was lost, once it is.
    pub(crate) fn lost(&self) -> Option<Error> {
        self.why.borrow().clone()
    }

    /// Asks the server for a sign of life: it counts what it receives, while this side does not read.
    pub(crate) fn ping(&self) {
        self.client.outbox().ping();
    }

    /// Why a connection ended that was read to its end.
    pub(crate) async fn last_words(&self) -> String {
        match (&self.process, self.client.outbox().close_reason()) {
            (Some(process), _) if self.lost().is_none() => process.last_words().await,
            (_, Some(reason @ (CloseReason::ReadFailed(_) | CloseReason::WriteFailed(_)))) => {
                format!("the connection broke: {reason}")
            }
            (_, Some(CloseReason::Violation(violation))) => {
                self.is_garbage.store(true, Ordering::Release);
                format!("the server wrote what is not the protocol: {violation}")
            }
            _ => "the server closed the connection".to_owned(),
        }
    }

    async fn why(&self) -> Error {
        let mut why = self.why.subscribe();
        // The task that reads reports the end of the connection within a bounded time.
        let lost = why.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
        lost.unwrap_or_else(|| Error::lost("the connection was closed"))
    }

    fn set_why(&self, why: Error) {
        self.why.send_if_modified(|known| {
            let is_first = known.is_none();
            known.get_or_insert(why);
            is_first
        });
    }
}
