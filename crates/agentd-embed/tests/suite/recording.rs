//! Sessions that are recorded, and replayed without a server.

use std::path::Path;

use agentd_embed::protocol::{ThreadList, ThreadListParams, ThreadStartParams};
use agentd_embed::{Agent, AgentBuilder, Error, Tool, ToolError, TurnEvent};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::fake::{Fake, begun, lasting, list, opened, replay, resumed};

/// A session of a program: a turn whose tool is called, over a connection that is lost in the middle, and a request.
async fn session(
    builder: AgentBuilder,
    question: &str,
) -> Result<(Vec<String>, Vec<usize>), Error> {
    let weather =
        |place: Value| async move { Ok::<_, ToolError>(format!("sunny in {}", place["city"])) };
    let tool = Tool::new("weather", "The weather.", json!({ "type": "object" }), weather);
    let agent = builder.tool(tool).start().await?;
    let thread = agent.thread(ThreadStartParams::default()).await?;
    let mut turn = thread.turn(question).await?;
    let mut texts = Vec::new();
    while let Some(event) = turn.next().await {
        if let TurnEvent::Text(text) = event? {
            texts.push(text);
        }
    }
    texts.push(turn.result().await?.text);
    let page = agent.request::<ThreadList>(&ThreadListParams::default()).await?;
    let sizes = vec![page.data.len(), texts.len()];
    agent.close().await;
    Ok((texts, sizes))
}

/// The server of that session.
async fn serve(mut fakes: mpsc::UnboundedReceiver<Fake>) {
    let mut fake = Fake::next(&mut fakes).await;
    let mut answer = opened();
    answer["eventCursor"] = "e.0".into();
    fake.answer(answer).await;
    fake.answer(begun("u")).await;
    let params = json!({
        "threadId": "t", "turnId": "u", "callId": "c", "tool": "weather", "namespace": null,
        "arguments": { "city": "Vienna", "apiKey": "hidden-1" },
    });
    fake.write(&json!({ "id": 7, "method": "item/tool/call", "params": params }).to_string()).await;
    let answered = fake.receive().await;
    assert!(answered["result"].to_string().contains("sunny in"), "{answered}");
    fake.delta("e.1", "One t0k3n ").await;
    // The client has read it: it answers what comes after.
    let params = json!({ "threadId": "t", "turnId": "u", "callId": "d", "tool": "weather", "namespace": null, "arguments": {} });
    fake.write(&json!({ "id": 8, "method": "item/tool/call", "params": params }).to_string()).await;
    fake.receive().await;
    drop(fake);
    let mut fake = Fake::next(&mut fakes).await;
    fake.answer_to("thread/resume", resumed("e.2", replay(1, &[]), json!([]))).await;
    fake.delta("e.2", "two").await;
    fake.end("e.3", "completed").await;
    fake.answer_to("thread/list", json!({ "data": [], "nextCursor": null })).await;
}

async fn recorded(file: &Path) -> (Vec<String>, Vec<usize>) {
    let (builder, fakes) = lasting(Agent::builder().token("t0k3n").record(file));
    let (session, ()) = tokio::join!(session(builder, "go"), serve(fakes));
    session.unwrap()
}

#[tokio::test]
async fn a_session_is_replayed_without_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("session.jsonl");
    let first = recorded(&file).await;
    assert_eq!(first.0.last().unwrap(), "One t0k3n two");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(!text.contains("t0k3n") && !text.contains("hidden-1"), "{text}");
    assert!(
        text.starts_with("{\"recording\":1,\"isLasting\":true}\n{\"connection\":0}\n{\"sent\":{"),
        "{text}"
    );
    assert_eq!(text.matches("\n{\"connection\":").count(), 2);
    for _ in 0..2 {
        // Nothing of the way to a server is used.
        let builder =
            Agent::builder().address("ws://127.0.0.1:1").program("/nowhere").replay(&file);
        let again = session(builder.token("t0k3n"), "go").await.unwrap();
        assert_eq!(again.0.last().unwrap(), "One *** two");
        assert_eq!(again.1[0], first.1[0]);
    }
}

