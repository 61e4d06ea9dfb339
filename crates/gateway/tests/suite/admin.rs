//! The administration, on an embedded file and on a real PostgreSQL.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::common::both_stores::on_both_stores;
use crate::common::node::{NOW, Node, TOKEN, text};
use gateway_policy::tenants::Tier;
use gateway_store::ErrorKind;
use serde_json::{Value, json};

on_both_stores!(
    organizations_rise_by_what_they_pay,
    projects_are_made_changed_and_archived,
    keys_are_shown_once_rotated_and_revoked,
    service_accounts_own_keys,
    admin_keys_open_one_organization,
    rate_limits_stay_below_the_organizations,
    spend_limits_and_alerts_of_both_scopes,
    lists_come_in_pages,
    who_has_no_right_is_refused,
    bad_input_names_its_parameter,
    what_is_not_here_says_so,
    a_change_holds_on_other_nodes_within_a_second,
    changes_of_many_nodes_are_numbered_without_gaps,
);

const PROJECTS: &str = "/v1/organization/projects";

async fn organizations_rise_by_what_they_pay(node: &Node) {
    let made = node.ask("POST /v1/organizations", json!({ "name": "acme" })).await;
    let id = text(&made["id"]);
    let expect = json!({ "object": "organization", "id": id, "name": "acme", "tier": "free",
        "created_at": NOW, "paid_cents": 0 });
    assert_eq!(made, expect);
    let (path, pay) =
        (format!("/v1/organizations/{id}"), format!("POST /v1/organizations/{id}/payments"));
    for (cents, tier) in [(499, "free"), (1, "1"), (4500, "2"), (95_000, "5")] {
        let paid = node.ask(&pay, json!({ "amount_cents": cents })).await;
        assert_eq!(paid["organization"]["tier"], tier, "{paid}");
    }
    let payments = node.ask(&format!("GET {path}/payments"), Value::Null).await;
    assert_eq!(payments["data"].as_array().unwrap().len(), 4);
    assert_eq!(payments["data"][2]["amount_cents"], 4500);
    // A manual tier is a minimum: it raises the tier, and never lowers a paid one.
    node.ask(&format!("POST {path}"), json!({ "tier": "1", "name": "acme 2" })).await;
    let now = node.ask(&format!("GET {path}"), Value::Null).await;
    assert_eq!(
        (&now["tier"], &now["name"], &now["paid_cents"]),
        (&json!("5"), &json!("acme 2"), &json!(100_000))
    );
    let lifted = node.ask("POST /v1/organizations", json!({ "name": "b", "tier": "3" })).await;
    let pay = format!("POST /v1/organizations/{}/payments", text(&lifted["id"]));
    assert_eq!(node.ask(&pay, json!({ "amount_cents": 500 })).await["organization"]["tier"], "3");

    let deleted = node.ask(&format!("DELETE {path}"), Value::Null).await;
    assert_eq!(deleted, json!({ "object": "organization.deleted", "id": id, "deleted": true }));
    node.refused(&format!("GET {path}"), Value::Null, (404, "organization_not_found", None)).await;
    let all = node.ask("GET /v1/organizations", Value::Null).await;
    assert!(all["data"].as_array().unwrap().iter().all(|one| one["id"] != id.as_str()), "{all}");
    let kept = "DELETE /v1/organizations/org-default";
    node.refused(kept, Value::Null, (400, "default_organization", None)).await;
}

