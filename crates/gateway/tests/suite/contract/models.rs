//! Models as clients see them: aliases and snapshots, shared groups, announcements, shutdowns, and
//! the effects of a reload.

use hyper::Method;
use serde_json::{Value, json};

use super::{BIG, start};
use crate::common::gateway::{TestGateway, chat_request, chat_with, config};
use crate::common::upstream::Upstream;

const CHAT: &str = "/v1/chat/completions";
const DAY: u64 = 86_400_000_000;

fn request_for(model: &str) -> Value {
    chat_with(json!({ "model": model }))
}

#[tokio::test]
async fn alias_and_snapshot_share_one_bucket() {
    let (gateway, upstream) = start(&format!("{BIG}[tiers.free.limits.big]\nrpm = 3\n")).await;
    let tenant = gateway.tenant("free").await;
    for (model, left) in [("big", "2"), ("big-2026-08-01", "1"), ("big", "0")] {
        let answer = gateway.post(&tenant, CHAT, &request_for(model)).await;
        assert_eq!((answer.status.as_u16(), answer.limits("requests")[1]), (200, left));
        assert_eq!(upstream.last().json()["model"], "big-2026-08-01");
    }
    let refused = gateway.post(&tenant, CHAT, &request_for("big-2026-08-01")).await;
    assert!(refused.message().contains("reached for big-2026-08-01 in"), "{}", refused.message());
    // Another organization has its own.
    assert_eq!(gateway.chat(&gateway.tenant("free").await).await.status, 200);
}

#[tokio::test]
async fn a_shared_group_has_one_bucket_and_a_request_must_fit_both() {
    let models = "[models.a]\nshared_limit = \"f\"\n[models.b]\nshared_limit = \"f\"\n[models.c]\n";
    let tier = "[tiers.free.limits]\nf = { tpm = 100 }\na = { tpm = 80 }\n";
    let (gateway, upstream) = start(&format!("{models}{tier}")).await;
    let tenant = gateway.tenant("free").await;
    let gate = crate::common::upstream::Gate::closed();
    let held = crate::common::upstream::Script::json(&json!({}))
        .before(crate::common::upstream::Step::Wait(gate.clone()));
    upstream.script([held.clone(), held]);
    let ask = |model: &str, tokens: u64| chat_with(json!({ "model": model, "max_tokens": tokens }));
    let (one, other) = (ask("a", 60), ask("b", 10));
    let first = gateway.post(&tenant, CHAT, &one);
    let second = async {
        upstream.has_received(1).await;
        gateway.post(&tenant, CHAT, &other).await
    };
    let third = async {
        upstream.has_received(2).await;
        let full = gateway.post(&tenant, CHAT, &ask("b", 31)).await;
        assert!(full.message().contains("Limit 100, Used 70, Requested 31"), "{}", full.message());
        let own = gateway.post(&tenant, CHAT, &ask("a", 21)).await;
        assert!(own.message().contains("Limit 80, Used 60, Requested 21"), "{}", own.message());
        assert_eq!(gateway.post(&tenant, CHAT, &ask("c", 5000)).await.status, 200);
        gate.open(2);
    };
    let (first, second, ()) = tokio::join!(first, second, third);
    assert_eq!((first.status.as_u16(), second.status.as_u16()), (200, 200));
}

#[tokio::test]
async fn a_tier_without_an_entry_uses_the_nearest_lower_one() {
    let tiers = "[tiers.free.limits.big]\nrpm = 3\n[tiers.2.limits.big]\nrpm = 20\n";
    let (gateway, _upstream) = start(&format!("{BIG}{tiers}")).await;
    for (tier, limit) in [("free", "3"), ("1", "3"), ("2", "20"), ("5", "20")] {
        let tenant = gateway.tenant(tier).await;
        assert_eq!(gateway.chat(&tenant).await.limits("requests")[0], limit, "{tier}");
    }
}

#[tokio::test]
async fn a_payment_raises_the_tier_at_once() {
    let tiers = "[tiers.free.limits.big]\nrpm = 3\n[tiers.1.limits.big]\nrpm = 6\n\
        [tiers.5.limits.big]\nrpm = 100\n";
    let (gateway, _upstream) = start(&format!("{BIG}{tiers}")).await;
    let tenant = gateway.tenant("free").await;
    let pay = async |cents: u64| {
        let path = format!("/v1/organizations/{}/payments", tenant.organization);
        gateway.admin(Method::POST, &path, json!({ "amount_cents": cents })).await;
        gateway.chat(&tenant).await
    };
    assert_eq!(gateway.chat(&tenant).await.limits("requests")[..2], ["3", "2"]);
    assert_eq!(pay(499).await.limits("requests")[..2], ["3", "1"]);
    // Usage is kept.
    assert_eq!(pay(1).await.limits("requests")[..2], ["6", "3"]);
    assert_eq!(pay(99_500).await.limits("requests")[..2], ["100", "96"]);
}

