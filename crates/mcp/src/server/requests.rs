//! Requests to a server that is ready. Dropping the future of a request cancels it at the server. In the
//! era without sessions, an answer can demand input first: then the user is asked, and the request is
//! sent again.

use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, CancelledNotificationParam,
    ClientRequest, GetPromptRequest, GetPromptRequestParams, GetPromptResult, InputRequest,
    InputRequiredResult, InputResponses, JsonObject, ListPromptsRequest,
    ListResourceTemplatesRequest, ListResourcesRequest, PaginatedRequestParams,
    ReadResourceRequest, ReadResourceRequestParams, ReadResourceResult, RequestId,
    RequestMetaObject, ServerResult,
};
use rmcp::service::{Peer, PeerRequestOptions, ServiceError};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::watch;

use crate::calls::{ActiveCall, Origin};
use crate::catalog::show;
use crate::encode::ExactArguments;
use crate::error::{Error, ErrorKind, quoted};
use crate::results;
use crate::server::lists::List;
use crate::server::pages::Pages;
use crate::server::{Call, Live, Server, Shared, State};

/// Times that a server can demand input for one request.
const MAX_ROUNDS: usize = 10;
/// Pages of a list.
const MAX_PAGES: usize = 100;
/// Entries of a list of resources or prompts.
const MAX_LISTED: usize = 5000;
/// Pause before a request is sent again that no user was asked about.
const STATE_PAUSE: Duration = Duration::from_millis(100);
/// Metadata that only the protocol sets.
const RESERVED_META: &str = "io.modelcontextprotocol/";

impl Server {
    /// Calls a tool. Returns its result as the server sent it.
    ///
    /// # Errors
    /// The server is not ready, does not offer the tool or offers another by this name by now, refuses
    /// the call, does not answer in time, or answers too much.
    pub async fn call(&self, call: Call) -> Result<Value, Error> {
        // A call must not reach a tool that has just changed.
        self.shared.tools_listed().await;
        let live = self.offered(&call)?;
        let active = ActiveCall::new(call.holder, call.turn, call.progress);
        let mut params = CallToolRequestParams::new(call.tool);
        params.arguments = call.arguments;
        let exact = call.exact_arguments.map(|text| ExactArguments(text.into()));
        let meta = call.meta.map(allowed_meta);
        let request = |inputs: Inputs| {
            params.input_responses = inputs.responses;
            params.request_state = inputs.state;
            let mut request = CallToolRequest::new(params.clone());
            if let Some(exact) = &exact {
                request.extensions.insert(exact.clone());
            }
            ClientRequest::CallToolRequest(request)
        };
        match self.shared.answered(&live, &active, meta, request).await? {
            ServerResult::CallToolResult(result) => value(&result),
            // A result without content, which the type of results demands.
            ServerResult::EmptyResult(_) => Ok(serde_json::json!({"content": []})),
            other => {
                let result = value(&other)?;
                let problem = results::problem_of_result(&result);
                Err(malformed(
                    "tools/call",
                    problem.or_else(|| problem_as::<CallToolResult>(&result)),
                ))
            }
        }
    }

    /// The connection, if it offers this tool.
    fn offered(&self, call: &Call) -> Result<Live, Error> {
        let (live, catalog) = match (self.shared.live(), self.state()) {
            (Some(live), State::Ready(catalog)) => (live, catalog),
            (_, state) => return Err(not_ready(self.name(), &state)),
        };
        let unknown = |problem: &str| {
            let (server, tool) = (self.name(), &call.tool);
            let message = format!("the server `{server}` {problem} `{tool}`");
            Err(Error::new(ErrorKind::Unknown, message))
        };
        match (catalog.tool(&call.tool), call.digest) {
            (None, Some(_)) => unknown("no longer offers the tool"),
            (None, None) => unknown("offers no tool"),
            (Some(tool), Some(digest)) if tool.digest != digest => {
                unknown("has changed since it offered the tool")
            }
            _ => Ok(live),
        }
    }

    /// Reads a resource. Returns the result as the server sent it.
    ///
    /// # Errors
    /// As [`Server::call`].
    pub async fn read_resource(&self, holder: Option<String>, uri: &str) -> Result<Value, Error> {
        let live = self.live()?;
        let active = ActiveCall::new(holder, None, None);
        let mut params = ReadResourceRequestParams::new(uri);
        let request = |inputs: Inputs| {
            params.input_responses = inputs.responses;
            params.request_state = inputs.state;
            ClientRequest::ReadResourceRequest(ReadResourceRequest::new(params.clone()))
        };
        match self.shared.answered(&live, &active, None, request).await? {
            ServerResult::ReadResourceResult(result) => value(&result),
            other => {
                Err(malformed("resources/read", problem_as::<ReadResourceResult>(&value(&other)?)))
            }
        }
    }

