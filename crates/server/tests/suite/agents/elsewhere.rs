//! Agents whose thread is no longer this server's: another server took it over, or a client deleted it.

use serde_json::{Value, json};

use super::{environment, outputs, parsed, spawn, wait};
use crate::{calls, says};

fn agent_of(outputs: &[String]) -> String {
    parsed(&outputs[0])["agent_id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn the_result_of_an_agent_that_another_server_took_over_is_what_its_thread_says() {
    let about = |tool: &str, member: &str| calls(tool, json!({ member: "Ada" }));
    let parent = vec![
        spawn("Count."),
        wait(&["Ada"], 10_000),
        about("close_agent", "target"),
        says("Closed."),
        // While the other server has it.
        wait(&["Ada"], 0),
        about("close_agent", "target"),
        about("resume_agent", "id"),
        says("Taken."),
        // While the other server works on it.
        wait(&["Ada"], 60_000),
        says("Waited."),
        // After the other server has ended.
        about("resume_agent", "id"),
        wait(&["Ada"], 0),
        about("close_agent", "target"),
        says("Back."),
    ];
    let slow = json!({ "steps": [{ "delay_ms": 300 }, { "message": "late" }] });
    let agent = vec![says("one"), says("from b"), slow, says("last")];
    let environment = environment(vec![parent, agent]).await;
    let (one, two) = (environment.start(), environment.start());
    let mut peer = one.connect().await;
    let mut other = two.connect().await;
    let thread = peer.start_thread(json!({})).await;
    peer.run_turn(&thread, "Go.").await;
    let agent = agent_of(&outputs(&environment, &thread));

    other.call("thread/resume", json!({ "threadId": agent })).await;
    other.run_turn(&agent, "Again.").await;
    peer.run_turn(&thread, "And now?").await;
    let taken = outputs(&environment, &thread);
    assert_eq!(parsed(&taken[3])["status"][&agent], json!({ "completed": "from b" }));
    let pid = format!("process {}", std::process::id());
    for refused in &taken[4..6] {
        assert!(refused.contains("another server") && refused.contains(&pid), "{refused}");
    }

    other.start_turn(&agent, "Once more.").await;
    peer.run_turn(&thread, "Wait for it.").await;
    let waited = outputs(&environment, &thread);
    let expected =
        json!({ "status": { agent.as_str(): { "completed": "late" } }, "timed_out": false });
    assert_eq!(parsed(&waited[6]), expected);

    other.run_turn(&agent, "The end.").await;
    two.stop().await;
    peer.run_turn(&thread, "Take it back.").await;
    let back = outputs(&environment, &thread);
    let last = json!({ "completed": "last" });
    assert_eq!(parsed(&back[7])["status"], last);
    assert_eq!(parsed(&back[8])["status"][&agent], last);
    assert_eq!(parsed(&back[9])["previous_status"], last);
}

#[tokio::test]
async fn calls_about_an_agent_whose_thread_was_deleted_say_so() {
    let after = [
        wait(&["Ada"], 1_000),
        calls("send_input", json!({ "target": "Ada", "message": "x" })),
        calls("resume_agent", json!({ "id": "Ada" })),
        calls("close_agent", json!({ "target": "Ada" })),
    ];
    let before = [spawn("Count."), wait(&["Ada"], 10_000), says("Done.")];
    let parent: Vec<Value> = before.into_iter().chain(after).chain([says("Gone.")]).collect();
    let environment = environment(vec![parent, vec![says("one")]]).await;
    let server = environment.start();
    let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
    let thread = peer.start_thread(json!({})).await;
    peer.run_turn(&thread, "Go.").await;
    let agent = agent_of(&outputs(&environment, &thread));
    peer.call("thread/delete", json!({ "threadId": agent })).await;
    peer.run_turn(&thread, "And now?").await;
    let refused = &outputs(&environment, &thread)[2..];
    assert_eq!(refused.len(), 4);
    for output in refused {
        let says = format!("the thread of agent {agent} was deleted");
        assert!(output.contains(&says) && !output.contains("cannot be read"), "{output}");
    }
}
