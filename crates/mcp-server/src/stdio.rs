//! The transport over standard input and output: one message a line. Lines that are no messages get
//! an error; the connection continues.

use std::future::Future;
use std::io;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, ErrorCode, ErrorData, GetMeta,
    ProtocolVersion, RequestId, ServerJsonRpcMessage, ServerNotification,
};
use rmcp::service::{ServerInitializeError, serve_server};
use rmcp::transport::{Transport, TransportAdapterIdentity};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::agent::Agent;
use crate::handler::Handler;
use crate::ids::{self, RunningIds};

/// Longest message of a client, in bytes: a longer one is skipped, and reported.
const MAX_LINE: usize = 8 << 20;
/// Messages that wait to be written; at the bound, nothing further is read.
const MAX_UNWRITTEN: usize = 64;
/// Maximum wait of the end for a client that does not read.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Serves one client until its input ends or `stop` resolves. Then running turns are interrupted, and
/// the server ends with everything stored.
///
/// # Errors
/// The first messages do not begin a connection.
pub async fn serve_stdio(
    agent: Agent,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
    stop: impl Future<Output = ()>,
) -> Result<(), ServerInitializeError> {
    let gone = CancellationToken::new();
    let transport = StdioTransport::new(input, output, gone.clone());
    let handler = Handler::new(agent.clone(), gone.clone());
    let served = async {
        let running = serve_server::<_, _, _, TransportAdapterIdentity>(handler, transport).await;
        match running {
            Ok(running) => {
                // The panic hook has reported a panic of the task.
                let _ = running.waiting().await;
                Ok(())
            }
            Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            Err(error) => Err(error),
        }
    };
    let mut served = std::pin::pin!(served);
    let result = tokio::select! {
        result = &mut served => result,
        () = stop => {
            gone.cancel();
            served.await
        }
    };
    agent.close().await;
    result
}

struct StdioTransport<R> {
    input: BufReader<R>,
    line: Vec<u8>,
    /// The rest of a line that is too long is skipped.
    is_skipping: bool,
    has_ended: bool,
    /// True if a request has begun the connection.
    has_begun: bool,
    /// Of requests of the client.
    running: RunningIds,
    /// Of requests to the client.
    asked: RunningIds,
    /// An error that is sent before the next line is read.
    unsent: Option<Vec<u8>>,
    /// `None` once the transport is closed.
    output: Option<mpsc::Sender<Vec<u8>>>,
    writing: Option<JoinHandle<()>>,
    gone: CancellationToken,
}

enum Line {
    Whole(Vec<u8>),
    TooLong,
}

impl<R: AsyncRead + Send + Unpin> StdioTransport<R> {
    fn new(
        input: R,
        output: impl AsyncWrite + Send + Unpin + 'static,
        gone: CancellationToken,
    ) -> Self {
        let (sender, lines) = mpsc::channel(MAX_UNWRITTEN);
        let writing = tokio::spawn(write(output, lines, gone.clone()));
        Self {
            input: BufReader::new(input),
            line: Vec::new(),
            is_skipping: false,
            has_ended: false,
            has_begun: false,
            running: RunningIds::default(),
            asked: RunningIds::default(),
            unsent: None,
            output: Some(sender),
            writing: Some(writing),
            gone,
        }
    }