async fn projects_are_made_changed_and_archived(node: &Node) {
    let body = json!({ "name": " one ", "geography": "EU" });
    let made = node.ask(&format!("POST {PROJECTS}"), body).await;
    let id = text(&made["id"]);
    let expect = json!({ "object": "organization.project", "id": id, "name": "one",
        "created_at": NOW, "archived_at": null, "status": "active", "geography": "eu",
        "residency": "EU_STORAGE_PROCESSING" });
    assert_eq!(made, expect);
    let (_, key) = node.key(&id).await;
    let caller = node.directory.caller(&key).await.unwrap();
    assert_eq!(caller.project.geography.as_deref(), Some("eu"));
    let path = format!("{PROJECTS}/{id}");
    node.ask(&format!("POST {path}"), json!({ "name": "two", "geography": "global" })).await;
    let caller = node.directory.cached(&key).unwrap().unwrap();
    assert_eq!((&*caller.project.name, &caller.project.geography), ("two", &None));

    let archived = node.ask(&format!("POST {path}/archive"), Value::Null).await;
    assert_eq!((&archived["status"], &archived["archived_at"]), (&json!("archived"), &json!(NOW)));
    assert_eq!(node.directory.caller(&key).await.unwrap_err().kind(), ErrorKind::UnknownKey);
    node.refused(&format!("POST {path}"), json!({ "name": "x" }), (400, "project_archived", None))
        .await;
    node.refused(
        &format!("POST {path}/api_keys"),
        json!({ "name": "x" }),
        (400, "project_archived", None),
    )
    .await;
    let shown = node.ask(&format!("GET {PROJECTS}"), Value::Null).await;
    assert_eq!(shown["data"], json!([]));
    let shown = node.ask(&format!("GET {PROJECTS}?include_archived=true"), Value::Null).await;
    assert_eq!(shown["data"][0]["id"], id.as_str());
}

async fn keys_are_shown_once_rotated_and_revoked(node: &Node) {
    let project = node.project().await;
    let path = format!("{PROJECTS}/{project}/api_keys");
    let body = json!({ "name": "k", "expires_in_seconds": 100 });
    let made = node.ask(&format!("POST {path}"), body).await;
    let (id, value) = (text(&made["id"]), text(&made["value"]));
    assert!(value.starts_with("sk-proj-") && made["expires_at"] == NOW + 100, "{made}");
    let shown = node.ask(&format!("GET {path}/{id}"), Value::Null).await;
    let redacted = text(&shown["redacted_value"]);
    assert!(shown.get("value").is_none() && value.ends_with(&redacted[redacted.len() - 4..]));
    assert!(!redacted.contains(&value[10..20]), "{redacted}");
    node.directory.caller(&value).await.unwrap();
    node.directory.write_last_used().await.unwrap();
    let listed = node.ask(&format!("GET {path}"), Value::Null).await;
    assert_eq!(listed["data"][0]["last_used_at"], NOW);
    assert_eq!(listed["data"][0]["object"], "organization.project.api_key");

    let rotated =
        node.ask(&format!("POST {path}/{id}/rotate"), json!({ "grace_seconds": 10 })).await;
    let new = text(&rotated["value"]);
    assert_eq!((&rotated["name"], &rotated["expires_at"]), (&json!("k"), &json!(NOW + 100)));
    node.directory.caller(&value).await.unwrap();
    node.sources.0.fetch_add(10_000_000, Ordering::Relaxed);
    assert_eq!(node.directory.caller(&value).await.unwrap_err().kind(), ErrorKind::UnknownKey);
    node.directory.caller(&new).await.unwrap();
    let at_once =
        node.ask(&format!("POST {path}/{}/rotate", text(&rotated["id"])), Value::Null).await;
    assert_eq!(node.directory.caller(&new).await.unwrap_err().kind(), ErrorKind::UnknownKey);
    let (id, value) = (text(&at_once["id"]), text(&at_once["value"]));
    node.directory.caller(&value).await.unwrap();
    node.ask(&format!("POST {path}/{id}"), json!({ "expires_in_seconds": 500 })).await;
    let deleted = node.ask(&format!("DELETE {path}/{id}"), Value::Null).await;
    assert_eq!(deleted["object"], "organization.project.api_key.deleted");
    assert_eq!(node.directory.caller(&value).await.unwrap_err().kind(), ErrorKind::UnknownKey);
    node.refused(&format!("DELETE {path}/{id}"), Value::Null, (404, "not_found", None)).await;
    let other = node.project().await;
    let (id, _) = node.key(&other).await;
    node.refused(&format!("GET {path}/{id}"), Value::Null, (404, "not_found", None)).await;
}

