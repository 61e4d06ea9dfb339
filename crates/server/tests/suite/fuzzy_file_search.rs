//! Search of files over the protocol: once and in sessions, what is reported and what is refused.

use std::path::Path;

use serde_json::{Value, json};
use testkit::{Peer, TestEnvironment};

use crate::says;

async fn environment(files: &[&str]) -> TestEnvironment {
    let env = TestEnvironment::with_responses(json!([says("1")])).await;
    for file in files {
        add(&env.workspace(), file);
    }
    env
}

fn add(root: &Path, file: &str) {
    let path = root.join(file);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, "").unwrap();
}

fn experimental() -> Value {
    json!({ "experimentalApi": true })
}

fn paths(found: &Value) -> Vec<&str> {
    found["files"].as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap()).collect()
}

/// The results of the session's query once they are complete.
async fn complete(peer: &mut Peer, session: &str, query: &str) -> Value {
    let about = |params: &Value| params["sessionId"] == session;
    let updated = "fuzzyFileSearch/sessionUpdated";
    let mut found =
        peer.expect_where(updated, |params| about(params) && params["query"] == query).await;
    loop {
        let message = peer.next().await.unwrap();
        match message["method"].as_str() {
            Some("fuzzyFileSearch/sessionUpdated") => found = message["params"].clone(),
            Some("fuzzyFileSearch/sessionCompleted") => {
                assert_eq!(message["params"], json!({ "sessionId": session }));
                return found;
            }
            _ => {}
        }
    }
}

#[tokio::test]
async fn files_and_folders_are_found_with_the_letters_that_matched() {
    let env = environment(&["src/handlers/fs.rs", "src/main.rs", ".hidden/x", ".git/HEAD"]).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let root = env.workspace();
    let search = |query: &str| json!({ "query": query, "roots": [root] });
    let found = peer.call("fuzzyFileSearch", search("handfs")).await;
    let [file] = &found["files"].as_array().unwrap()[..] else { panic!("{found}") };
    let score = file["score"].as_u64().unwrap();
    assert!(score > 0);
    assert_eq!(
        file,
        &json!({ "root": root, "path": "src/handlers/fs.rs", "file_name": "fs.rs",
            "match_type": "file", "score": score, "indices": [4, 5, 6, 7, 13, 14] })
    );
    let found = peer.call("fuzzyFileSearch", search("handlers")).await;
    assert_eq!(found["files"][0]["match_type"], "directory");
    let found = peer.call("fuzzyFileSearch", search("")).await;
    let all = ["src/main.rs", ".hidden/x", "src/handlers/fs.rs", "src", ".hidden", "src/handlers"];
    let mut sorted = paths(&found);
    sorted.sort_unstable();
    assert_eq!(sorted, [".hidden", ".hidden/x", "src", "src/handlers", all[2], all[0]]);
    // What is there now is found, and what is gone is not.
    add(&root, "src/handlers/new.rs");
    std::fs::remove_file(root.join("src/main.rs")).unwrap();
    let found = peer.call("fuzzyFileSearch", search(".rs")).await;
    let mut sorted = paths(&found);
    sorted.sort_unstable();
    assert_eq!(sorted, ["src/handlers/fs.rs", "src/handlers/new.rs"]);
}

#[tokio::test]
async fn several_roots_are_searched_and_named_as_the_request_names_them() {
    let env = environment(&["a/one.rs", "b/one.rs"]).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let root = |name: &str| format!("{}/{name}/", env.workspace().display());
    let roots = json!([root("a"), root("b")]);
    let found = peer.call("fuzzyFileSearch", json!({ "query": "one", "roots": roots })).await;
    let found = found["files"].as_array().unwrap();
    let found: Vec<_> = found.iter().map(|file| (&file["root"], &file["path"])).collect();
    assert_eq!(
        found,
        [(&json!(root("a")), &json!("one.rs")), (&json!(root("b")), &json!("one.rs"))]
    );
}

#[tokio::test]
async fn a_search_with_the_same_token_cancels_the_one_before() {
    let env = environment(&["one.rs"]).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let params =
        json!({ "query": "one", "roots": [env.workspace()], "cancellationToken": "typing" });
    let first = peer.send("fuzzyFileSearch", params.clone()).await;
    let last = peer.send("fuzzyFileSearch", params).await;
    // Unless it was done already.
    if let Err(error) = peer.response(first).await {
        assert!(error.message.contains("cancelled"), "{}", error.message);
    }
    assert_eq!(paths(&peer.response(last).await.unwrap()), ["one.rs"]);
}

