//! The transport over a program's standard input and output: one message a line. What the program
//! writes to its standard error goes to the log.

mod lines;

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{ErrorData, RequestId, ServerJsonRpcMessage};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use crate::encode::encoded;
use crate::end_reason::EndReason;
use crate::error::quoted;
use crate::intake::Intake;
use crate::port::{Child, ChildControl, Output};
use crate::results;
use lines::{Line, Lines, answered_by};

/// Longest message of a server. A longer answer fails its request.
pub(crate) const MAX_MESSAGE: usize = 8 << 20;
/// Lines that are no messages in a row; a program that prints more does not speak the protocol.
const MAX_GARBAGE: usize = 1000;
/// Of these, as many are logged.
const LOGGED_GARBAGE: usize = 5;
/// Longest line of standard error that is logged.
const MAX_STDERR_LINE: usize = 4 << 10;
/// Lines of standard error that are logged of a process.
const MAX_STDERR_LINES: usize = 1000;
/// A program that reads nothing for this long is ended.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for the rest of a line that is too long; its end is not in sight then.
const SKIP_TIMEOUT: Duration = Duration::from_secs(1);
/// Time for a program to end after it closed its streams.
const END_TIMEOUT: Duration = Duration::from_millis(500);

/// Keeps how a program ended, if it ends soon.
async fn keep_end(end: &EndReason, control: &dyn ChildControl) {
    if let Ok(how) = tokio::time::timeout(END_TIMEOUT, control.ended()).await {
        end.set(format!("the program {how}"));
    }
}

/// The connection to a program's standard input and output.
pub(crate) struct StdioTransport {
    server: String,
    /// `None` once the connection has ended.
    output: Option<mpsc::Receiver<Output>>,
    control: Arc<dyn ChildControl>,
    /// Held while a message is written.
    writing: Arc<tokio::sync::Mutex<()>>,
    intake: Intake,
    lines: Lines,
    /// Deadline for the end of a line that is too long.
    skip_deadline: Option<Instant>,
    stderr: Lines,
    stderr_lines: usize,
    garbage: usize,
    received: VecDeque<RxJsonRpcMessage<RoleClient>>,
    /// The program closed its output.
    is_over: bool,
    end: EndReason,
}

impl StdioTransport {
    pub(crate) fn new(server: String, child: Child, end: EndReason, intake: Intake) -> Self {
        Self {
            server,
            output: Some(child.output),
            control: child.control,
            writing: Arc::default(),
            intake,
            lines: Lines::new(MAX_MESSAGE),
            skip_deadline: None,
            stderr: Lines::new(MAX_STDERR_LINE),
            stderr_lines: 0,
            garbage: 0,
            received: VecDeque::new(),
            is_over: false,
            end,
        }
    }