async fn service_accounts_own_keys(node: &Node) {
    let project = node.project().await;
    let path = format!("{PROJECTS}/{project}/service_accounts");
    let made = node.ask(&format!("POST {path}"), json!({ "name": "bot" })).await;
    let (id, value) = (text(&made["id"]), text(&made["api_key"]["value"]));
    assert_eq!((&made["role"], value.starts_with("sk-svcacct-")), (&json!("member"), true));
    let second = node.ask(&format!("POST {path}/{id}/api_keys"), json!({ "name": "second" })).await;
    assert_eq!(second["object"], "organization.project.service_account.api_key");
    let second = text(&second["value"]);
    node.directory.caller(&value).await.unwrap();
    node.directory.caller(&second).await.unwrap();
    let keys = node.ask(&format!("GET {PROJECTS}/{project}/api_keys"), Value::Null).await;
    assert_eq!(keys["data"][1]["owner"]["service_account"]["name"], "bot");
    node.ask(&format!("POST {path}/{id}"), json!({ "name": "robot", "role": "owner" })).await;
    assert_eq!(node.ask(&format!("GET {path}/{id}"), Value::Null).await["name"], "robot");
    let deleted = node.ask(&format!("DELETE {path}/{id}"), Value::Null).await;
    assert_eq!(deleted["deleted"], true);
    for text in [value, second] {
        assert_eq!(node.directory.caller(&text).await.unwrap_err().kind(), ErrorKind::UnknownKey);
    }
    let body = json!({ "name": "only", "create_service_account_only": true });
    let only = node.ask(&format!("POST {path}"), body).await;
    assert_eq!((&only["role"], &only["api_key"]), (&json!("none"), &Value::Null));
}

async fn admin_keys_open_one_organization(node: &Node) {
    let acme = node.ask("POST /v1/organizations", json!({ "name": "acme" })).await;
    let acme = text(&acme["id"]);
    let keys = "/v1/organization/admin_api_keys";
    let body = json!({ "name": "boss" });
    let made = node.call_as(&format!("POST {keys}"), TOKEN, Some(&acme), body).await.1;
    let (id, value) = (text(&made["id"]), text(&made["value"]));
    assert_eq!(made["object"], "organization.admin_api_key");
    let body = json!({ "name": "theirs" });
    let (status, project) = node.call(&format!("POST {PROJECTS}"), &value, body).await;
    assert_eq!(status, 200, "{project}");
    let path = format!("GET {PROJECTS}/{}", text(&project["id"]));
    node.refused(&path, Value::Null, (404, "not_found", None)).await;
    assert_eq!(node.call_as(&path, TOKEN, Some(&acme), Value::Null).await.0, 200);

    let other = Some("org-default");
    let (status, refused) = node.call_as(&path, &value, other, Value::Null).await;
    assert_eq!((status, &refused["error"]["code"]), (401, &json!("mismatched_organization")));
    for what in [
        "GET /v1/organizations",
        "GET /v1/organizations/org-default",
        &format!("DELETE /v1/organizations/{acme}"),
        &format!("POST /v1/organizations/{acme}/payments"),
    ] {
        let (status, refused) = node.call(what, &value, json!({ "amount_cents": 1 })).await;
        let code = &refused["error"]["code"];
        assert_eq!((status, code), (403, &json!("insufficient_permissions")), "{what}");
    }
    let (status, own) =
        node.call(&format!("GET /v1/organizations/{acme}"), &value, Value::Null).await;
    assert_eq!((status, &own["name"]), (200, &json!("acme")));
    let shown = node.call(&format!("GET {keys}/{id}"), &value, Value::Null).await.1;
    assert_eq!((shown.get("value"), &shown["last_used_at"]), (None, &json!(NOW)));
    node.call(&format!("DELETE {keys}/{id}"), &value, Value::Null).await;
    assert_eq!(node.call(&path, &value, Value::Null).await.0, 401);
}

