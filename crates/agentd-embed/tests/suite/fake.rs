//! A server of the tests' own, and agents of it.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use agentd_embed::protocol::{ThreadList, ThreadListParams, ThreadStartParams};
use agentd_embed::{Agent, AgentBuilder, Error, Turn};
use jsonrpc::{Connection, Limits};
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};
use tokio::sync::mpsc;

/// A server of the test's own, line by line.
pub(crate) struct Fake {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    output: WriteHalf<DuplexStream>,
}

impl Fake {
    pub(crate) fn new() -> (Connection, Self) {
        Self::within(Limits::default())
    }

    /// The connection has the text of each message, to forward it.
    pub(crate) fn with_text() -> (Connection, Self) {
        Self::within(Limits { keep_text: true, ..Limits::default() })
    }

    fn within(limits: Limits) -> (Connection, Self) {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        let (reader, writer) = tokio::io::split(ours);
        let (input, output) = tokio::io::split(theirs);
        let connection = Connection::over(reader, writer, limits);
        (connection, Self { lines: BufReader::new(input).lines(), output })
    }

    pub(crate) async fn receive(&mut self) -> Value {
        let line = self.lines.next_line().await.unwrap().expect("the client is there");
        serde_json::from_str(&line).unwrap()
    }

    pub(crate) async fn write(&mut self, text: &str) {
        self.output.write_all(format!("{text}\n").as_bytes()).await.unwrap();
    }

    /// Answers the next request.
    pub(crate) async fn answer(&mut self, result: Value) {
        let id = self.receive().await["id"].clone();
        self.write(&json!({ "id": id, "result": result }).to_string()).await;
    }

    pub(crate) async fn hello(&mut self, user_agent: &str) {
        let home = json!({ "userAgent": user_agent, "agentHome": "/h", "platformFamily": "unix", "platformOs": "linux" });
        self.answer(home).await;
    }
}

pub(crate) const USER_AGENT: &str = "x/0.1.0 (linux; x86_64) agentd (x; 1)";

/// An agent after the handshake.
pub(crate) async fn started(builder: AgentBuilder) -> (Agent, Fake) {
    let (connection, mut fake) = Fake::new();
    let (agent, ()) = tokio::join!(builder.over(connection), fake.hello(USER_AGENT));
    assert_eq!(fake.receive().await["method"], "initialized");
    (agent.unwrap(), fake)
}

/// An agent with a turn in progress.
pub(crate) async fn turn() -> (Agent, Turn, Fake) {
    let (agent, mut fake) = started(Agent::builder()).await;
    let opening = agent.thread(ThreadStartParams::default());
    let (thread, ()) = tokio::join!(opening, fake.answer(opened()));
    let thread = thread.unwrap();
    let begun = json!({ "turn": { "id": "u", "status": "inProgress", "error": null } });
    let (turn, ()) = tokio::join!(thread.turn("go"), fake.answer(begun));
    (agent, turn.unwrap(), fake)
}

pub(crate) fn opened() -> Value {
    json!({
        "thread": {
            "id": "t", "sessionId": "t", "name": null, "gitInfo": null, "preview": "", "ephemeral": false, "modelProvider": "m", "createdAt": 1, "updatedAt": 1,
            "status": { "type": "idle" }, "cwd": "/", "cliVersion": "0.1.0", "source": "appServer", "turns": [],
        },
        "model": "m", "modelProvider": "m", "serviceTier": null, "cwd": "/", "approvalPolicy": "never",
        "approvalsReviewer": "user", "sandbox": { "type": "dangerFullAccess" }, "reasoningEffort": null,
    })
}

pub(crate) async fn list(agent: &Agent) -> Result<(), Error> {
    agent.request::<ThreadList>(&ThreadListParams::default()).await.map(|_| ())
}