#[tokio::test]
async fn the_first_message_that_differs_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("session.jsonl");
    recorded(&file).await;
    let error = session(Agent::builder().replay(&file), "stop").await.unwrap_err();
    let message = error.to_string();
    let Error::ReplayMismatch(mismatch) = error else { panic!("{message}") };
    let line = std::fs::read_to_string(&file).unwrap();
    let line = line.lines().position(|line| line.contains("\"turn/start\"")).unwrap() + 1;
    assert_eq!(mismatch.place, format!("{}:{line}", file.display()));
    assert_eq!(mismatch.differs_at.as_deref(), Some("/params/input/0/text"));
    assert_eq!(mismatch.expected.unwrap()["params"]["input"][0]["text"], "go");
    assert_eq!(mismatch.actual.unwrap()["params"]["input"][0]["text"], "stop");
    assert!(
        message.contains("the recording has {")
            && message.ends_with("is at `/params/input/0/text`"),
        "{message}"
    );
}

#[tokio::test]
async fn every_call_after_a_difference_fails() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("session.jsonl");
    let (connection, mut fake) = Fake::new();
    let serving = async {
        fake.hello(crate::fake::USER_AGENT).await;
        assert_eq!(fake.receive().await["method"], "initialized");
        fake.answer_to("thread/list", json!({ "data": [], "nextCursor": null })).await;
    };
    let recording = async {
        let agent = Agent::builder().record(&file).over(connection).await.unwrap();
        list(&agent).await.unwrap();
        agent.close().await;
    };
    tokio::join!(recording, serving);
    let agent = Agent::builder().replay(&file).start().await.unwrap();
    list(&agent).await.unwrap();
    for _ in 0..2 {
        let error = list(&agent).await.unwrap_err();
        let Error::ReplayMismatch(mismatch) = &error else { panic!("{error}") };
        assert_eq!(mismatch.place, format!("the end of {}", file.display()));
        assert!(
            error.to_string().contains("there is no further message, and this session sends {"),
            "{error}"
        );
    }
    // Another name of the program differs in the first message.
    let error = Agent::builder().client_name("other").replay(&file).start().await.err().unwrap();
    let Error::ReplayMismatch(mismatch) = &error else { panic!("{error}") };
    assert_eq!(mismatch.differs_at.as_deref(), Some("/params/clientInfo/name"));
}

#[tokio::test]
async fn files_that_cannot_be_used_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("session.jsonl");
    std::fs::write(&file, "{\"connection\":0}\nno JSON\n").unwrap();
    let missing = folder.path().join("missing/session.jsonl");
    for (builder, expected) in [
        (Agent::builder().replay(&file), "session.jsonl:2: this is not a recording of a session"),
        (Agent::builder().replay(&missing), "missing/session.jsonl cannot be read: "),
        (Agent::builder().record(&missing), "missing/session.jsonl cannot be written: "),
        (Agent::builder().record(&missing).replay(&file), "either recorded or replayed"),
    ] {
        let error = builder.program("/nowhere").start().await.err().unwrap();
        assert!(
            matches!(&error, Error::InvalidArgument(why) if why.contains(expected)),
            "{error:?}"
        );
    }
    let (connection, _fake) = Fake::new();
    let error = Agent::builder().replay(&file).over(connection).await.err().unwrap();
    assert!(matches!(error, Error::InvalidArgument(_)), "{error:?}");
}

/// A file that takes nothing more, as on a full disk.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_recording_that_cannot_go_on_ends_the_session() {
    let error =
        Agent::builder().record("/dev/full").program("/nowhere").start().await.err().unwrap();
    assert!(
        matches!(&error, Error::NotRecorded(why) if why.contains("/dev/full ends here")),
        "{error:?}"
    );
}