async fn rate_limits_stay_below_the_organizations(node: &Node) {
    let project = node.project().await;
    let (_, key) = node.key(&project).await;
    node.directory.caller(&key).await.unwrap();
    let path = format!("{PROJECTS}/{project}/rate_limits");
    let listed = node.ask(&format!("GET {path}"), Value::Null).await;
    let ids: Vec<_> = listed["data"].as_array().unwrap().iter().map(|one| &one["id"]).collect();
    assert_eq!(ids, ["rl-big-2026-08-01", "rl-other-1", "rl-small"]);
    let expect = json!({ "object": "project.rate_limit", "id": "rl-big-2026-08-01",
        "model": "big-2026-08-01", "max_requests_per_1_minute": 3,
        "max_tokens_per_1_minute": 30_000, "max_images_per_1_minute": 5 });
    assert_eq!(listed["data"][0], expect);
    let body = json!({ "max_tokens_per_1_minute": 1000, "max_audio_minutes_per_1_minute": 7,
        "max_audio_megabytes_per_1_minute": 9 });
    let set = node.ask(&format!("POST {path}/rl-big"), body).await;
    assert_eq!((&set["id"], &set["max_tokens_per_1_minute"]), (&json!("rl-big"), &json!(1000)));
    node.ask(&format!("POST {path}/rl-big-2026-08-01"), json!({ "max_requests_per_1_minute": 2 }))
        .await;
    let limits = &node.directory.cached(&key).unwrap().unwrap().project.limits;
    assert_eq!(limits.len(), 1, "a model has one entry");
    let limits = &limits["big"];
    assert_eq!(
        (limits.max_tokens_per_1_minute, limits.max_requests_per_1_minute),
        (Some(1000), Some(2))
    );
    let listed = node.ask(&format!("GET {path}?limit=1"), Value::Null).await;
    assert_eq!(listed["data"][0]["max_audio_minutes_per_1_minute"], 7);
    assert_eq!(
        (&listed["has_more"], &listed["last_id"]),
        (&json!(true), &json!("rl-big-2026-08-01"))
    );
    let rest = node.ask(&format!("GET {path}?after=rl-big-2026-08-01"), Value::Null).await;
    assert_eq!(rest["data"].as_array().unwrap().len(), 2);
    let back = node.ask(&format!("GET {path}?before=rl-small&limit=1"), Value::Null).await;
    assert_eq!(back["data"][0]["id"], "rl-other-1");

    let post = format!("POST {path}/rl-big");
    for (body, param) in [
        (json!({ "max_tokens_per_1_minute": 30_001 }), "max_tokens_per_1_minute"),
        (json!({ "max_requests_per_1_minute": 0 }), "max_requests_per_1_minute"),
        (json!({ "max_images_per_1_minute": -1 }), "max_images_per_1_minute"),
        (json!({ "max_requests_per_1_day": 1.5 }), "max_requests_per_1_day"),
    ] {
        node.refused(&post, body, (400, "invalid_value", Some(param))).await;
    }
    let unknown = format!("POST {path}/rl-none");
    let body = json!({ "max_tokens_per_1_minute": 1 });
    node.refused(&unknown, body, (404, "not_found", None)).await;
}

