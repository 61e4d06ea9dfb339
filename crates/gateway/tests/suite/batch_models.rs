//! Batches of a project whose models are restricted.

use gateway_policy::tenants::{ModelPermissions, PermissionMode};
use gateway_store::records::{DEFAULT_ORGANIZATION, projects};

use crate::common::batching::{Client, ManualClock, Node, Upstream, chat, chats};

const MODELS: &str = "[models.\"m-2026-01-01\"]\naliases = [\"m\"]\n[models.other]\n\
    [batches]\nlines_at_once = 1\n";

async fn allow(node: &Node, project: &str, name: &str) {
    let list = ModelPermissions::new(PermissionMode::Allow, vec![name.into()]);
    let (database, act) = (node.gateway.database(), node.gateway.act());
    let set = projects::set_models(database, DEFAULT_ORGANIZATION, project, Some(&list), act).await;
    set.unwrap().unwrap();
    node.gateway.directory().catch_up().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_for_a_model_without_access_fails() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = Upstream::start(chat).await;
    let kept = ("", "off:");
    let node = Node::start(folder.path(), &ManualClock::new(), &upstream, kept, MODELS).await;
    let (key, project) = node.key().await;
    let client = Client::new(&node.base, &key);
    allow(&node, &project, "m").await;
    let made = client.batch("/v1/chat/completions", &chats("other", 2)).await;
    let batch = client.ended(&made).await;
    assert_eq!(batch["status"], "failed");
    let fault = &batch["errors"]["data"][0];
    assert_eq!(
        (&fault["code"], &fault["param"]),
        (&"model_not_found".into(), &"body.model".into())
    );
    assert!(fault["message"].as_str().unwrap().contains("does not have access"), "{fault}");
    assert_eq!(upstream.received().len(), 0);
    // Its own models run, by any name.
    for name in ["m", "m-2026-01-01"] {
        let made = client.batch("/v1/chat/completions", &chats(name, 2)).await;
        assert_eq!(client.ended(&made).await["status"], "completed");
    }
    node.end().await;
}