const ENDING: &str = "[models.\"old-2026-01-01\"]\naliases = [\"old\"]\n\
    shutdown_date = \"2026-12-01\"\ndeprecation_date = \"2026-11-15\"\nsuccessor = \"big\"\n\
    [models.big]\n[tiers.free.limits.old]\nrpm = 5\n";

#[tokio::test]
async fn a_model_is_deprecated_then_unavailable() {
    let (gateway, upstream) = start(ENDING).await;
    let tenant = gateway.tenant("free").await;
    let before = gateway.post(&tenant, CHAT, &request_for("old")).await;
    assert_eq!((before.status.as_u16(), before.header("deprecation")), (200, ""));
    gateway.clock.advance(5 * DAY);
    let error = crate::common::upstream::Script::error(500, &json!({ "error": {} }));
    upstream.script([crate::common::upstream::Script::json(&json!({})), error]);
    let is_announced = |answer: &crate::common::gateway::Answer, status: u16| {
        assert_eq!(answer.status, status);
        assert_eq!(answer.header("deprecation"), "@1794700800");
        assert_eq!(answer.header("sunset"), "Tue, 01 Dec 2026 00:00:00 GMT");
        let links: Vec<_> = answer.headers.get_all("link").iter().collect();
        assert_eq!(
            links,
            [
                "</v1/models/old-2026-01-01>; rel=\"deprecation\"",
                "</v1/models/big>; rel=\"successor-version\"",
            ]
        );
    };
    for status in [200, 500] {
        is_announced(&gateway.post(&tenant, CHAT, &request_for("old-2026-01-01")).await, status);
    }
    let wrong = chat_with(json!({ "model": "old", "max_tokens": 0 }));
    is_announced(&gateway.post(&tenant, CHAT, &wrong).await, 400);
    let theirs = json!({ "model": "old", "previous_response_id": "resp_none" });
    is_announced(&gateway.post(&tenant, "/v1/responses", &theirs).await, 404);
    is_announced(&gateway.get(&tenant, "/v1/models/old").await, 200);
    for _ in 0..3 {
        gateway.post(&tenant, CHAT, &request_for("old")).await;
    }
    is_announced(&gateway.post(&tenant, CHAT, &request_for("old")).await, 429);
    let sent = upstream.count();

    gateway.clock.advance(16 * DAY - 1);
    assert_eq!(gateway.post(&tenant, CHAT, &request_for("old")).await.status, 200);
    gateway.clock.advance(1);
    for name in ["old", "old-2026-01-01"] {
        for gone in [
            gateway.post(&tenant, CHAT, &request_for(name)).await,
            gateway.get(&tenant, &format!("/v1/models/{name}")).await,
        ] {
            assert_eq!(gone.error().0, 404);
            assert_eq!(gone.error().1, "model_not_found");
            let message = gone.message();
            assert!(message.contains("2026-12-01") && message.contains("`big`"), "{message}");
        }
    }
    let list = gateway.get(&tenant, "/v1/models").await.json();
    let ids: Vec<_> = list["data"].as_array().unwrap().iter().map(|m| &m["id"]).collect();
    assert_eq!(ids, ["big"]);
    assert_eq!(upstream.count(), sent + 1);
}

#[tokio::test]
async fn models_are_listed_with_their_aliases_and_ends() {
    let (gateway, upstream) = start(ENDING).await;
    let tenant = gateway.tenant("free").await;
    let list = gateway.get(&tenant, "/v1/models").await;
    let entry = |model: &Value| {
        json!([model["id"], model["object"], model["alias_of"], model["shutdown_date"]])
    };
    let list = list.json();
    assert_eq!(list["object"], "list");
    let entries: Vec<_> = list["data"].as_array().unwrap().iter().map(entry).collect();
    assert_eq!(
        json!(entries),
        json!([
            ["big", "model", null, null],
            ["old-2026-01-01", "model", null, "2026-12-01"],
            ["old", "model", "old-2026-01-01", "2026-12-01"],
        ])
    );
    let one = gateway.get(&tenant, "/v1/models/old").await.json();
    assert_eq!(one["alias_of"], "old-2026-01-01");
    assert_eq!(gateway.get(&tenant, "/v1/models/none").await.error().1, "model_not_found");
    assert_eq!(gateway.get(&tenant, "/v1/models/maker/none").await.error().1, "model_not_found");
    let head = gateway.with(&tenant, Method::HEAD, "/v1/models", &[], "").await;
    assert_eq!((head.status.as_u16(), head.body.len()), (200, 0));
    // Shared models cannot be deleted.
    let delete = gateway.with(&tenant, Method::DELETE, "/v1/models/big", &[], "").await;
    assert_eq!(delete.error().1, "method_not_allowed");
    assert_eq!(upstream.count(), 0);
}