async fn spend_limits_and_alerts_of_both_scopes(node: &Node) {
    let project = node.project().await;
    let (_, key) = node.key(&project).await;
    node.directory.caller(&key).await.unwrap();
    let of_project = format!("{PROJECTS}/{project}");
    let terms =
        |cents: u64| json!({ "currency": "USD", "interval": "month", "threshold_amount": cents });
    for (base, of) in [("/v1/organization", "organization"), (&*of_project, "project")] {
        let path = format!("{base}/spend_limit");
        node.refused(&format!("GET {path}"), Value::Null, (404, "not_found", None)).await;
        let set = node.ask(&format!("POST {path}"), terms(5)).await;
        // The spend in the organization's round is also the project's.
        let status = if of == "project" { "enforcing" } else { "inactive" };
        let expect = json!({ "object": format!("{of}.spend_limit"), "currency": "USD",
            "interval": "month", "threshold_amount": 5, "enforcement": { "status": status } });
        assert_eq!(set, expect);
        let caller = node.directory.cached(&key).unwrap().unwrap();
        let (organization, project) = (caller.organization.spend.hard, caller.project.spend.hard);
        let now = if of == "project" { project } else { organization };
        assert_eq!(now, Some(50_000));
        node.ledger.record(entry(&project_entry(&caller), 50_000));
        node.ledger.flush(Duration::from_secs(20)).await.unwrap();
        let shown = node.ask(&format!("GET {path}"), Value::Null).await;
        assert_eq!(shown["enforcement"]["status"], "enforcing");

        let alerts = format!("{base}/spend_alerts");
        let mut body = terms(3);
        body["notification_channel"] = json!({ "type": "email", "recipients": [] });
        let made = node.ask(&format!("POST {alerts}"), body.clone()).await;
        assert_eq!(made["object"], format!("{of}.spend_alert"));
        assert_eq!(made["notification_channel"]["recipients"], json!([]));
        let one = format!("{alerts}/{}", text(&made["id"]));
        body["threshold_amount"] = json!(4);
        node.ask(&format!("POST {one}"), body).await;
        let listed = node.ask(&format!("GET {alerts}"), Value::Null).await;
        assert_eq!(listed["data"][0]["threshold_amount"], 4);
        let caller = node.directory.cached(&key).unwrap().unwrap();
        let spend =
            if of == "project" { &caller.project.spend } else { &caller.organization.spend };
        assert_eq!(spend.alerts[0].threshold, 40_000);
        assert_eq!(node.ask(&format!("DELETE {one}"), Value::Null).await["deleted"], true);
        let gone = node.ask(&format!("DELETE {path}"), Value::Null).await;
        assert_eq!(gone, json!({ "object": format!("{of}.spend_limit.deleted"), "deleted": true }));
        let post = format!("POST {path}");
        for (body, param) in [
            (json!({ "currency": "EUR", "interval": "month", "threshold_amount": 1 }), "currency"),
            (json!({ "currency": "USD", "interval": "day", "threshold_amount": 1 }), "interval"),
            (terms(u64::MAX), "threshold_amount"),
        ] {
            node.refused(&post, body, (400, "invalid_value", Some(param))).await;
        }
    }
    let caller = node.directory.cached(&key).unwrap().unwrap();
    assert_eq!((caller.organization.spend.hard, caller.project.spend.hard), (None, None));
}

fn project_entry(caller: &gateway_policy::tenants::Caller) -> (String, String, String) {
    (caller.organization.id.to_string(), caller.project.id.to_string(), caller.key.to_string())
}

fn entry(
    (organization, project, key): &(String, String, String),
    cost: u64,
) -> gateway_store::ledger::Entry {
    gateway_store::ledger::Entry {
        at: NOW * 1_000_000,
        request: "req_1".into(),
        organization: organization.as_str().into(),
        project: project.as_str().into(),
        key: key.as_str().into(),
        model: "big-2026-08-01".into(),
        backend: "main".into(),
        endpoint: gateway_store::ledger::Endpoint::Completions,
        status: 200,
        ended: gateway_store::ledger::Ended::Complete,
        batch: false,
        input_tokens: 1,
        cached_tokens: 0,
        cache_write_tokens: 0,
        cache_write_1h_tokens: 0,
        output_tokens: 1,
        web_searches: 0,
        images: 0,
        audio_milliseconds: 0,
        cost,
    }
}

