//! The server's answers to MCP requests: its description, the tools, and calls of them.

use std::time::Duration;

use hyper::http::request::Parts;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelledNotificationParam, ClientCapabilities,
    ClientResult, CustomRequest, CustomResult, ElicitRequest, ElicitRequestParams, ElicitResult,
    ErrorCode, ErrorData, Implementation, JsonObject, ListToolsResult, PaginatedRequestParams,
    ProgressNotificationParam, ProgressToken, ProtocolVersion, RequestId, ServerCapabilities,
    ServerConfig, ServerRequest, Tool,
};
use rmcp::service::{Peer, PeerRequestOptions, RequestContext, ServiceError};
use rmcp::{RoleServer, model};
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::agent::Agent;
use crate::agent::suspended::SuspendedCall;
use crate::http::Session;
use crate::outcome::Outcome;
use crate::question::Reply;
use crate::turn::{Ask, RunningTurn, TurnEvent};
use crate::{arguments, tools};

/// A client that receives nothing for this long may give up: it gets a sign of life.
const HEARTBEAT: Duration = Duration::from_secs(20);
/// Time for a client's user to answer; then the question counts as dismissed.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30 * 60);
const INSTRUCTIONS: &str = "A coding agent. Call `agent` with a prompt and a folder to have a task \
                            done there; call `agent-reply` with the returned threadId to continue.";

/// The handler of one client.
#[derive(Clone)]
pub(crate) struct Handler {
    agent: Agent,
    /// Cancelled when the client is gone: its turns are interrupted.
    gone: CancellationToken,
}

impl Handler {
    pub(crate) fn new(agent: Agent, gone: CancellationToken) -> Self {
        Self { agent, gone }
    }

    /// Begins a call, or continues one that waited for input.
    fn begin(&self, call: CallToolRequestParams) -> Result<Call, Refusal> {
        let tool = call.name.into_owned();
        let arguments = call.arguments.unwrap_or_default();
        let Some(task) = arguments::task(&tool, arguments.clone()) else {
            let [start, reply] = [tools::AGENT, tools::AGENT_REPLY];
            let message = format!("unknown tool `{tool}`: this server has `{start}` and `{reply}`");
            return Err(Refusal::Protocol(message));
        };
        let Some(state) = call.request_state else {
            let turn = self.agent.begin(task.map_err(Refusal::Tool)?).map_err(Refusal::Tool)?;
            return Ok(Call { turn, tool, arguments, asks: Vec::new() });
        };
        let taken = self.agent.suspended().take(&state, &tool, &arguments);
        let SuspendedCall { turn, asks, .. } = taken.map_err(Refusal::Protocol)?;
        let mut answers = call.input_responses.unwrap_or_default();
        let mut unanswered = Vec::new();
        for ask in asks {
            match answers.remove(&key(ask.id)).map(serde_json::from_value::<ElicitResult>) {
                Some(Ok(result)) => turn.reply(ask.id, Reply::Elicited(result)),
                Some(Err(error)) => {
                    let why = format!("the client's answer is not an elicitation result ({error})");
                    turn.reply(ask.id, Reply::Unavailable(why));
                }
                // It is asked again.
                None => unanswered.push(ask),
            }
        }
        Ok(Call { turn, tool, arguments, asks: unanswered })
    }