    /// The next message. Cancel safe: it awaits only the next piece of output.
    async fn next(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            if let Some(message) = self.received.front() {
                if matches!(message, ServerJsonRpcMessage::Request(_)) {
                    // A program that asks and does not read the answers is not read either.
                    self.intake.room().await;
                }
                return self.received.pop_front();
            }
            if self.garbage >= MAX_GARBAGE {
                self.end.set(format!(
                    "it wrote {MAX_GARBAGE} lines that are no messages; its standard output must \
                     contain messages of the protocol only"
                ));
                self.output = None;
            }
            if self.is_over {
                keep_end(&self.end, &*self.control).await;
            }
            let output = self.output.as_mut()?;
            let received = match self.skip_deadline {
                None => Ok(output.recv().await),
                Some(deadline) => timeout_at(deadline, output.recv()).await,
            };
            let Ok(received) = received else {
                let mib = MAX_MESSAGE >> 20;
                self.end.set(format!("it wrote a line of more than {mib} MiB without an end"));
                self.output = None;
                return None;
            };
            match received {
                Some(Output::Stdout(bytes)) => {
                    for line in self.lines.push(&bytes) {
                        self.take(line);
                    }
                    self.limit_skipping();
                }
                Some(Output::Stderr(bytes)) => {
                    for line in self.stderr.push(&bytes) {
                        self.log(&line);
                    }
                }
                None => {
                    // Before the wait, which can be canceled.
                    self.is_over = true;
                    self.output = None;
                }
            }
        }
    }

    /// The end of a line that is too long must follow soon.
    fn limit_skipping(&mut self) {
        if !self.lines.is_skipping() {
            self.skip_deadline = None;
            return;
        }
        if self.skip_deadline.is_none() {
            self.skip_deadline = Some(Instant::now() + SKIP_TIMEOUT);
        }
    }

    fn take(&mut self, line: Line) {
        let line = match line {
            Line::Whole(line) if line.iter().all(u8::is_ascii_whitespace) => return,
            Line::Whole(line) => results::mended(&line).unwrap_or(line),
            Line::TooLong { answers } => return self.take_too_long(answers),
        };
        match serde_json::from_slice(&line) {
            Ok(message) => {
                self.garbage = 0;
                self.received.push_back(message);
            }
            Err(error) => {
                self.garbage += 1;
                if self.garbage <= LOGGED_GARBAGE {
                    let text = quoted(&String::from_utf8_lossy(&line));
                    tracing::warn!(
                        target: "mcp::stdio",
                        server = self.server,
                        "a line of standard output is not a message ({error}) and is skipped: {text}"
                    );
                }
                let id = answered_by(&line).and_then(|id| serde_json::from_value(id).ok());
                if let Some(id) = id {
                    let text = format!("the server's answer cannot be read: {error}");
                    let error = ErrorData::internal_error(text, None);
                    self.received.push_back(ServerJsonRpcMessage::error(error, Some(id)));
                }
            }
        }
    }

    /// Fails the request that an answer was too long for. Without its id, the caller would wait
    /// forever, so the connection ends.
    fn take_too_long(&mut self, answers: Option<Value>) {
        let mib = MAX_MESSAGE >> 20;
        let message = format!("the server's answer is longer than {mib} MiB");
        let id = answers.and_then(|id| serde_json::from_value::<RequestId>(id).ok());
        let Some(id) = id else {
            self.end.set(format!("it wrote a message longer than {mib} MiB"));
            self.output = None;
            return;
        };
        let error = ErrorData::internal_error(message, None);
        self.received.push_back(ServerJsonRpcMessage::error(error, Some(id)));
    }

    fn log(&mut self, line: &Line) {
        self.stderr_lines += 1;
        let text = match line {
            _ if self.stderr_lines > MAX_STDERR_LINES => return,
            Line::Whole(line) => quoted(&String::from_utf8_lossy(line)),
            Line::TooLong { .. } => format!("[a line of more than {MAX_STDERR_LINE} bytes]"),
        };
        let server = &self.server;
        tracing::info!(target: "mcp::stderr", server, "{text}");
        if self.stderr_lines == MAX_STDERR_LINES {
            tracing::info!(target: "mcp::stderr", server, "further lines are not logged");
        }
    }
}

impl Transport<RoleClient> for StdioTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let (control, writing, end) =
            (self.control.clone(), self.writing.clone(), self.end.clone());
        async move {
            let mut line = encoded(&message)?;
            line.push(b'\n');
            let write = async {
                let _writing = writing.lock().await;
                control.write(&line).await
            };
            match tokio::time::timeout(WRITE_TIMEOUT, write).await {
                Ok(Ok(())) => Ok(()),
                Ok(Err(error)) => {
                    keep_end(&end, &*control).await;
                    Err(error)
                }
                Err(_) => {
                    let seconds = WRITE_TIMEOUT.as_secs();
                    let reason = format!("it did not read its input for {seconds} s");
                    end.set(reason.clone());
                    Err(io::Error::new(io::ErrorKind::TimedOut, reason))
                }
            }
        }
    }

    fn receive(&mut self) -> impl Future<Output = Option<RxJsonRpcMessage<RoleClient>>> + Send {
        self.next()
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        // The launcher ends the program.
        self.output = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::port::BoxFuture;

    struct NoInput;

    impl ChildControl for NoInput {
        fn ended(&self) -> BoxFuture<'_, String> {
            Box::pin(std::future::pending())
        }

        fn write<'a>(&'a self, _: &'a [u8]) -> BoxFuture<'a, io::Result<()>> {
            Box::pin(async { Ok(()) })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_line_that_is_too_long_and_does_not_end_ends_the_connection() {
        let (sender, output) = mpsc::channel(16);
        let child = Child { output, control: Arc::new(NoInput) };
        let end = EndReason::default();
        let mut transport =
            StdioTransport::new("s".to_owned(), child, end.clone(), Intake::default());
        let piece = || Output::Stdout(vec![b'x'; 1 << 20].into());
        for _ in 0..9 {
            sender.send(piece()).await.unwrap();
        }
        // It goes on without an end.
        let writing = tokio::spawn(async move {
            while sender.send(piece()).await.is_ok() {
                // tidy: sleep the clock is paused: it passes at once
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
        let begun = Instant::now();
        assert!(transport.receive().await.is_none());
        assert_eq!(begun.elapsed(), SKIP_TIMEOUT);
        assert_eq!(end.get().unwrap(), "it wrote a line of more than 8 MiB without an end");
        writing.await.unwrap();
    }
}