async fn lists_come_in_pages(node: &Node) {
    let mut made = Vec::new();
    for _ in 0..5 {
        node.sources.0.fetch_add(1000, Ordering::Relaxed);
        made.push(node.project().await);
    }
    let ids = |list: &Value| -> Vec<String> {
        list["data"].as_array().unwrap().iter().map(|one| text(&one["id"])).collect()
    };
    let first = node.ask(&format!("GET {PROJECTS}?limit=2"), Value::Null).await;
    assert_eq!((ids(&first), &first["has_more"]), (made[..2].to_vec(), &json!(true)));
    assert_eq!(
        (text(&first["first_id"]), text(&first["last_id"])),
        (made[0].clone(), made[1].clone())
    );
    let path = format!("GET {PROJECTS}?limit=3&after={}", made[1]);
    let rest = node.ask(&path, Value::Null).await;
    assert_eq!((ids(&rest), &rest["has_more"]), (made[2..].to_vec(), &json!(false)));
    let last = node.ask(&format!("GET {PROJECTS}?limit=1&order=desc"), Value::Null).await;
    assert_eq!(ids(&last), made[4..]);
    let before = node.ask(&format!("GET {PROJECTS}?limit=2&before={}", made[4]), Value::Null).await;
    assert_eq!(ids(&before), made[2..4]);
    let none = node.ask(&format!("GET {PROJECTS}?after={}", made[4]), Value::Null).await;
    let expect = json!({ "object": "list", "data": [], "first_id": null, "last_id": null,
        "has_more": false });
    assert_eq!(none, expect);
}

async fn who_has_no_right_is_refused(node: &Node) {
    let project = node.project().await;
    let (_, key) = node.key(&project).await;
    for token in ["", "wrong", &key, "admin-token-of-the-test", "sk-admin-abc"] {
        for what in [
            "GET /v1/organizations",
            "POST /v1/organizations",
            "GET /v1/organization/projects",
            "GET /v1/organization/usage/export?format=csv&start_time=0",
            "GET /v1/organization/nothing",
        ] {
            let (status, refused) = node.call(what, token, Value::Null).await;
            let code = &refused["error"]["code"];
            assert_eq!((status, code), (401, &json!("invalid_api_key")), "{what} {token}");
        }
    }
}

async fn bad_input_names_its_parameter(node: &Node) {
    let post = format!("POST {PROJECTS}");
    let missing = (400, "missing_required_parameter", Some("name"));
    node.refused(&post, Value::Null, missing).await;
    node.refused(&post, json!({ "name": null }), missing).await;
    for name in [json!(1), json!(""), json!("  "), json!("a\u{0}b"), json!("x".repeat(257))] {
        node.refused(&post, json!({ "name": name }), (400, "invalid_value", Some("name"))).await;
    }
    let body = json!({ "name": "a", "geography": "mars" });
    node.refused(&post, body, (400, "invalid_value", Some("geography"))).await;
    let body = json!({ "name": "a", "colour": "red" });
    node.refused(&post, body, (400, "unknown_parameter", Some("colour"))).await;
    let organizations = "POST /v1/organizations";
    for tier in [json!("6"), json!(-1), json!({}), json!("Free")] {
        let body = json!({ "name": "a", "tier": tier });
        node.refused(organizations, body, (400, "invalid_value", Some("tier"))).await;
    }
    for (query, param) in [
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("limit=x", "limit"),
        ("limit=1&limit=2", "limit"),
        ("order=up", "order"),
        ("after=a&before=b", "before"),
        ("include_archived=1", "include_archived"),
    ] {
        let path = format!("GET {PROJECTS}?{query}");
        node.refused(&path, Value::Null, (400, "invalid_value", Some(param))).await;
    }
    let path = format!("GET {PROJECTS}?x=1");
    node.refused(&path, Value::Null, (400, "unknown_parameter", Some("x"))).await;
    let retention = "POST /v1/organization/data_retention";
    let body = json!({ "retention_type": "modified_abuse_monitoring" });
    node.refused(retention, body, (400, "invalid_value", Some("retention_type"))).await;
    let body = json!({ "retention_type": "zero_data_retention" });
    assert_eq!(node.ask(retention, body).await["type"], "zero_data_retention");
    let shown = node.ask("GET /v1/organization/data_retention", Value::Null).await;
    assert_eq!(
        shown,
        json!({ "object": "organization.data_retention", "type": "zero_data_retention" })
    );
    for body in [
        "{",
        "[]",
        "\"a\"",
        "{\"name\":\"a\",\"name\":\"b\"}",
        "{\"na\\u006de\":\"a\",\"name\":\"b\"}",
        "\u{1}",
    ] {
        let request = hyper::Request::post(PROJECTS)
            .header("authorization", format!("Bearer {TOKEN}"))
            .body(axum::body::Body::from(body))
            .unwrap();
        let (status, answer) = node.send(request).await;
        assert_eq!(status, 400, "{body}");
        assert!(answer.windows(12).any(|part| part == b"invalid_json"), "{body}: {answer:?}");
    }
    let request = hyper::Request::post(PROJECTS)
        .header("authorization", format!("Bearer {TOKEN}"))
        .body(axum::body::Body::from(vec![b' '; 300 << 10]))
        .unwrap();
    assert_eq!(node.send(request).await.0, 413);
    let ids = ["%00", "a%27b", "..%2f..", "%ff%fe", &"x".repeat(4000)];
    for id in ids {
        let path = format!("GET {PROJECTS}/{id}");
        let (status, answer) = node.call(&path, TOKEN, Value::Null).await;
        assert!(status == 404 || status == 400, "{id}: {status} {answer}");
    }
}