#[tokio::test]
async fn fine_tuning_limits_follow_the_tier() {
    let tier = "[tiers.1.limits.big]\nrpm = 7\ntpm = 1000\nbatch_queue_tokens = 5\n";
    let (gateway, _upstream) = start(&format!("{BIG}{tier}")).await;
    let tenant = gateway.tenant("1").await;
    let page = gateway.get(&tenant, "/v1/fine_tuning/model_limits").await.json();
    assert_eq!(page["object"], "list");
    assert_eq!(
        page["data"][0],
        json!({
            "object": "fine_tuning.model_limit", "model": "big-2026-08-01", "shared_limit": null,
            "max_requests_per_1_minute": 7, "max_requests_per_1_day": null,
            "max_tokens_per_1_minute": 1000, "max_tokens_per_1_day": null, "batch_queue_tokens": 5,
        })
    );
    let stranger = gateway.send(Method::GET, "/v1/fine_tuning/model_limits", &[], "").await;
    assert_eq!(stranger.status, 401);
}

#[tokio::test]
async fn retired_interfaces_name_their_replacement() {
    // A remix names no model, so it has no price: the operator has opened it.
    let open = "[server]\npass_through = [\"/v1/videos/v/remix\"]\n";
    let (gateway, upstream) = start(&format!("{BIG}{open}")).await;
    let tenant = gateway.tenant("free").await;
    for path in ["/v1/assistants", "/v1/assistants/asst_1", "/v1/threads", "/v1/threads/t/runs/r"] {
        for method in [Method::GET, Method::POST, Method::DELETE] {
            let answer = gateway.with(&tenant, method, path, &[], "").await;
            assert_eq!(answer.error(), (404, "endpoint_retired".into(), String::new()));
            let message = answer.message();
            assert!(message.contains("2026-08-26"), "{message}");
            assert!(message.contains("/v1/responses") && message.contains("/v1/conversations"));
        }
    }
    assert_eq!(upstream.count(), 0);
    let remix = gateway.post(&tenant, "/v1/videos/v/remix", &json!({ "prompt": "x" })).await;
    assert_eq!(remix.status, 200);
    assert!(remix.header("deprecation").starts_with('@'));
    assert_eq!(remix.header("link"), "</v1/videos/edits>; rel=\"successor-version\"");
    assert_eq!(upstream.last().path, "/v1/videos/v/remix");
}

#[tokio::test]
async fn a_reload_keeps_usage_and_moves_an_entry_with_its_alias() {
    let models = "[models.one]\n[models.two]\n";
    let of_alias = |model: &str, rpm: u64| {
        let aliased = models.replace(
            &format!("[models.{model}]\n"),
            &format!("[models.{model}]\naliases = [\"big\"]\n"),
        );
        format!("{aliased}[tiers.free.limits.big]\nrpm = {rpm}\n")
    };
    let upstream = Upstream::start().await;
    let gateway = TestGateway::start(&config(&upstream, &of_alias("one", 10))).await;
    let tenant = gateway.tenant("free").await;
    for left in ["9", "8", "7"] {
        assert_eq!(gateway.chat(&tenant).await.limits("requests")[1], left);
    }
    // A changed limit keeps the usage.
    gateway.reload(&config(&upstream, &of_alias("one", 6)));
    assert_eq!(gateway.chat(&tenant).await.limits("requests")[..2], ["6", "2"]);
    gateway.reload(&config(&upstream, &of_alias("one", 20)));
    assert_eq!(gateway.chat(&tenant).await.limits("requests")[..2], ["20", "15"]);
    // With a re-pointed alias the entry moves, and the usage does not.
    gateway.reload(&config(&upstream, &of_alias("two", 20)));
    assert_eq!(gateway.chat(&tenant).await.limits("requests")[..2], ["20", "19"]);
    assert_eq!(upstream.last().json()["model"], "two");
    let one = gateway.post(&tenant, CHAT, &request_for("one")).await;
    assert_eq!((one.status.as_u16(), one.limits("requests")), (200, ["", "", ""]));
    gateway.reload(&config(&upstream, &of_alias("one", 20)));
    assert_eq!(gateway.chat(&tenant).await.limits("requests")[..2], ["20", "14"]);
    assert!(gateway.log().contains("was reloaded"));
}

#[tokio::test]
async fn limits_survive_a_restart() {
    let upstream = Upstream::start().await;
    let text = config(&upstream, &format!("{BIG}[tiers.free.limits.big]\nrpm = 10\n"));
    let mut gateway = TestGateway::start(&text).await;
    let tenant = gateway.tenant("free").await;
    gateway.hard_limit(&tenant, false, 1000).await;
    for _ in 0..4 {
        gateway.chat(&tenant).await;
    }
    let folder = std::sync::Arc::clone(&gateway.folder);
    gateway.end().await;
    drop(gateway);
    let again = TestGateway::start_in(folder, &text, 2).await;
    let answer = again.post(&tenant, CHAT, &chat_request()).await;
    assert_eq!(answer.limits("requests")[1], "5");
    assert_eq!(again.cost(&tenant.organization).await, 5 * 23);
}