/// The message of a lost connection.
pub(crate) fn lost<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    match result {
        Err(Error::ConnectionLost(lost)) => lost.message,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn completed(turn: &str) -> String {
    let turn = json!({ "id": turn, "status": "completed", "error": null });
    json!({ "method": "turn/completed", "params": { "threadId": "t", "turn": turn } }).to_string()
}

pub(crate) fn begun(turn: &str) -> Value {
    json!({ "turn": { "id": turn, "status": "inProgress", "error": null } })
}

/// An agent that connects again, and the server's ends of its connections.
pub(crate) fn lasting(builder: AgentBuilder) -> (AgentBuilder, mpsc::UnboundedReceiver<Fake>) {
    let (sender, fakes) = mpsc::unbounded_channel();
    let builder = builder.connector(move || {
        let (connection, fake) = Fake::new();
        let sent =
            sender.send(fake).map_err(|_| Error::InvalidArgument("the test is over".to_owned()));
        async move { sent.map(|()| connection) }
    });
    (builder, fakes)
}

impl Fake {
    /// The next connection, after its handshake.
    pub(crate) async fn next(fakes: &mut mpsc::UnboundedReceiver<Self>) -> Self {
        let mut fake = fakes.recv().await.unwrap();
        fake.hello(USER_AGENT).await;
        assert_eq!(fake.receive().await["method"], "initialized");
        fake
    }

    /// Answers the next request, which has to be of this method, and returns its parameters.
    pub(crate) async fn answer_to(&mut self, method: &str, result: Value) -> Value {
        let request = self.receive().await;
        assert_eq!(request["method"], method, "{request}");
        self.write(&json!({ "id": request["id"], "result": result }).to_string()).await;
        request["params"].clone()
    }

    /// Sends a notification about the turn `u` of the thread `t`.
    pub(crate) async fn say(&mut self, method: &str, cursor: &str, more: Value) {
        let mut params = json!({ "threadId": "t", "turnId": "u" });
        for (name, value) in more.as_object().unwrap() {
            params[name] = value.clone();
        }
        let message = json!({ "method": method, "params": params, "eventCursor": cursor });
        self.write(&message.to_string()).await;
    }

    pub(crate) async fn delta(&mut self, cursor: &str, text: &str) {
        let more = json!({ "itemId": "i", "delta": text });
        self.say("item/agentMessage/delta", cursor, more).await;
    }

    pub(crate) async fn end(&mut self, cursor: &str, status: &str) {
        let turn = json!({ "id": "u", "status": status, "error": null });
        self.say("turn/completed", cursor, json!({ "turn": turn })).await;
    }
}

/// The answer to `thread/resume`.
pub(crate) fn resumed(cursor: &str, replay: Value, turns: Value) -> Value {
    json!({ "thread": { "id": "t", "turns": turns }, "eventCursor": cursor, "eventReplay": replay })
}

/// The replay of so many events.
pub(crate) fn replay(events: u64, open: &[i64]) -> Value {
    json!({ "type": "replayed", "events": events, "openRequestIds": open })
}

/// An agent that connects again, with a turn in progress at cursor `e.0`.
pub(crate) async fn lasting_turn(
    builder: AgentBuilder,
) -> (Agent, Turn, Fake, mpsc::UnboundedReceiver<Fake>) {
    let (builder, mut fakes) = lasting(builder);
    let (agent, mut fake) = tokio::join!(builder.start(), Fake::next(&mut fakes));
    let agent = agent.unwrap();
    let mut answer = opened();
    answer["eventCursor"] = "e.0".into();
    let opening = agent.thread(ThreadStartParams::default());
    let (thread, ()) = tokio::join!(opening, fake.answer(answer));
    let thread = thread.unwrap();
    let (turn, ()) = tokio::join!(thread.turn("go"), fake.answer(begun("u")));
    (agent, turn.unwrap(), fake, fakes)
}

/// Polls a future once.
pub(crate) async fn is_pending<F: Future + Unpin>(future: &mut F) -> bool {
    poll_fn(|cx| Poll::Ready(Pin::new(&mut *future).poll(cx).is_pending())).await
}