    /// Accompanies the turn to its end, or until it needs input in the next request.
    async fn attend(
        &self,
        call: Call,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Call { mut turn, tool, arguments, asks } = call;
        let client = AskedClient::of(&context);
        if client == AskedClient::Later && !asks.is_empty() {
            return Ok(self.suspend(SuspendedCall { turn, asks, tool, arguments }));
        }
        // Of a session over HTTP, which can end before the server does.
        let session =
            context.extensions.get::<Parts>().and_then(|head| head.extensions.get::<Session>());
        let _running = session.map(Session::call);
        let gone = session.map_or(&self.gone, Session::gone).clone();
        let mut reporter = Reporter::new(&context);
        let mut questions = Questions::default();
        let mut heartbeat = tokio::time::interval(HEARTBEAT);
        heartbeat.reset();
        let mut is_gone = false;
        loop {
            tokio::select! {
                biased;
                // Dropping the turn interrupts it.
                () = context.ct.cancelled() => return Err(cancelled()),
                () = gone.cancelled(), if !is_gone => {
                    is_gone = true;
                    turn.interrupt();
                }
                Some(text) = turn.progress.recv() => {
                    tokio::select! {
                        () = reporter.report(text) => heartbeat.reset(),
                        () = context.ct.cancelled() => return Err(cancelled()),
                        () = gone.cancelled() => {}
                    }
                }
                event = turn.events.recv() => match event {
                    None => return Err(ErrorData::internal_error("the turn ended without a result", None)),
                    Some(TurnEvent::Ended(outcome)) => return Ok(outcome.into_result().into()),
                    Some(TurnEvent::Resolved(id)) => questions.withdraw(id),
                    Some(TurnEvent::Ask(ask)) => match client {
                        AskedClient::Never => turn.reply(ask.id, Reply::Unavailable(NO_FORMS.to_owned())),
                        AskedClient::AtOnce => questions.ask(&context.peer, *ask),
                        AskedClient::Later => {
                            let mut asks = vec![*ask];
                            while let Ok(event) = turn.events.try_recv() {
                                match event {
                                    TurnEvent::Ask(ask) => asks.push(*ask),
                                    TurnEvent::Resolved(id) => asks.retain(|ask| ask.id != id),
                                    TurnEvent::Ended(outcome) => return Ok(outcome.into_result().into()),
                                }
                            }
                            return Ok(self.suspend(SuspendedCall { turn, asks, tool, arguments }));
                        }
                    },
                },
                Some((id, reply)) = questions.answered() => turn.reply(id, reply),
                _ = heartbeat.tick() => {
                    let alive = reporter.report("The agent is working".to_owned());
                    tokio::select! {
                        () = alive => {}
                        () = context.ct.cancelled() => return Err(cancelled()),
                        () = gone.cancelled() => {}
                    }
                }
            }
        }
    }

    fn suspend(&self, call: SuspendedCall) -> CallToolResponse {
        let request = |ask: &Ask| {
            let request = ElicitRequest::new(ask.form.clone());
            (key(ask.id), model::InputRequest::Elicitation(request))
        };
        let requests = call.asks.iter().map(request).collect();
        let state = self.agent.suspended().put(call);
        model::InputRequiredResult::new(Some(requests), Some(state)).into()
    }
}

/// A call that begins or continues.
struct Call {
    turn: RunningTurn,
    tool: String,
    arguments: JsonObject,
    /// Questions that the client left open.
    asks: Vec<Ask>,
}

/// Why a call does not begin.
enum Refusal {
    /// The caller of the tool can mend it.
    Tool(String),
    /// The client has a defect.
    Protocol(String),
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let implementation =
            Implementation::new("agentd", self.agent.version()).with_title("Coding agent");
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(implementation)
            .with_instructions(INSTRUCTIONS)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools::named(name)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::all()))
    }

    async fn call_tool(
        &self,
        params: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        match self.begin(params) {
            Ok(call) => self.attend(call, context).await,
            Err(Refusal::Tool(message)) => Ok(Outcome::failed(message).into_result().into()),
            Err(Refusal::Protocol(message)) => Err(ErrorData::invalid_params(message, None)),
        }
    }

    /// Requests whose parameters do not fit arrive here too.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = request.method;
        let is_known = match method.as_str() {
            // The revision without a handshake does not have the method.
            "initialize" => !is_modern(&context),
            "tools/call" | "tools/list" | "server/discover" => true,
            _ => false,
        };
        if is_known {
            let message =
                format!("{method}: the parameters do not have the shape of this method's");
            return Err(ErrorData::invalid_params(message, None));
        }
        let message = format!("Method not found: {method}");
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None))
    }
}

const NO_FORMS: &str = "this MCP client cannot ask its user: it does not declare the capability \
                        `elicitation` with forms. Use a client that does, or choose a sandbox and an \
                        approval policy with which the agent need not ask";

/// When the client's user can be asked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AskedClient {
    Never,
    /// By a request of ours.
    AtOnce,
    /// Between two requests of the client (revision 2026-07-28).
    Later,
}

