//! Reports of users (`feedback/upload`).

use serde_json::{Value, json};
use testkit::TestEnvironment;

use crate::{runs, says};

fn report(more: Value) -> Value {
    let mut params = json!({ "classification": "bug", "includeLogs": true });
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    params
}

const SECRET: &str = "sk-proj-0123456789abcdefghij";

#[tokio::test]
async fn a_report_is_shown_and_written_without_secrets() {
    let env =
        TestEnvironment::with_responses(json!([runs(&format!("echo {SECRET}")), says("Done.")]))
            .await;
    let server = env.start();
    let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
    let thread = peer.start_thread(json!({})).await;
    peer.run_turn(&thread, &format!("Use {SECRET}, please.")).await;
    let extra = env.root().join("extra.log");
    std::fs::write(&extra, format!("started\npassword={SECRET}\n")).unwrap();
    let fifo = env.root().join("fifo");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, kind, mode, 0).unwrap();
    let params = report(json!({
        "threadId": thread, "reason": format!("It said {SECRET}."), "tags": { "api_key": "hunter2x" },
        "extraLogFiles": [extra, fifo, "/does/not/exist"],
    }));

    let mut shown = params.clone();
    shown["dryRun"] = true.into();
    let answer = peer.call("feedback/upload", shown).await;
    let text = answer["report"].to_string();
    assert!(!text.contains(SECRET) && !text.contains("hunter2x"), "{text}");
    assert!(text.contains("please.") && text.contains("started\\npassword=[redacted]"), "{text}");
    assert!(answer["report"]["redacted"].as_u64().unwrap() >= 4, "{text}");
    assert!(!env.home().join("feedback").exists(), "nothing is written");

    let answer = peer.call("feedback/upload", params).await;
    assert_eq!(answer["threadId"], thread);
    let path = answer["path"].as_str().unwrap();
    let mode = std::fs::metadata(path).unwrap().permissions();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o600);
    let written: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(written["thread"]["id"], thread);
    assert!(!written.to_string().contains(SECRET));
    assert!(written["logs"][fifo.to_str().unwrap()]["error"].is_string(), "{written}");
}

#[tokio::test]
async fn reports_that_cannot_be_made_say_why() {
    let env = TestEnvironment::with_responses(json!([says("Done.")])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let cases = [
        (json!({ "classification": " " }), "`classification`"),
        (json!({ "threadId": "nope" }), "thread not found"),
        (json!({ "extraLogFiles": ["relative"] }), "absolute"),
        (json!({ "extraLogFiles": vec!["/a"; 17] }), "has 17 entries, more than 16"),
        (json!({ "classification": "x".repeat(65) }), "has 65 bytes, more than 64"),
        (json!({ "threadId": "nope", "includeLogs": false }), "thread not found"),
        (json!({ "dryrun": true }), "unknown member `dryrun`; did you mean `dryRun`?"),
        (json!({ "dryRun": true }), "experimentalApi"),
    ];
    for (more, part) in cases {
        let fault = peer.refused("feedback/upload", report(more)).await;
        assert!(fault.message.contains(part), "{fault:?}");
    }
}

#[tokio::test]
async fn without_logs_a_report_holds_none() {
    let env = TestEnvironment::with_responses(json!([says("Done.")])).await;
    let server = env.start();
    let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
    let thread = peer.start_thread(json!({})).await;
    let extra = env.root().join("extra.log");
    std::fs::write(&extra, "private\n").unwrap();
    let params = report(json!({ "includeLogs": false, "threadId": thread, "dryRun": true,
        "extraLogFiles": [extra] }));
    let answer = peer.call("feedback/upload", params).await;
    assert_eq!(answer["threadId"], thread);
    assert_eq!(answer["report"]["logs"], json!({}));
    assert_eq!(answer["report"]["thread"], Value::Null);
}

#[tokio::test]
async fn the_path_is_for_clients_of_the_experimental_api() {
    let env = TestEnvironment::with_responses(json!([says("1")])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let answer = peer.call("feedback/upload", report(json!({}))).await;
    assert_eq!(answer.get("path"), None, "{answer}");
    let id = answer["threadId"].as_str().unwrap();
    assert!(env.home().join("feedback").join(format!("{id}.json")).exists());
}

#[tokio::test]
async fn a_link_and_a_file_in_place_of_the_folder_are_left_alone() {
    let env = TestEnvironment::with_responses(json!([says("1")])).await;
    let (folder, elsewhere) = (env.home().join("feedback"), env.root().join("elsewhere"));
    std::fs::create_dir(&elsewhere).unwrap();
    let server = env.start();
    let mut peer = server.connect().await;
    std::os::unix::fs::symlink(&elsewhere, &folder).unwrap();
    let fault = peer.refused("feedback/upload", report(json!({}))).await;
    assert!(
        fault.message.contains("is a link") && fault.message.contains("remove it"),
        "{fault:?}"
    );
    assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);
    std::fs::remove_file(&folder).unwrap();
    std::fs::write(&folder, "mine").unwrap();
    let fault = peer.refused("feedback/upload", report(json!({}))).await;
    assert!(fault.message.contains("is not a folder"), "{fault:?}");
}

// Effect of `feedback.enabled`.
#[tokio::test]
async fn feedback_can_be_switched_off() {
    let env = TestEnvironment::with_responses(json!([says("Done.")])).await;
    let config = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    env.write_config(&format!("{config}\n[feedback]\nenabled = false\n"));
    let server = env.start();
    let mut peer = server.connect().await;
    let fault = peer.refused("feedback/upload", report(json!({}))).await;
    assert!(fault.message.contains("feedback.enabled"), "{fault:?}");
}