    /// Expands a prompt. Returns the result as the server sent it.
    ///
    /// # Errors
    /// As [`Server::call`].
    pub async fn prompt(
        &self,
        holder: Option<String>,
        name: &str,
        arguments: Option<JsonObject>,
    ) -> Result<Value, Error> {
        let live = self.live()?;
        let active = ActiveCall::new(holder, None, None);
        let mut params = GetPromptRequestParams::new(name);
        params.arguments = arguments;
        let request = |inputs: Inputs| {
            params.input_responses = inputs.responses;
            params.request_state = inputs.state;
            ClientRequest::GetPromptRequest(GetPromptRequest::new(params.clone()))
        };
        match self.shared.answered(&live, &active, None, request).await? {
            ServerResult::GetPromptResult(result) => value(&result),
            other => Err(malformed("prompts/get", problem_as::<GetPromptResult>(&value(&other)?))),
        }
    }

    /// The resources; none if the server has none.
    ///
    /// # Errors
    /// As [`Server::call`].
    pub async fn resources(&self) -> Result<Vec<Value>, Error> {
        let live = self.live()?;
        if live.capabilities.resources.is_none() {
            return Ok(Vec::new());
        }
        let request =
            |params| ClientRequest::ListResourcesRequest(ListResourcesRequest::with_param(params));
        self.shared.list(&live, List::Resources, request).await
    }

    /// The templates of resources; none if the server has none.
    ///
    /// # Errors
    /// As [`Server::call`].
    pub async fn resource_templates(&self) -> Result<Vec<Value>, Error> {
        let live = self.live()?;
        if live.capabilities.resources.is_none() {
            return Ok(Vec::new());
        }
        let request = |params| {
            ClientRequest::ListResourceTemplatesRequest(ListResourceTemplatesRequest::with_param(
                params,
            ))
        };
        match self.shared.list(&live, List::ResourceTemplates, request).await {
            // Servers with resources need not have templates.
            Err(error) if error.kind == ErrorKind::Refused => Ok(Vec::new()),
            listed => listed,
        }
    }

    /// The prompts; none if the server has none.
    ///
    /// # Errors
    /// As [`Server::call`].
    pub async fn prompts(&self) -> Result<Vec<Value>, Error> {
        let live = self.live()?;
        if live.capabilities.prompts.is_none() {
            return Ok(Vec::new());
        }
        let request =
            |params| ClientRequest::ListPromptsRequest(ListPromptsRequest::with_param(params));
        self.shared.list(&live, List::Prompts, request).await
    }

    fn live(&self) -> Result<Live, Error> {
        self.shared.live().ok_or_else(|| not_ready(self.name(), &self.state()))
    }
}

/// The user's inputs with which a request is sent again.
#[derive(Default)]
pub(crate) struct Inputs {
    responses: Option<InputResponses>,
    /// Opaque: returned as it was received.
    state: Option<String>,
}

impl Shared {
    /// Sends a request within the time limit of calls, and again with the input that the server demands.
    async fn answered(
        &self,
        live: &Live,
        active: &Arc<ActiveCall>,
        meta: Option<RequestMetaObject>,
        mut request: impl FnMut(Inputs) -> ClientRequest,
    ) -> Result<ServerResult, Error> {
        let work = async {
            let mut inputs = Inputs::default();
            for _ in 0..MAX_ROUNDS {
                let sent = self.send(live, active, meta.clone(), request(inputs)).await?;
                match sent {
                    ServerResult::InputRequiredResult(demanded) => {
                        inputs = self.fulfil(demanded, active).await?;
                    }
                    result => return Ok(result),
                }
            }
            let message = format!("the server demanded input more than {MAX_ROUNDS} times");
            Err(Error::new(ErrorKind::Protocol, message))
        };
        let _in_use = self.in_use();
        active.within(self.definition.tool_timeout, work).await
    }

    /// Sends a request and waits for its answer.
    pub(crate) async fn send(
        &self,
        live: &Live,
        active: &Arc<ActiveCall>,
        meta: Option<RequestMetaObject>,
        request: ClientRequest,
    ) -> Result<ServerResult, Error> {
        let Live { peer, end, .. } = live;
        let failed = |error: &ServiceError| match (error, end.get()) {
            (ServiceError::TransportClosed, Some(reason)) => Error::ended_because(&reason),
            _ => Error::request(error),
        };
        let mut options = PeerRequestOptions::no_options();
        options.meta = meta;
        let sent = peer.send_request_with_option(request, options).await;
        let handle = sent.map_err(|error| failed(&error))?;
        let mut guard = CancelGuard { peer, id: Some(handle.id.clone()) };
        let _registered =
            self.calls.register(active, handle.id.clone(), handle.progress_token.clone());
        let answer = handle.await_response().await;
        guard.id = None;
        answer.map_err(|error| {
            if let Some(challenge) = error.auth_challenge() {
                self.set_challenge(challenge);
            }
            failed(&error)
        })
    }