impl AskedClient {
    fn of(context: &RequestContext<RoleServer>) -> Self {
        if !context.client_capabilities().is_some_and(|capabilities| takes_forms(&capabilities)) {
            return Self::Never;
        }
        match is_modern(context) {
            true => Self::Later,
            false => Self::AtOnce,
        }
    }
}

/// Returns whether the request is of the revision without a handshake.
fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28)
}

/// An empty capability stands for forms.
fn takes_forms(capabilities: &ClientCapabilities) -> bool {
    let elicitation = capabilities.elicitation.as_ref();
    elicitation.is_some_and(|modes| modes.form.is_some() || modes.url.is_none())
}

fn key(ask: u64) -> String {
    format!("question-{ask}")
}

fn cancelled() -> ErrorData {
    // The client that cancelled gets no response.
    ErrorData::internal_error("the call was cancelled", None)
}

/// Sends progress to a client that asked for it.
struct Reporter {
    peer: Peer<RoleServer>,
    token: Option<ProgressToken>,
    count: u32,
}

impl Reporter {
    fn new(context: &RequestContext<RoleServer>) -> Self {
        let token = context.meta.get_progress_token();
        Self { peer: context.peer.clone(), token, count: 0 }
    }

    async fn report(&mut self, text: String) {
        let Some(token) = self.token.clone() else { return };
        self.count += 1;
        let progress =
            ProgressNotificationParam::new(token, f64::from(self.count)).with_message(text);
        // A client that is gone is noticed elsewhere.
        let _ = self.peer.notify_progress(progress).await;
    }
}

/// Asks the client's user. Dropped before the answer, it withdraws the question.
async fn elicit(
    peer: &Peer<RoleServer>,
    form: ElicitRequestParams,
) -> Result<ElicitResult, ServiceError> {
    let mut options = PeerRequestOptions::no_options();
    // After it the library withdraws the question.
    options.timeout = Some(ANSWER_TIMEOUT);
    let request = ServerRequest::ElicitRequest(ElicitRequest::new(form));
    let sent = peer.send_request_with_option(request, options).await?;
    let mut open = OpenElicitation { peer, id: Some(sent.id.clone()) };
    let answer = sent.await_response().await;
    open.id = None;
    match answer? {
        ClientResult::ElicitResult(result) => Ok(result),
        _ => Err(ServiceError::UnexpectedResponse),
    }
}

/// A question at the client that has no answer yet.
struct OpenElicitation<'p> {
    peer: &'p Peer<RoleServer>,
    id: Option<RequestId>,
}

impl Drop for OpenElicitation<'_> {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        let peer = self.peer.clone();
        tokio::spawn(async move {
            let reason = "the question no longer needs an answer".to_owned();
            let params = CancelledNotificationParam::new(Some(id), Some(reason));
            // A client that is gone shows no question.
            let _ = peer.notify_cancelled(params).await;
        });
    }
}

/// Elicitations that wait for their answers. Dropped, they are withdrawn.
#[derive(Default)]
struct Questions {
    waiting: JoinSet<(u64, Reply)>,
    handles: Vec<(u64, AbortHandle)>,
}

impl Questions {
    fn ask(&mut self, peer: &Peer<RoleServer>, ask: Ask) {
        let peer = peer.clone();
        let id = ask.id;
        let handle = self.waiting.spawn(async move {
            let reply = match elicit(&peer, ask.form).await {
                Ok(result) => Reply::Elicited(result),
                Err(error) => Reply::Unavailable(format!("the MCP client did not answer: {error}")),
            };
            (id, reply)
        });
        self.handles.push((id, handle));
    }

    /// Forgets a question that no longer needs an answer.
    fn withdraw(&mut self, id: u64) {
        self.handles.retain(|(asked, handle)| {
            if *asked == id {
                handle.abort();
            }
            *asked != id
        });
    }

    /// The next answer; `None` when none is expected.
    async fn answered(&mut self) -> Option<(u64, Reply)> {
        loop {
            if let Ok(answered) = self.waiting.join_next().await? {
                return Some(answered);
            }
        }
    }
}
