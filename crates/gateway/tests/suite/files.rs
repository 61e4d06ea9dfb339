//! Files: those of batches are stored in the gateway, others at the upstream, and each project sees
//! its own.

use std::sync::Arc;

use crate::common::batching;
use crate::common::batching::{Client, ManualClock, Node, ReceivedRequest, Upstream};
use hyper::Method;
use serde_json::{Value, json};

struct Fixture {
    _folder: tempfile::TempDir,
    clock: Arc<ManualClock>,
    upstream: Arc<Upstream>,
    node: Node,
}

async fn fixture(
    script: impl Fn(&ReceivedRequest) -> (u16, String) + Send + Sync + 'static,
) -> Fixture {
    let (folder, clock) = (tempfile::tempdir().unwrap(), ManualClock::new());
    let upstream = Upstream::start(script).await;
    let config = "[server]\nmax_body_bytes = 2000000\n";
    let node = Node::start(folder.path(), &clock, &upstream, ("", "memory:"), config).await;
    Fixture { _folder: folder, clock, upstream, node }
}

const PURPOSE: (&str, &str) = ("name=\"purpose\"", "batch");

fn ids(list: &Value) -> Vec<String> {
    let entries = list["data"].as_array().unwrap();
    entries.iter().map(|entry| entry["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batch_files_are_stored_in_the_gateway() {
    let fixture = fixture(|_| (404, batching::ERROR.to_owned())).await;
    let client = Client::new(&fixture.node.base, &fixture.node.key().await.0);
    let content = "0123456789abcdef".repeat(40_000);
    let file = ("name=\"file\"; filename=\"a b.jsonl\"", &*content);
    let mut made = Vec::new();
    for parts in [[PURPOSE, file], [file, PURPOSE]] {
        let (status, uploaded) = client.upload(&parts).await;
        assert_eq!((status, &uploaded["object"]), (200, &json!("file")), "{uploaded}");
        assert_eq!((&uploaded["bytes"], &uploaded["purpose"]), (&json!(640_000), &json!("batch")));
        assert_eq!(
            (&uploaded["filename"], &uploaded["status"]),
            (&json!("a b.jsonl"), &json!("processed"))
        );
        made.push(uploaded["id"].as_str().unwrap().to_owned());
        fixture.clock.add_seconds(1);
    }
    assert!(fixture.upstream.received().is_empty());
    let path = format!("/v1/files/{}", made[0]);
    let (status, found) = client.send(Method::GET, &format!("{path}/content"), "x/y", "").await;
    assert_eq!((status, &*found), (200, content.as_bytes()));
    let (_, list) = client.get("/v1/files?limit=1").await;
    assert_eq!((ids(&list), &list["has_more"]), (vec![made[1].clone()], &json!(true)));
    let (_, list) = client.get(&format!("/v1/files?after={}&purpose=batch", made[1])).await;
    assert_eq!((ids(&list), &list["has_more"]), (vec![made[0].clone()], &json!(false)));
    let (_, list) = client.get("/v1/files?order=asc").await;
    assert_eq!(ids(&list), made);
    let (_, list) = client.get("/v1/files?purpose=batch_output").await;
    assert_eq!(list["data"], json!([]));
    let stranger = Client::new(&fixture.node.base, &fixture.node.key().await.0);
    for below in ["", "/content"] {
        assert_eq!(stranger.get(&format!("{path}{below}")).await.0, 404);
    }
    assert_eq!(stranger.send(Method::DELETE, &path, "x/y", "").await.0, 404);
    assert_eq!(ids(&stranger.get("/v1/files").await.1).len(), 0);
    let (status, _) = client.send(Method::DELETE, &path, "x/y", "").await;
    assert_eq!((status, client.get(&path).await.0), (200, 404));
    // The other one expires after thirty days.
    fixture.clock.add_seconds(31 * 86_400);
    assert_eq!(client.get(&format!("/v1/files/{}", made[1])).await.0, 404);
    fixture.node.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_of_other_purposes_go_to_the_upstream() {
    let fixture = fixture(|received| match &*received.path {
        "/v1/files" => {
            let text = String::from_utf8_lossy(&received.body);
            let (_, rest) = text.split_once("number ").unwrap();
            let number = rest.split_whitespace().next().unwrap();
            (200, json!({"id": format!("file-up{number}"), "object": "file"}).to_string())
        }
        path if path.starts_with("/v1/files?") && path.contains("after=") => {
            (200, json!({"data": [{"id": "file-up1"}], "has_more": false}).to_string())
        }
        path if path.starts_with("/v1/files?") => {
            let data = json!([{"id": "file-up2"}, {"id": "file-stranger"}]);
            (200, json!({"data": data, "has_more": true}).to_string())
        }
        _ => (200, json!({"id": "file-up1", "object": "file"}).to_string()),
    })
    .await;
    let client = Client::new(&fixture.node.base, &fixture.node.key().await.0);
    let purpose = ("name=\"purpose\"", "assistants");
    for (number, behind) in [(1, false), (2, true)] {
        let content = format!("number {number} {}", "x".repeat(300_000));
        let file = ("name=\"file\"; filename=\"a\"", &*content);
        let parts = if behind { [file, purpose] } else { [purpose, file] };
        let (status, uploaded) = client.upload(&parts).await;
        assert_eq!((status, &uploaded["id"]), (200, &json!(format!("file-up{number}"))));
        let sent = fixture.upstream.received().pop().unwrap();
        assert!(sent.body.len() > 300_000 && sent.body.ends_with(b"--b--\r\n"));
    }
    let (_, own) = client.upload(&[PURPOSE, ("name=\"file\"; filename=\"a\"", "{}")]).await;
    let own = own["id"].as_str().unwrap().to_owned();
    // Owners are written after the response, but known immediately.
    let expected = vec![own.clone(), "file-up2".to_owned(), "file-up1".to_owned()];
    let (status, list) = client.get("/v1/files").await;
    assert_eq!((status, ids(&list)), (200, expected.clone()));
    let (_, list) = client.get("/v1/files?limit=2").await;
    assert_eq!((ids(&list), &list["has_more"]), (expected[..2].to_vec(), &json!(true)));
    let (_, list) = client.get("/v1/files?after=file-up2&limit=2").await;
    assert_eq!((ids(&list), &list["has_more"]), (expected[2..].to_vec(), &json!(false)));
    assert_eq!(client.get("/v1/files/file-up1").await.0, 200);
    let stranger = Client::new(&fixture.node.base, &fixture.node.key().await.0);
    assert_eq!(stranger.get("/v1/files/file-up1").await.0, 404);
    assert_eq!(ids(&stranger.get("/v1/files").await.1).len(), 0);
    fixture.node.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_file_uploads_are_refused() {
    let fixture = fixture(|_| (200, "{}".to_owned())).await;
    let client = Client::new(&fixture.node.base, &fixture.node.key().await.0);
    let file = ("name=\"file\"; filename=\"a\"", "{}");
    let check = async |parts: &[(&str, &str)], param: &str| {
        let (status, error) = client.upload(parts).await;
        assert_eq!((status, &error["error"]["param"]), (400, &json!(param)), "{error}");
    };
    check(&[PURPOSE], "file").await;
    check(&[file], "purpose").await;
    check(&[file, ("name=\"purpose\"", "batch_output")], "purpose").await;
    check(&[PURPOSE, ("name=\"file\"; filename=\"a\"", "")], "file").await;
    let (anchor, seconds) = ("name=\"expires_after[anchor]\"", "name=\"expires_after[seconds]\"");
    check(&[PURPOSE, file, (anchor, "now"), (seconds, "3600")], "expires_after[anchor]").await;
    check(&[PURPOSE, file, (anchor, "created_at"), (seconds, "1")], "expires_after[seconds]").await;
    check(&[PURPOSE, file, (anchor, "created_at")], "expires_after[seconds]").await;
    let (status, made) =
        client.upload(&[PURPOSE, file, (anchor, "created_at"), (seconds, "3600")]).await;
    let stays = made["expires_at"].as_i64().unwrap() - made["created_at"].as_i64().unwrap();
    assert_eq!((status, stays), (200, 3600));
    let large = "x".repeat(2_000_001);
    let large = ("name=\"file\"; filename=\"a\"", &*large);
    // Its connection ends, and the next request has one of its own.
    let (status, error) = client.upload(&[PURPOSE, large]).await;
    assert_eq!((status, &error["error"]["code"]), (413, &json!("request_too_large")));
    let (status, _) = client.post("/v1/files", &json!({})).await;
    assert_eq!(status, 400);
    assert!(fixture.upstream.received().is_empty());
    fixture.node.end().await;
}