async fn what_is_not_here_says_so(node: &Node) {
    for what in [
        "GET /v1/organization/users",
        "GET /v1/organization/invites",
        "POST /v1/organization/certificates",
        "GET /v1/organization/usage/web_search_calls?start_time=0",
        "GET /v1/organization/projects/p/users",
    ] {
        node.refused(what, Value::Null, (404, "unknown_url", None)).await;
    }
    let put = "PUT /v1/organization/projects";
    node.refused(put, Value::Null, (405, "method_not_allowed", None)).await;
    let path = "GET /v1/organization/projects";
    let (status, answer) = node.call_as(path, TOKEN, Some("org-none"), Value::Null).await;
    assert_eq!((status, &answer["error"]["code"]), (404, &json!("organization_not_found")));
}

async fn a_change_holds_on_other_nodes_within_a_second(node: &Node) {
    let other = node.another().await;
    let project = node.project().await;
    let (id, key) = node.key(&project).await;
    let (_, lasting) = node.key(&project).await;
    other.directory.caller(&key).await.unwrap();
    other.directory.caller(&lasting).await.unwrap();
    node.ask("POST /v1/organizations/org-default/payments", json!({ "amount_cents": 5000 })).await;
    soon(|| {
        let caller = other.directory.cached(&lasting).unwrap().unwrap();
        caller.organization.tier == Tier::Two
    })
    .await;
    node.ask(&format!("DELETE {PROJECTS}/{project}/api_keys/{id}"), Value::Null).await;
    soon(|| other.directory.cached(&key).is_none()).await;
    assert_eq!(other.directory.caller(&key).await.unwrap_err().kind(), ErrorKind::UnknownKey);
    node.ask(&format!("POST {PROJECTS}/{project}/archive"), Value::Null).await;
    soon(|| other.directory.cached(&lasting).is_some_and(|caller| caller.is_err())).await;
}

async fn soon(look: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(1);
    while !look() {
        assert!(Instant::now() < until, "it took longer than a second");
        tokio::time::sleep(Duration::from_millis(5)).await; // tidy: sleep another node's poll
    }
}

async fn changes_of_many_nodes_are_numbered_without_gaps(node: &Node) {
    use gateway_store::records::changes;
    let other = node.another().await;
    let mut last = changes::behind(&node.database, 0, 1000).await.unwrap().last;
    let change = |on: &Node, id: usize| {
        let change = changes::Change::Project(format!("proj_{id}").into());
        let database = std::sync::Arc::clone(&on.database);
        async move { database.transact(changes::announce(&change, 0).into()).await.unwrap() }
    };
    let writers = futures_util::future::join_all(
        (0..60).map(|id| if id % 2 == 0 { change(node, id) } else { change(&other, id) }),
    );
    let reader = async {
        let mut seen = 0;
        while seen < 60 {
            for (sequence, _) in changes::behind(&node.database, last, 1000).await.unwrap().changes
            {
                assert_eq!(sequence, last + 1, "a number appeared before the one before it");
                last = sequence;
                seen += 1;
            }
        }
    };
    tokio::join!(writers, reader);
}
