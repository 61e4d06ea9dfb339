//! The state that an agent, its threads and its turns share: the connection, and the task that
//! reads it.

use std::sync::Arc;

use jsonrpc::{
    Client, CloseReason, Connection, ErrorObject, Event, Events, Limits, Method, RequestId,
};
use protocol::{Empty, InitializeParams, InitializeResponse};
use serde_json::value::RawValue;
use tokio::sync::watch;

use crate::answers::Answers;
use crate::error::check_version;
use crate::hub::Hub;
use crate::order::Orders;
use crate::process::Process;
use crate::{Error, Notification};

/// The state that an agent, its threads and its turns share. Its connection ends with
/// [`Shared::close`], or with the server.
pub(crate) struct Shared {
    client: Client,
    pub(crate) hub: Hub,
    pub(crate) orders: Orders,
    answers: Answers,
    process: Option<Process>,
    /// Why the connection ended; `None` while it is there.
    lost: watch::Sender<Option<Error>>,
}

impl Shared {
    /// Takes over a connection. Must be called within a tokio runtime.
    pub(crate) fn new(
        connection: Connection,
        limits: &Limits,
        answers: Answers,
        process: Option<Process>,
    ) -> Arc<Self> {
        let (client, events) = Client::new(connection, limits);
        let lost = watch::Sender::new(None);
        let (hub, orders) = (Hub::default(), Orders::default());
        let shared = Arc::new(Self { client, hub, orders, answers, process, lost });
        tokio::spawn(shared.clone().read(events));
        shared
    }

    /// Completes the handshake.
    pub(crate) async fn shake_hands(
        &self,
        hello: &InitializeParams,
    ) -> Result<InitializeResponse, Error> {
        let raw = self.request_raw(protocol::Initialize::NAME, hello).await?;
        // The version first: the response of another one may have another shape.
        check_version(raw["userAgent"].as_str().unwrap_or_default())?;
        let opened = serde_json::from_value(raw)
            .map_err(|why| self.give_up(Error::not_the_protocol(why)))?;
        self.client
            .notify::<protocol::Initialized>(&Empty {})
            .map_err(|why| Error::ConnectionLost(why.to_string()))?;
        Ok(opened)
    }

    /// Calls a method.
    pub(crate) async fn request<M: Method>(&self, params: &M::Params) -> Result<M::Result, Error> {
        match self.client.request::<M>(params).await {
            Ok(result) => Ok(result),
            Err(error) => Err(self.failed(M::NAME, error).await),
        }
    }

    async fn request_raw(
        &self,
        method: &str,
        params: &impl serde::Serialize,
    ) -> Result<serde_json::Value, Error> {
        let params = serde_json::to_value(params).map_err(|why| Error::NotJson(why.to_string()))?;
        match self.client.request_raw(method, &params).await {
            Ok(result) => Ok(result),
            Err(error) => Err(self.failed(method, error).await),
        }
    }

    async fn failed(&self, method: &str, error: jsonrpc::CallError) -> Error {
        match Error::of_call(method, error) {
            Some(error) => error,
            None => self.why_lost().await,
        }
    }

    /// Gives the connection up, and returns why: the first reason counts.
    pub(crate) fn give_up(&self, why: Error) -> Error {
        self.lose(why.clone());
        self.client.outbox().close(CloseReason::Aborted);
        self.lost.borrow().clone().unwrap_or(why)
    }

    /// Finishes the connection, after what was sent.
    pub(crate) fn close(&self) {
        self.lose(Error::ConnectionLost("the connection was closed".to_owned()));
        self.client.outbox().close(CloseReason::Finished);
    }

    /// Ends the connection at once, and a server that was started here with it.
    pub(crate) fn abandon(&self) {
        self.give_up(Error::ConnectionLost("the connection was given up".to_owned()));
        if let Some(process) = &self.process {
            process.kill();
        }
    }

    /// Waits for the end of a server that was started here, whose connection is closed.
    pub(crate) async fn ended(&self) {
        match &self.process {
            Some(process) => process.end().await,
            None => self.client.outbox().ended().await,
        }
    }

    /// Why a connection was lost that is.
    pub(crate) fn lost(&self) -> Option<Error> {
        self.lost.borrow().clone()
    }

    async fn why_lost(&self) -> Error {
        let mut lost = self.lost.subscribe();
        // The task that reads reports the end of the connection within a bounded time.
        let why = lost.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
        why.unwrap_or_else(|| Error::ConnectionLost("the connection was closed".to_owned()))
    }

    fn lose(&self, why: Error) {
        self.lost.send_if_modified(|lost| {
            let is_first = lost.is_none();
            lost.get_or_insert(why);
            is_first
        });
        self.hub.close();
    }

    /// Reads until the connection ends.
    async fn read(self: Arc<Self>, mut events: Events) {
        while let Some(event) = events.next().await {
            let delivered = match event {
                Event::Notification { method, params, .. } => {
                    self.hub.deliver(Notification { method, params })
                }
                Event::Request { id, method, params } => {
                    self.clone().answer(id, method, params);
                    Ok(())
                }
                Event::Fault(fault) => Err(fault.message),
            };
            if let Err(what) = delivered {
                self.give_up(Error::not_the_protocol(what));
                return;
            }
        }
        let why = match &self.process {
            Some(process) if self.lost().is_none() => process.last_words().await,
            _ => match self.client.outbox().close_reason() {
                Some(reason @ (CloseReason::ReadFailed(_) | CloseReason::WriteFailed(_))) => {
                    format!("the connection broke: {reason}")
                }
                Some(CloseReason::Violation(violation)) => {
                    format!("the server wrote what is not the protocol: {violation}")
                }
                _ => "the server closed the connection".to_owned(),
            },
        };
        self.give_up(Error::ConnectionLost(why));
    }

    /// Answers a request in parallel with the reading: a callback may take as long as a person does.
    fn answer(self: Arc<Self>, id: RequestId, method: String, params: Box<RawValue>) {
        tokio::spawn(async move {
            let shared = self.clone();
            // In a task of its own, so that the server is answered whatever a callback does.
            let answering =
                tokio::spawn(async move { shared.answers.answer(&method, &params).await });
            let outcome = answering.await.unwrap_or_else(|_| {
                Err(ErrorObject::internal("the client's function for this request panicked"))
            });
            // On a closed connection there is no receiver.
            let _ = self.client.respond(&id, &outcome);
        });
    }
}
