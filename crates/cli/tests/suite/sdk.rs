//! The Rust SDK against the program, with a scripted model.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common;
use crate::common::{Running, TestEnvironment};
use agentd_embed::protocol::{
    AskForApproval, CollaborationMode, ThreadItem, ThreadStartParams, TurnStartParams, TurnStatus,
};
use agentd_embed::{
    Agent, AgentBuilder, Approval, Error, OnBusy, RefusalKind, ThreadEvent, Tool, ToolError,
    TurnEvent, TurnOptions,
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;

fn message(text: &str) -> Value {
    json!({ "steps": [{ "message": { "text": text, "chunk_chars": 4 } }] })
}

fn call(name: &str, arguments: Value) -> Value {
    json!({ "steps": [{ "function_call": { "name": name, "arguments": arguments } }] })
}

fn idle() -> Value {
    json!({ "steps": [{ "message": "I begin." }, "idle"] })
}

/// An agent with a server of its own, whose model gives these responses.
fn builder(env: &TestEnvironment, responses: Value) -> AgentBuilder {
    Agent::builder()
        .program(common::program())
        .env("AGENT_HOME", env.home())
        .env("HOME", env.home())
        .cwd(env.work())
        .offline()
        .model(env.script(&responses))
}

fn asks() -> ThreadStartParams {
    let approval_policy = Some(AskForApproval::OnRequest);
    ThreadStartParams { approval_policy, ..Default::default() }
}

#[tokio::test]
async fn a_turn_is_streamed_and_the_thread_goes_on() {
    let env = TestEnvironment::new();
    let agent = builder(
        &env,
        json!([message("One two three"), message("Again"), message("Short"), message("After")]),
    );
    let agent = agent.start().await.unwrap();
    assert!(agent.server().user_agent.contains("/0."), "{}", agent.server().user_agent);
    let thread = agent.thread(ThreadStartParams::default()).await.unwrap();
    let mut turn = thread.turn("go").await.unwrap();
    let mut texts = Vec::new();
    while let Some(text) = turn.next_text().await.unwrap() {
        texts.push(text);
    }
    assert!(texts.len() > 1 && texts.concat() == "One two three", "{texts:?}");
    let result = turn.result().await.unwrap();
    assert_eq!(
        (result.text.as_str(), result.turn.status),
        ("One two three", TurnStatus::Completed)
    );
    assert!(result.usage.unwrap().total.total_tokens > 0);
    assert!(matches!(result.items[0], ThreadItem::UserMessage(_)));

    thread.rename("A title").await.unwrap();
    let again = agent.resume(thread.id()).await.unwrap();
    assert_eq!(again.run("more").await.unwrap().text, "Again");
    let stored = again.read().await.unwrap();
    assert_eq!((stored.name.as_deref(), stored.turns.len()), (Some("A title"), 2));
    assert_ne!(agent.fork(thread.id()).await.unwrap().id(), thread.id());
    thread.compact().await.unwrap();
    assert_eq!(thread.run("and now?").await.unwrap().text, "After");
    thread.archive().await.unwrap();
    agent.close().await;
}

#[tokio::test]
async fn two_turns_at_once_have_an_answer_each() {
    let env = TestEnvironment::new();
    let agent = builder(&env, json!([message("One"), message("Two")])).start().await.unwrap();
    let thread = agent.thread(ThreadStartParams::default()).await.unwrap();
    let (first, second) = tokio::join!(thread.run("first"), thread.run("second"));
    assert_eq!((first.unwrap().text, second.unwrap().text), ("One".to_owned(), "Two".to_owned()));
}

#[tokio::test]
async fn configuration_may_be_a_table() {
    let env = TestEnvironment::new();
    let provider =
        json!({ "name": "Mine", "base_url": "http://127.0.0.1:1/v1", "request_max_retries": 0 });
    let builder = builder(&env, json!([message("Hi")]));
    let agent = builder.config("model_providers.mine", provider).start().await.unwrap();
    let model_provider = Some("mine".to_owned());
    agent.thread(ThreadStartParams { model_provider, ..Default::default() }).await.unwrap();
}

#[tokio::test]
async fn a_turn_that_joins_another_client_s_has_its_answer() {
    let env = TestEnvironment::new();
    let model = env.script(&json!([call("wait", json!({})), message("To both")]));
    let socket = format!("unix://{}", env.tmp().join("s").display());
    let running = Running::start(&mut env.agentd(&["app-server", "--listen", &socket]));
    running.line_with("listening on ");
    let connect = || Agent::builder().address(&socket).offline().model(&model).cwd(env.work());
    let (called, joined) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (tool_called, tool_joined) = (called.clone(), joined.clone());
    let wait = Tool::new("wait", "Waits.", json!({ "type": "object" }), move |_: Value| {
        let (called, joined) = (tool_called.clone(), tool_joined.clone());
        async move {
            called.notify_one();
            joined.notified().await;
            Ok::<_, String>("joined")
        }
    });
    let first = connect().tool(wait).start().await.unwrap();
    let second = connect().start().await.unwrap();
    let thread = first.thread(ThreadStartParams::default()).await.unwrap();
    let mut turn = thread.turn("go").await.unwrap();
    called.notified().await;
    let other = second.resume(thread.id()).await.unwrap();
    let mut joining = other.turn("also this").await.unwrap();
    joined.notify_one();
    assert_eq!(joining.result().await.unwrap().text, "To both");
    assert_eq!(turn.result().await.unwrap().text, "To both");
}

#[tokio::test]
async fn commands_are_asked_about() {
    for allows in [Some(true), Some(false), None] {
        let env = TestEnvironment::new();
        let escalated = json!({
            "cmd": "touch made", "sandbox_permissions": "require_escalated", "justification": "to make it",
        });
        let mut builder = builder(&env, json!([call("exec_command", escalated), message("Done")]));
        let asked = Arc::new(Mutex::new(Vec::new()));
        if let Some(allows) = allows {
            let asked = asked.clone();
            builder = builder.approve(move |approval: Approval| {
                let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
                let what = (approval.kind(), text(approval.command()), text(approval.reason()));
                asked.lock().unwrap().push(what);
                async move { allows }
            });
        }
        let agent = builder.start().await.unwrap();
        let thread = agent.thread(asks()).await.unwrap();
        assert_eq!(thread.run("go").await.unwrap().text, "Done");
        assert_eq!(env.work().join("made").exists(), allows == Some(true));
        let asked = asked.lock().unwrap();
        assert_eq!(asked.len(), usize::from(allows.is_some()));
        for (kind, command, reason) in &*asked {
            assert_eq!((*kind, reason.as_str()), ("command", "to make it"));
            assert!(command.contains("touch made"), "{command}");
        }
    }
}

#[derive(Deserialize)]
struct Place {
    city: String,
}

#[tokio::test]
async fn functions_are_tools() {
    let env = TestEnvironment::new();
    let responses = json!([
        call("weather", json!({ "city": "Vienna" })),
        { "expect": { "tool_output_contains": "{\"weather\":\"sunny\"}" },
          "steps": call("weather", json!({ "city": "Atlantis" }))["steps"] },
        { "expect": { "tool_output_contains": "there is no Atlantis" },
          "steps": call("weather", json!({ "city": 5 }))["steps"] },
        { "expect": { "tool_output_contains": "invalid type: integer `5`" },
          "steps": message("It will be sunny.")["steps"] },
    ]);
    let schema = json!({ "type": "object", "properties": { "city": { "type": "string" } } });
    let weather = Tool::new("weather", "The weather.", schema, |place: Place| async move {
        match place.city.as_str() {
            "Vienna" => Ok(json!({ "weather": "sunny" })),
            city => Err(ToolError::new(format!("there is no {city}"))),
        }
    });
    let agent = builder(&env, responses).tool(weather).start().await.unwrap();
    assert_eq!(agent.run("weather?").await.unwrap().text, "It will be sunny.");
}

#[tokio::test]
async fn questions_are_answered() {
    let env = TestEnvironment::new();
    let question = json!({
        "id": "lang", "header": "Language", "question": "Which?",
        "options": [{ "label": "Rust", "description": "r" }, { "label": "Go", "description": "g" }],
    });
    let asking = call("request_user_input", json!({ "questions": [question] }));
    let heard = json!({
        "expect": { "tool_output_contains": "Rust" }, "steps": message("Rust it is")["steps"],
    });
    let builder = builder(&env, json!([asking, heard])).ask(|params| async move {
        let answers = params.questions.into_iter().map(|it| (it.id, vec!["Rust".to_owned()]));
        answers.collect::<BTreeMap<_, _>>()
    });
    let agent = builder.start().await.unwrap();
    let thread = agent.thread(ThreadStartParams::default()).await.unwrap();
    let plan =
        json!({ "mode": "plan", "settings": { "model": env.script(&json!([asking, heard])) } });
    let plan: CollaborationMode = serde_json::from_value(plan).unwrap();
    let params = TurnStartParams {
        input: vec!["go".into()],
        collaboration_mode: Some(plan),
        ..Default::default()
    };
    let result = thread.turn_with(params).await.unwrap().result().await.unwrap();
    assert_eq!(result.text, "Rust it is");
}

#[derive(Debug, PartialEq, Deserialize)]
struct Plan {
    steps: Vec<String>,
}

#[tokio::test]
async fn an_answer_has_the_wanted_shape_or_is_an_error() {
    let env = TestEnvironment::new();
    let responses = json!([message(r#"{"steps":["a","b"]}"#), message("no JSON")]);
    let agent = builder(&env, responses).start().await.unwrap();
    let thread = agent.thread(ThreadStartParams::default()).await.unwrap();
    let params = || TurnStartParams {
        input: vec!["plan".into()],
        output_schema: Some(
            json!({
                "type": "object", "required": ["steps"], "additionalProperties": false,
                "properties": { "steps": { "type": "array", "items": { "type": "string" } } },
            })
            .into(),
        ),
        ..Default::default()
    };
    let plan = async || {
        let mut turn = thread.turn_with(params()).await.unwrap();
        turn.result().await.unwrap().output::<Plan>()
    };
    assert_eq!(plan().await.unwrap(), Plan { steps: vec!["a".to_owned(), "b".to_owned()] });
    assert!(matches!(plan().await, Err(Error::InvalidOutput { text, .. }) if text == "no JSON"));
}

#[tokio::test]
async fn a_turn_is_steered_and_interrupted() {
    let env = TestEnvironment::new();
    let agent = builder(&env, json!([idle(), message("Next")])).start().await.unwrap();
    let thread = agent.thread(ThreadStartParams::default()).await.unwrap();
    let mut turn = thread.turn("go").await.unwrap();
    while let Some(event) = turn.next().await {
        if let TurnEvent::ItemCompleted(item) = event.unwrap()
            && let ThreadItem::AgentMessage(_) = *item
        {
            turn.steer("also this").await.unwrap();
            turn.interrupt().await.unwrap();
        }
    }
    assert!(matches!(turn.result().await, Err(Error::TurnInterrupted(_))));
    let late = turn.steer("more").await.unwrap_err();
    assert!(matches!(late, Error::Refused { .. }), "{late}");
    assert_eq!(thread.run("again").await.unwrap().text, "Next");
}

#[tokio::test]
async fn refusals_and_failures_have_kinds() {
    let env = TestEnvironment::new();
    let failing = json!([{ "steps": [{ "error": { "status": 401, "message": "no" } }] }]);
    let agent = builder(&env, failing).start().await.unwrap();
    let missing = agent.resume("01a00000-0000-7000-8000-000000000000").await.err().unwrap();
    assert!(
        matches!(&missing, Error::Refused { method, kind: RefusalKind::InvalidRequest, .. } if method == "thread/resume"),
        "{missing:?}"
    );
    let failed = agent.run("go").await.unwrap_err();
    assert!(failed.turn_error_info().is_some(), "{failed:?}");
}

#[tokio::test]
async fn two_agents_share_a_server() {
    for kind in ["unix", "ws"] {
        let env = TestEnvironment::new();
        let model = env.script(&json!([message("Hi")]));
        let token = env.home().join("token");
        std::fs::write(&token, "secret-token-of-the-test-0123456789").unwrap();
        std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).unwrap();
        let socket = format!("unix://{}", env.tmp().join("s").display());
        let token = token.display().to_string();
        let auth = ["--ws-auth", "capability-token", "--ws-token-file", &token];
        let arguments = match kind {
            "unix" => vec!["app-server", "--listen", &socket],
            _ => [&["app-server", "--listen", "ws://127.0.0.1:0"][..], &auth].concat(),
        };
        let running = Running::start(&mut env.agentd(&arguments));
        let address = running.line_with("listening on ");
        let address = address.split("listening on ").last().unwrap().trim().to_owned();
        let connect = || {
            let builder =
                Agent::builder().address(&address).offline().model(&model).cwd(env.work());
            builder.token("secret-token-of-the-test-0123456789").reconnect_timeout(Duration::ZERO)
        };
        if kind == "ws" {
            let refused = connect().token("wrong").start().await.err().unwrap();
            assert!(refused.to_string().contains("401"), "{refused}");
        }
        let (first, second) = (connect().start().await.unwrap(), connect().start().await.unwrap());
        let thread = first.thread(ThreadStartParams::default()).await.unwrap();
        let other = second.resume(thread.id()).await.unwrap();
        assert_eq!(thread.run("go").await.unwrap().text, "Hi");
        assert_eq!(other.read().await.unwrap().turns[0].status, TurnStatus::Completed);
        running.signal("KILL");
        running.end_with_input_open();
        for _ in 0..2 {
            assert!(matches!(other.read().await, Err(Error::ConnectionLost(_))));
        }
    }
}

/// A proxy in front of a Unix socket, whose connections can be cut in the middle of whatever they do.
struct Gate {
    address: String,
    connections: Arc<Mutex<Vec<tokio::task::JoinHandle<()>>>>,
}

impl Gate {
    async fn new(kind: &str, env: &TestEnvironment, socket: std::path::PathBuf) -> Self {
        use tokio::net::{TcpListener, UnixListener, UnixStream};

        let connections: Arc<Mutex<Vec<_>>> = Arc::default();
        let taken = connections.clone();
        async fn pass(mut near: impl AsyncRead + AsyncWrite + Unpin, socket: std::path::PathBuf) {
            // The server may be gone.
            let Ok(mut far) = UnixStream::connect(socket).await else { return };
            let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
        }
        let address = if kind == "unix" {
            let path = env.tmp().join("gate");
            let listener = UnixListener::bind(&path).unwrap();
            tokio::spawn(async move {
                while let Ok((near, _)) = listener.accept().await {
                    taken.lock().unwrap().push(tokio::spawn(pass(near, socket.clone())));
                }
            });
            format!("unix://{}", path.display())
        } else {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = format!("ws://{}", listener.local_addr().unwrap());
            tokio::spawn(async move {
                while let Ok((near, _)) = listener.accept().await {
                    taken.lock().unwrap().push(tokio::spawn(pass(near, socket.clone())));
                }
            });
            address
        };
        Self { address, connections }
    }

    fn cut(&self) {
        for connection in &*self.connections.lock().unwrap() {
            connection.abort();
        }
    }
}

#[tokio::test]
async fn a_stream_goes_on_after_losses_with_nothing_lost_or_doubled() {
    for kind in ["unix", "ws"] {
        let env = TestEnvironment::new();
        let long: String = (0..200).map(|at| format!("word {at} of it ")).collect();
        let written = json!({ "steps": [{ "message": { "text": long, "chunk_chars": 8, "chunk_delay_ms": 5 } }] });
        let model = env.script(&json!([written, message("Next")]));
        let socket = env.tmp().join("s");
        let listen = format!("unix://{}", socket.display());
        let running = Running::start(&mut env.agentd(&["app-server", "--listen", &listen]));
        running.line_with("listening on ");
        let gate = Gate::new(kind, &env, socket).await;
        let builder = Agent::builder().address(&gate.address).offline().model(&model);
        let agent = builder.cwd(env.work()).start().await.unwrap();
        let thread = agent.thread(ThreadStartParams::default()).await.unwrap();
        let since = thread.cursor().unwrap();
        let mut turn = thread.turn("go").await.unwrap();
        let (mut text, mut following) = (String::new(), 300);
        while let Some(part) = turn.next_text().await.unwrap() {
            text += &part;
            if text.len() > following {
                following += 600;
                gate.cut();
            }
        }
        let result = turn.result().await.unwrap();
        assert_eq!((text, &result.text), (long.clone(), &long));
        assert_eq!(result.items.len(), 2, "{:?}", result.items);
        assert!(gate.connections.lock().unwrap().len() >= 4);
        // A thread that is not followed is subscribed to when its next turn starts.
        gate.cut();
        while thread.read().await.is_ok() {}
        assert_eq!(thread.run("more").await.unwrap().text, "Next");

        // Another agent has the events after each position.
        let other = Agent::builder().address(&gate.address).start().await.unwrap();
        let again = other.resume(thread.id()).await.unwrap();
        let mut events = again.events(Some(&since));
        let (mut seen, mut ended) = (String::new(), 0);
        while ended < 2 {
            match events.next().await.unwrap().unwrap() {
                ThreadEvent::Notification(event) if event.method == "turn/completed" => ended += 1,
                // The deltas of an item that is complete are not kept.
                ThreadEvent::Notification(event) if event.method == "item/completed" => {
                    seen += event.params.get();
                }
                ThreadEvent::Replaced(replaced) => panic!("{replaced:?}"),
                _ => {}
            }
        }
        assert!(seen.contains(&long) && seen.contains("Next"), "{seen}");
    }
}

#[tokio::test]
async fn another_client_s_turn_is_followed_joined_and_interrupted() {
    let env = TestEnvironment::new();
    let model = env.script(&json!([idle()]));
    let socket = format!("unix://{}", env.tmp().join("s").display());
    let running = Running::start(&mut env.agentd(&["app-server", "--listen", &socket]));
    running.line_with("listening on ");
    let connect = || Agent::builder().address(&socket).offline().model(&model).cwd(env.work());
    let (first, second) = (connect().start().await.unwrap(), connect().start().await.unwrap());
    let thread = first.thread(ThreadStartParams::default()).await.unwrap();
    let mut turn = thread.turn("go").await.unwrap();
    while turn.next_text().await.unwrap().is_some_and(|text| !text.contains('.')) {}
    let other = second.resume(thread.id()).await.unwrap();
    let busy = other.turn_with(TurnOptions::new("no").on_busy(OnBusy::Error)).await.err();
    assert!(matches!(busy, Some(Error::ThreadBusy(_))), "{busy:?}");
    let mut followed = other.running().await.unwrap().unwrap();
    assert_eq!(followed.id(), turn.id());
    let Some(Ok(TurnEvent::Text(text))) = followed.next().await else { panic!() };
    assert_eq!(text, "I begin.");
    let joined = other.turn_with(TurnOptions::new("also").on_busy(OnBusy::Join)).await.unwrap();
    assert_eq!(joined.id(), turn.id());
    assert!(other.steer("and this").await.unwrap());
    assert!(other.interrupt().await.unwrap());
    for turn in [&mut turn, &mut followed] {
        let error = turn.result().await.unwrap_err();
        assert!(matches!(error, Error::TurnInterrupted(_)), "{error:?}");
        assert_eq!(error.progress().unwrap().text, "I begin.");
    }
    assert!(other.running().await.unwrap().is_none());
}
