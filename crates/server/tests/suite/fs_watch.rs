//! `fs/watch` over the protocol: whose a watch is, how it ends, and that a client that follows its notifications has
//! the picture of the disk.

#[path = "../../../file-watch/tests/suite/picture/mod.rs"]
mod picture;
mod storm;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use testkit::{Peer, TestEnvironment};

use crate::says;
use picture::Picture;

async fn environment() -> TestEnvironment {
    TestEnvironment::with_responses(json!([says("1")])).await
}

async fn watch(client: &mut Peer, id: &str, path: &Path) {
    let params = json!({ "watchId": id, "path": path, "recursive": true });
    assert_eq!(client.call("fs/watch", params).await, json!({ "path": path }));
}

fn paths_of(params: &Value) -> Vec<PathBuf> {
    let paths = params["changedPaths"].as_array().unwrap();
    paths.iter().map(|path| PathBuf::from(path.as_str().unwrap())).collect()
}

/// Waits for a notification of the watch that names `path`.
async fn names(client: &mut Peer, id: &str, path: &Path) {
    let fits =
        |params: &Value| params["watchId"] == id && paths_of(params).iter().any(|at| at == path);
    let params = client.expect_where("fs/changed", fits).await;
    assert!(params.get("overflow").is_none(), "{params}");
}

#[tokio::test]
async fn a_watch_belongs_to_its_connection_and_ends_when_asked() {
    let env = environment().await;
    let server = env.start();
    let (mut one, mut other) = (server.connect().await, server.connect().await);
    let at = |name: &str| env.workspace().join(name);
    std::fs::create_dir(at("sub")).unwrap();
    // The same name twice, for different paths; one does not exist yet, and is not recursive.
    let params = json!({ "watchId": "w", "path": at("later"), "recursive": null });
    assert_eq!(one.call("fs/watch", params).await, json!({ "path": at("later") }));
    watch(&mut other, "w", &env.workspace()).await;
    std::fs::write(at("sub/file"), "").unwrap();
    names(&mut other, "w", &at("sub/file")).await;
    std::fs::create_dir(at("later")).unwrap();
    names(&mut one, "w", &at("later")).await;
    names(&mut other, "w", &at("later")).await;

    for _ in 0..2 {
        let ended = one.call("fs/unwatch", json!({ "watchId": "w" })).await;
        assert_eq!(ended, json!({}));
    }
    one.forget();
    std::fs::write(at("later/in"), "").unwrap();
    names(&mut other, "w", &at("later/in")).await;
    assert!(one.settled().await.is_empty());
    // The name is free again.
    watch(&mut one, "w", &at("later")).await;
    std::fs::write(at("later/in"), "more").unwrap();
    names(&mut one, "w", &at("later/in")).await;
}

#[tokio::test]
async fn errors_say_what_to_do() {
    let env = environment().await;
    let server = env.start();
    let mut client = server.connect().await;
    watch(&mut client, "taken", &env.workspace()).await;
    let long = "x".repeat(1_025);
    for (id, path, reason) in [
        ("new", "sub", "`path` must be an absolute path"),
        ("taken", "/", "a watch named `taken` already exists"),
        (long.as_str(), "/", "at most 1024"),
    ] {
        let params = json!({ "watchId": id, "path": path });
        let error = client.refused("fs/watch", params).await;
        assert!(error.message.contains(reason), "{}", error.message);
    }
    for (params, reason) in [
        (json!({}), "missing field `watchId`"),
        (json!({ "watchID": "taken" }), "missing field `watchId`"),
        (json!({ "watchId": 5 }), "`watchId`: invalid type: integer `5`"),
    ] {
        let error = client.refused("fs/unwatch", params).await;
        assert_eq!(error.code, -32602, "{error:?}");
        assert!(error.message.contains(reason), "{}", error.message);
    }
    // A name is free when its watch could not begin.
    watch(&mut client, "new", &env.workspace().join("none")).await;
    for number in 2..256 {
        watch(&mut client, &number.to_string(), &env.workspace().join("none")).await;
    }
    let params = json!({ "watchId": "more", "path": "/" });
    let error = client.refused("fs/watch", params.clone()).await;
    assert!(error.message.contains("at most 256"), "{}", error.message);
    let mut other = server.connect().await;
    assert_eq!(other.call("fs/watch", params).await, json!({ "path": "/" }));
}

/// A client that pipelines both requests gets no notifications afterwards.
#[tokio::test]
async fn a_watch_can_be_ended_before_it_has_begun() {
    let env = environment().await;
    let server = env.start();
    let mut client = server.connect().await;
    for round in 0..20 {
        let begins = json!({ "watchId": "w", "path": env.workspace(), "recursive": true });
        let begin = client.send("fs/watch", begins).await;
        let end = client.send("fs/unwatch", json!({ "watchId": "w" })).await;
        assert_eq!(client.response(end).await.unwrap(), json!({}));
        if let Err(error) = client.response(begin).await {
            assert!(error.message.contains("`fs/unwatch` ended"), "{}", error.message);
        }
        std::fs::write(env.workspace().join(round.to_string()), "").unwrap();
    }
    // Had one of the watches gone on, it would report this file before the new one does.
    client.forget();
    watch(&mut client, "last", &env.workspace()).await;
    let file = env.workspace().join("file");
    std::fs::write(&file, "").unwrap();
    names(&mut client, "last", &file).await;
    assert!(client.settled().await.is_empty());
}

/// Its notifications neither pile up nor get lost: they become an overflow.
#[tokio::test]
async fn a_client_that_does_not_read_gets_an_overflow() {
    const ROUNDS: usize = 8;
    let env = environment().await;
    let server = env.start();
    let (mut slow, mut quick) = (server.connect().await, server.connect().await);
    let root = env.workspace();
    let mut picture = Picture::of(&root);
    watch(&mut slow, "w", &root).await;
    watch(&mut quick, "w", &root).await;
    let name = "x".repeat(200);
    for round in 0..ROUNDS {
        let files: Vec<PathBuf> =
            (0..2_000).map(|file| root.join(format!("{round}-{file}-{name}"))).collect();
        for file in &files {
            std::fs::write(file, "").unwrap();
        }
        names(&mut quick, "w", files.last().unwrap()).await;
    }
    let disk = Picture::of(&root);
    while picture.difference(&disk).is_some() {
        let params = slow.expect("fs/changed").await;
        picture.apply(&paths_of(&params), params["overflow"] == true);
    }
    assert!(picture.overflows > 0);
    let bytes: usize = slow.raw_lines().iter().map(String::len).sum();
    assert!(bytes < ROUNDS * 2_000 * name.len(), "{bytes}");
}