    async fn fulfil(
        &self,
        demanded: InputRequiredResult,
        active: &Arc<ActiveCall>,
    ) -> Result<Inputs, Error> {
        let requests = demanded.input_requests.unwrap_or_default();
        let state = demanded.request_state;
        if requests.is_empty() {
            if state.is_none() {
                let problem = "it demands no input, and has no `requestState`".to_owned();
                return Err(malformed("input_required", Some(problem)));
            }
            tokio::time::sleep(STATE_PAUSE).await;
        }
        let mut responses = InputResponses::new();
        for (key, request) in requests {
            let response = match request {
                InputRequest::Elicitation(request) => {
                    // The future of the request is that of the question.
                    let (_open, closed) = watch::channel(false);
                    let origin = Origin { calls: vec![active.clone()], closed };
                    let asked = self.ask(request.params, origin).await;
                    let asked = asked.map_err(|error| {
                        Error::new(ErrorKind::Protocol, error.message.into_owned())
                    })?;
                    value(&asked)?
                }
                InputRequest::ListRoots(_) => value(&self.roots())?,
                _ => {
                    let message = "the server demanded a sampling, which is refused";
                    return Err(Error::new(ErrorKind::Protocol, message));
                }
            };
            responses.insert(key, response);
        }
        Ok(Inputs { responses: (!responses.is_empty()).then_some(responses), state })
    }

    /// The pages of a list, merged; from memory while they are fresh.
    async fn list(
        &self,
        live: &Live,
        list: List,
        request: impl Fn(PaginatedRequestParams) -> ClientRequest,
    ) -> Result<Vec<Value>, Error> {
        if let Some(kept) = self.lists.get(list) {
            return Ok(kept.to_vec());
        }
        let (member, changes) = (list.member(), self.lists.changes());
        let active = ActiveCall::new(None, None, None);
        let work = async {
            let mut listed = Vec::new();
            let mut pages = Pages::default();
            for _ in 0..MAX_PAGES {
                let answer = self.send(live, &active, None, request(pages.params())).await?;
                listed.extend(pages.take(&value(&answer)?, member)?);
                if pages.are_all() || listed.len() > MAX_LISTED {
                    break;
                }
            }
            let age = pages.age();
            if !pages.are_all() || listed.len() > MAX_LISTED {
                let server = &self.definition.name;
                tracing::warn!(
                    target: "mcp",
                    "the server `{server}` lists more than {MAX_LISTED} {member}, or more than \
                     {MAX_PAGES} pages: the rest is left out"
                );
                listed.truncate(MAX_LISTED);
            }
            listed.iter_mut().for_each(show);
            self.lists.keep(list, &listed, age, changes);
            Ok(listed)
        };
        active.within(self.definition.tool_timeout, work).await
    }
}

pub(crate) fn value(result: &impl serde::Serialize) -> Result<Value, Error> {
    let unreadable = |error: serde_json::Error| Error::new(ErrorKind::Protocol, error.to_string());
    serde_json::to_value(result).map_err(unreadable)
}

pub(super) fn malformed(what: &str, problem: Option<String>) -> Error {
    let problem = problem.map(|problem| format!(": {problem}")).unwrap_or_default();
    let message = format!("the server's answer for `{what}` does not have its form{problem}");
    Error::new(ErrorKind::Protocol, message)
}

/// Why a result is none of this type.
fn problem_as<T: DeserializeOwned>(result: &Value) -> Option<String> {
    T::deserialize(result).err().map(|error| quoted(&error.to_string()))
}

fn not_ready(server: &str, state: &State) -> Error {
    let (kind, why) = match state {
        State::Failed(error) => (error.kind, error.to_string()),
        State::Starting | State::Ready(_) => {
            (ErrorKind::Unavailable, "it is still starting".to_owned())
        }
        State::Cancelled => (ErrorKind::Unavailable, "it was ended".to_owned()),
    };
    Error::new(kind, format!("the server `{server}` cannot be used: {why}"))
}

/// Metadata of a caller, without what the protocol itself sets.
fn allowed_meta(mut meta: JsonObject) -> RequestMetaObject {
    meta.retain(|key, _| key != "progressToken" && !key.starts_with(RESERVED_META));
    RequestMetaObject::from(meta)
}

/// Cancels a request whose caller has stopped waiting.
struct CancelGuard<'p> {
    peer: &'p Peer<RoleClient>,
    id: Option<RequestId>,
}

impl Drop for CancelGuard<'_> {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        let peer = self.peer.clone();
        tokio::spawn(async move {
            let reason = "the request is no longer needed".to_owned();
            let params = CancelledNotificationParam::new(Some(id), Some(reason));
            // A connection that has ended needs no word.
            let _ = peer.notify_cancelled(params).await;
        });
    }
}