#[tokio::test]
async fn requests_that_cannot_be_searched_say_why() {
    let env = environment(&["file"]).await;
    let server = env.start();
    let mut peer = server.connect_with(experimental()).await;
    let root = env.workspace();
    let many = vec![root.clone(); 17];
    let long = "x".repeat(257);
    for (params, code, reason) in [
        (json!({ "roots": ["src"] }), -32602, "`roots[0]` must be an absolute path, found `src`"),
        (json!({ "roots": [root, ""] }), -32602, "`roots[1]` must be an absolute path"),
        (json!({ "roots": [] }), -32602, "`roots` must name 1 to 16 folders, found 0"),
        (json!({ "roots": many }), -32602, "found 17"),
        (json!({ "roots": [root.join("none")] }), -32600, "No such file or directory"),
        (json!({ "roots": [root.join("file")] }), -32602, "it is not a folder"),
        (json!({ "query": long }), -32602, "the query has 257 characters, at most 256"),
        (json!({ "cancellationToken": "" }), -32602, "`cancellationToken` must have 1 to 256"),
        (json!({ "query": null }), -32602, "query"),
    ] {
        let mut search = json!({ "query": "x", "roots": [root] });
        for (name, value) in params.as_object().unwrap() {
            search[name] = value.clone();
        }
        let error = peer.refused("fuzzyFileSearch", search).await;
        assert_eq!(error.code, code, "{params}: {}", error.message);
        assert!(error.message.contains(reason), "{params}: {}", error.message);
        if params["roots"].is_array() {
            let start = json!({ "sessionId": "s", "roots": params["roots"] });
            let error = peer.refused("fuzzyFileSearch/sessionStart", start).await;
            assert!(error.message.contains(reason), "{params}: {}", error.message);
        }
    }
}

#[tokio::test]
async fn a_session_reports_each_query_and_later_changes() {
    let env = environment(&["src/main.rs", "src/mail.rs"]).await;
    let server = env.start();
    let mut peer = server.connect_with(experimental()).await;
    let start = json!({ "sessionId": "s", "roots": [env.workspace()] });
    assert_eq!(peer.call("fuzzyFileSearch/sessionStart", start).await, json!({}));
    let update = |query: &str| json!({ "sessionId": "s", "query": query });
    for (query, expected) in [
        ("main", vec!["src/main.rs"]),
        ("none", vec![]),
        ("mai", vec!["src/mail.rs", "src/main.rs"]),
    ] {
        let answer = peer.call("fuzzyFileSearch/sessionUpdate", update(query)).await;
        assert_eq!(answer, json!({}));
        assert_eq!(paths(&complete(&mut peer, "s", query).await), expected, "{query}");
    }
    add(&env.workspace(), "src/maiden.rs");
    let is_new = |params: &Value| paths(params).contains(&"src/maiden.rs");
    peer.expect_where("fuzzyFileSearch/sessionUpdated", is_new).await;
    std::fs::remove_file(env.workspace().join("src/main.rs")).unwrap();
    let is_gone = |params: &Value| !paths(params).contains(&"src/main.rs");
    peer.expect_where("fuzzyFileSearch/sessionUpdated", is_gone).await;
    let stop = json!({ "sessionId": "s" });
    assert_eq!(peer.call("fuzzyFileSearch/sessionStop", stop.clone()).await, json!({}));
    let error = peer.refused("fuzzyFileSearch/sessionStop", stop).await;
    assert!(error.message.contains("no search session"), "{}", error.message);
}

#[tokio::test]
async fn requests_of_a_session_may_follow_each_other_without_waiting() {
    let env = environment(&["src/main.rs"]).await;
    let server = env.start();
    let mut peer = server.connect_with(experimental()).await;
    let start = json!({ "sessionId": "s", "roots": [env.workspace()] });
    peer.send("fuzzyFileSearch/sessionStart", start).await;
    for query in ["m", "ma", "mai", "main"] {
        let update = json!({ "sessionId": "s", "query": query });
        peer.send("fuzzyFileSearch/sessionUpdate", update).await;
    }
    assert_eq!(paths(&complete(&mut peer, "s", "main").await), ["src/main.rs"]);
}

#[tokio::test]
async fn sessions_belong_to_their_connection() {
    let env = environment(&["main.rs"]).await;
    let server = env.start();
    let mut one = server.connect_with(experimental()).await;
    let mut other = server.connect_with(experimental()).await;
    let start = |id: &str| json!({ "sessionId": id, "roots": [env.workspace()] });
    one.call("fuzzyFileSearch/sessionStart", start("s")).await;
    let error = one.refused("fuzzyFileSearch/sessionStart", start("s")).await;
    assert!(error.message.contains("a search session `s` is in progress"), "{}", error.message);
    let error = one.refused("fuzzyFileSearch/sessionStart", start("")).await;
    assert!(error.message.contains("`sessionId` must have 1 to 256 bytes"), "{}", error.message);
    let update = json!({ "sessionId": "s", "query": "main" });
    let error = other.refused("fuzzyFileSearch/sessionUpdate", update.clone()).await;
    assert!(error.message.contains("call fuzzyFileSearch/sessionStart"), "{}", error.message);
    let long = json!({ "sessionId": "s", "query": "x".repeat(257) });
    let error = one.refused("fuzzyFileSearch/sessionUpdate", long).await;
    assert_eq!(error.code, -32602);
    for id in 1..16 {
        one.call("fuzzyFileSearch/sessionStart", start(&id.to_string())).await;
    }
    let error = one.refused("fuzzyFileSearch/sessionStart", start("more")).await;
    assert!(error.message.contains("16 search sessions are in progress"), "{}", error.message);
    // The same id in another connection is another session.
    other.call("fuzzyFileSearch/sessionStart", start("s")).await;
    drop(one);
    other.call("fuzzyFileSearch/sessionUpdate", update).await;
    assert_eq!(paths(&complete(&mut other, "s", "main").await), ["main.rs"]);
}

#[tokio::test]
async fn sessions_are_experimental() {
    let env = environment(&[]).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let start = json!({ "sessionId": "s", "roots": [env.workspace()] });
    let error = peer.refused("fuzzyFileSearch/sessionStart", start).await;
    assert!(error.message.contains("experimentalApi"), "{}", error.message);
}