    /// The next message; `None` at the end. Cancel safe.
    async fn next(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            let room = self.output.as_ref()?.reserve().await.ok()?;
            match self.unsent.take() {
                Some(error) => room.send(error),
                None => drop(room),
            }
            let decoded = match self.next_line().await {
                Ok(None) => return None,
                Ok(Some(Line::Whole(line))) if line.trim_ascii().is_empty() => continue,
                Ok(Some(Line::Whole(line))) => decode(&line, &self.asked),
                Ok(Some(Line::TooLong)) => Err((None, too_long())),
                Err(error) => {
                    tracing::error!("cannot read standard input: {error}");
                    return None;
                }
            };
            match decoded {
                Ok(Some(message)) if self.admits(&message) => match self.note(&message) {
                    Ok(()) => return Some(message),
                    Err(error) => {
                        // The id is that of the other request, whose answer this would be taken for.
                        self.unsent = line(&ServerJsonRpcMessage::error(error, None)).ok();
                    }
                },
                Ok(_) => {}
                Err((id, error)) => {
                    self.unsent = line(&ServerJsonRpcMessage::error(error, id)).ok();
                }
            }
        }
    }

    /// The next line; a last one without its end counts. Cancel safe: it awaits only the next piece.
    async fn next_line(&mut self) -> io::Result<Option<Line>> {
        loop {
            let piece = self.input.fill_buf().await?;
            if piece.is_empty() {
                if self.has_ended || self.line.is_empty() {
                    return Ok(None);
                }
                self.has_ended = true;
                return Ok(Some(Line::Whole(std::mem::take(&mut self.line))));
            }
            let end = piece.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(piece.len(), |end| end + 1);
            if !self.is_skipping {
                self.line.extend_from_slice(piece.get(..taken).unwrap_or_default());
            }
            self.input.consume(taken);
            let is_too_long = self.line.len() > MAX_LINE;
            if is_too_long {
                self.line = Vec::new();
                self.is_skipping = true;
            }
            if end.is_some() && std::mem::take(&mut self.is_skipping) {
                return Ok(Some(Line::TooLong));
            }
            if end.is_some() {
                return Ok(Some(Line::Whole(std::mem::take(&mut self.line))));
            }
        }
    }

    /// Notes which requests run.
    ///
    /// # Errors
    /// A request has the id of one that runs.
    fn note(&self, message: &ClientJsonRpcMessage) -> Result<(), ErrorData> {
        match message {
            ClientJsonRpcMessage::Request(request) => self.running.begin(&request.id),
            ClientJsonRpcMessage::Notification(sent) => {
                if let ClientNotification::CancelledNotification(cancelled) = &sent.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    // It gets no answer.
                    self.running.end(id);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Returns whether the message may be passed on: only a request can begin a connection, and
    /// anything before it would end the program.
    fn admits(&mut self, message: &ClientJsonRpcMessage) -> bool {
        if self.has_begun {
            return true;
        }
        let ClientJsonRpcMessage::Request(request) = message else { return false };
        self.has_begun = match &request.request {
            ClientRequest::InitializeRequest(_) => true,
            ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_) => false,
            request => begins(request.get_meta()),
        };
        true
    }
}

/// Returns whether a request with this `_meta` begins a connection without a handshake.
fn begins(meta: &rmcp::model::RequestMetaObject) -> bool {
    let is_whole = meta.missing_required_keys(&ProtocolVersion::V_2026_07_28).is_empty();
    let version = meta.protocol_version();
    is_whole && version.is_some_and(|version| ProtocolVersion::KNOWN_VERSIONS.contains(&version))
}

/// Reads a message; `None` for a notification that this program does not know, and for an answer to
/// nothing that was asked.
fn decode(
    line: &[u8],
    asked: &RunningIds,
) -> Result<Option<ClientJsonRpcMessage>, (Option<RequestId>, ErrorData)> {
    let value: Value = serde_json::from_slice(line).map_err(|error| {
        let message = format!("Parse error: the line is no JSON ({error})");
        (None, ErrorData::new(ErrorCode::PARSE_ERROR, message, None))
    })?;
    if let Some(error) = ids::problem(&value) {
        return Err((None, error));
    }
    let id = value.get("id").cloned().and_then(|id| serde_json::from_value(id).ok());
    let has_method = value.get("method").is_some_and(Value::is_string);
    if value.get("method").is_none()
        && let Some(id) = id.clone().filter(|id| asked.end(id))
    {
        return Ok(Some(answer(value, id)));
    }
    match serde_json::from_value(value) {
        // The id is of another type, or the question was withdrawn.
        Ok(ClientJsonRpcMessage::Response(_) | ClientJsonRpcMessage::Error(_)) => Ok(None),
        Ok(message) => Ok(Some(message)),
        Err(_) if has_method && id.is_none() => Ok(None),
        Err(error) => {
            let message = format!("Invalid request: the line is not an MCP message ({error})");
            Err((id, ErrorData::invalid_request(message, None)))
        }
    }
}

/// The answer to a request of this program. One that cannot be read is an error, so that the request does
/// not wait for another.
fn answer(value: Value, id: RequestId) -> ClientJsonRpcMessage {
    let is_one = value.get("result").is_some() != value.get("error").is_some();
    match serde_json::from_value(value) {
        Ok(message @ (ClientJsonRpcMessage::Response(_) | ClientJsonRpcMessage::Error(_)))
            if is_one =>
        {
            message
        }
        _ => {
            let text = "the answer has neither a `result` nor an `error` that can be read, or both";
            ClientJsonRpcMessage::error(ErrorData::invalid_request(text, None), Some(id))
        }
    }
}

fn too_long() -> ErrorData {
    let mib = MAX_LINE >> 20;
    ErrorData::invalid_request(format!("Invalid request: the line is longer than {mib} MiB"), None)
}

fn line(message: &ServerJsonRpcMessage) -> serde_json::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// Writes the messages. When that fails, the client is gone.
async fn write(
    mut output: impl AsyncWrite + Unpin,
    mut lines: mpsc::Receiver<Vec<u8>>,
    gone: CancellationToken,
) {
    while let Some(line) = lines.recv().await {
        let written = async {
            output.write_all(&line).await?;
            output.flush().await
        };
        if let Err(error) = written.await {
            tracing::warn!("cannot write to standard output: {error}");
            gone.cancel();
            return;
        }
    }
}

impl<R: AsyncRead + Send + Unpin> Transport<RoleServer> for StdioTransport<R> {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let output = self.output.clone();
        match &message {
            ServerJsonRpcMessage::Response(response) => {
                self.running.end(&response.id);
            }
            ServerJsonRpcMessage::Error(error) => {
                if let Some(id) = &error.id {
                    self.running.end(id);
                }
            }
            // The library never repeats an id.
            ServerJsonRpcMessage::Request(request) => drop(self.asked.begin(&request.id)),
            ServerJsonRpcMessage::Notification(notification) => {
                if let ServerNotification::CancelledNotification(cancelled) =
                    &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.asked.end(id);
                }
            }
        }
        async move {
            let line = line(&message)?;
            let closed = || io::Error::new(io::ErrorKind::BrokenPipe, "the output is closed");
            output.ok_or_else(closed)?.send(line).await.map_err(|_| closed())
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        let gone = self.gone.clone();
        let received = tokio::select! {
            received = self.next() => received,
            () = gone.cancelled() => None,
        };
        if received.is_none() {
            gone.cancel();
        }
        received
    }

    async fn close(&mut self) -> io::Result<()> {
        self.output = None;
        if let Some(writing) = self.writing.take() {
            // A client that does not read must not delay the end.
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, writing).await;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "stdio_tests.rs"]
mod tests;
