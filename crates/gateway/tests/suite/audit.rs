//! The audit log: each act of an administrator leaves one row, in the transaction of its change.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use gateway_store::database::Statement;
use gateway_store::records::DEFAULT_ORGANIZATION;
use hyper::Method;
use serde_json::{Value, json};

use crate::common::both_stores::on_both_stores;
use crate::common::node::{NOW, Node, TOKEN, text};

on_both_stores!(
    each_route_that_changes_something_leaves_one_row,
    a_change_whose_row_cannot_be_written_is_not_made,
    acts_that_are_refused_leave_no_row,
    rows_cannot_be_changed,
    lists_are_filtered_and_come_in_pages,
    exports_have_all_rows_once,
    concurrent_changes_are_recorded_as_they_follow_each_other,
    payments_are_corrected_with_a_reason,
);

const LOGS: &str = "GET /v1/organization/audit_logs";

async fn rows(node: &Node, query: &str) -> Vec<Value> {
    let listed = node.ask(&format!("{LOGS}?limit=100&{query}"), Value::Null).await;
    assert_eq!(listed["object"], "list");
    listed["data"].as_array().unwrap().clone()
}

/// A credential in a row.
fn key(id: &str) -> Value {
    json!({ "id": id, "type": "service_account", "service_account": { "id": id }, "user": null })
}

/// Number of all rows of the store.
async fn stored(node: &Node) -> i64 {
    let count = Statement::new("SELECT COUNT(*) FROM audit_logs", []);
    node.database.query(count).await.unwrap()[0].integer(0).unwrap()
}

/// The objects that the calls of the test are about.
struct Objects {
    organization: String,
    project: String,
    archived: String,
    key: String,
    rotated: String,
    admin_key: String,
    account: String,
    organization_alert: String,
    project_alert: String,
}

impl Objects {
    async fn new(node: &Node) -> Self {
        let id = |answer: Value| text(&answer["id"]);
        let project = node.project().await;
        let base = format!("POST /v1/organization/projects/{project}");
        let limit = money();
        let made = node.ask("POST /v1/organizations", json!({ "name": "acme" })).await;
        let name = json!({ "name": "x" });
        Self {
            organization: id(made),
            archived: node.project().await,
            key: node.key(&project).await.0,
            rotated: node.key(&project).await.0,
            admin_key: id(node.ask("POST /v1/organization/admin_api_keys", name.clone()).await),
            account: id(node.ask(&format!("{base}/service_accounts"), name).await),
            organization_alert: id(node.ask("POST /v1/organization/spend_alerts", money()).await),
            project_alert: id(node.ask(&format!("{base}/spend_alerts"), limit).await),
            project,
        }
    }
}

fn money() -> Value {
    json!({ "currency": "USD", "interval": "month", "threshold_amount": 1000 })
}

/// A call of a route: the path, the body, and the type of the row that it leaves.
fn call(objects: &Objects, method: &Method, route: &str) -> (String, Value, &'static str) {
    let (rest, base) = match route.strip_prefix("/v1/organization/projects/{p}") {
        Some(rest) => (rest, format!("/v1/organization/projects/{}", objects.project)),
        None => (route, String::new()),
    };
    let name = || json!({ "name": "another" });
    let models = || json!({ "mode": "allow_list", "model_ids": ["small"] });
    let in_project = !base.is_empty();
    let named = |id: &str| format!("{base}{}", rest.replace("{id}", id));
    let alert = if in_project { &objects.project_alert } else { &objects.organization_alert };
    let (path, body, kind) = match (method.as_str(), rest) {
        ("POST", "/v1/organizations") => (named(""), name(), "organization.created"),
        ("POST", "/v1/organizations/{id}") => {
            (named(&objects.organization), name(), "organization.updated")
        }
        ("POST", "/v1/organizations/{id}/payments") => {
            let body = json!({ "amount_cents": 500 });
            (named(&objects.organization), body, "payment.created")
        }
        ("DELETE", "/v1/organizations/{id}") => {
            (named(&objects.organization), Value::Null, "organization.deleted")
        }
        ("POST", "/v1/organization/data_retention") => {
            let body = json!({ "retention_type": "zero_data_retention" });
            (named(""), body, "data_retention.updated")
        }
        ("POST", "/v1/organization/admin_api_keys") => (named(""), name(), "admin_api_key.created"),
        ("DELETE", "/v1/organization/admin_api_keys/{id}") => {
            (named(&objects.admin_key), Value::Null, "admin_api_key.deleted")
        }
        ("POST", "/v1/organization/projects") => (named(""), name(), "project.created"),
        ("POST", "") if in_project => (named(""), name(), "project.updated"),
        ("POST", "/archive") => {
            let path = format!("/v1/organization/projects/{}/archive", objects.archived);
            (path, Value::Null, "project.archived")
        }
        ("POST", "/model_permissions") => {
            (named(""), models(), "project.model_permissions.updated")
        }
        ("DELETE", "/model_permissions") => {
            (named(""), Value::Null, "project.model_permissions.updated")
        }
        ("POST", "/rate_limits/{id}") => {
            let body = json!({ "max_requests_per_1_minute": 2 });
            (named("rl-big-2026-08-01"), body, "rate_limit.updated")
        }
        ("POST", "/api_keys") => (named(""), name(), "api_key.created"),
        ("POST", "/api_keys/{id}") => {
            (named(&objects.key), json!({ "expires_in_seconds": 900 }), "api_key.updated")
        }
        ("POST", "/api_keys/{id}/rotate") => {
            (named(&objects.rotated), json!({ "grace_seconds": 60 }), "api_key.rotated")
        }
        ("POST", "/api_keys/{id}/model_permissions") => {
            (named(&objects.key), models(), "api_key.model_permissions.updated")
        }
        ("DELETE", "/api_keys/{id}/model_permissions") => {
            (named(&objects.key), Value::Null, "api_key.model_permissions.updated")
        }
        ("DELETE", "/api_keys/{id}") => (named(&objects.key), Value::Null, "api_key.deleted"),
        ("POST", "/service_accounts") => (named(""), name(), "service_account.created"),
        ("POST", "/service_accounts/{id}") => {
            (named(&objects.account), name(), "service_account.updated")
        }
        ("POST", "/service_accounts/{id}/api_keys") => {
            (named(&objects.account), name(), "api_key.created")
        }
        ("DELETE", "/service_accounts/{id}") => {
            (named(&objects.account), Value::Null, "service_account.deleted")
        }
        ("POST", "/spend_limit" | "/v1/organization/spend_limit") => {
            (named(""), money(), "spend_limit.updated")
        }
        ("DELETE", "/spend_limit" | "/v1/organization/spend_limit") => {
            (named(""), Value::Null, "spend_limit.deleted")
        }
        ("POST", "/spend_alerts" | "/v1/organization/spend_alerts") => {
            (named(""), money(), "spend_alert.created")
        }
        ("POST", "/spend_alerts/{id}" | "/v1/organization/spend_alerts/{id}") => {
            let body = json!({ "currency": "USD", "interval": "month", "threshold_amount": 5 });
            (named(alert), body, "spend_alert.updated")
        }
        ("DELETE", "/spend_alerts/{id}" | "/v1/organization/spend_alerts/{id}") => {
            (named(alert), Value::Null, "spend_alert.deleted")
        }
        _ => panic!("{method} {route} changes something: add a call of it to this test"),
    };
    (format!("{method} {path}"), body, kind)
}

async fn each_route_that_changes_something_leaves_one_row(node: &Node) {
    let objects = Objects::new(node).await;
    let mut routes = gateway_admin::routes();
    routes.retain(|(method, _)| *method != Method::GET);
    // Deletions last, and of these the ones of a part before the ones of its whole.
    routes.sort_by_key(|(method, path)| (*method == Method::DELETE, Reverse(path.len())));
    assert!(routes.len() > 25, "{routes:?}");
    let mut secrets = Vec::new();
    for (method, route) in routes {
        let (what, body, kind) = call(&objects, &method, &route);
        let before = stored(node).await;
        let answer = node.ask(&what, body).await;
        assert_eq!(stored(node).await, before + 1, "{what}");
        secrets.extend(answer["value"].as_str().map(ToOwned::to_owned));
        secrets.extend(answer["api_key"]["value"].as_str().map(ToOwned::to_owned));
        let organization = match route.starts_with("/v1/organizations") {
            true if kind == "organization.created" => text(&answer["id"]),
            true => objects.organization.clone(),
            false => DEFAULT_ORGANIZATION.to_owned(),
        };
        let query = format!("{LOGS}?limit=1");
        let (status, listed) = node.call_as(&query, TOKEN, Some(&organization), Value::Null).await;
        assert_eq!(status, 200, "{listed}");
        let row = &listed["data"][0];
        assert_eq!((&row["type"], &row["effective_at"]), (&json!(kind), &json!(NOW)), "{what}");
        let actor = &row["actor"];
        assert_eq!((&actor["type"], &actor["api_key"]), (&json!("api_key"), &key("admin_token")));
        let is_new = kind.ends_with("created");
        let is_gone = kind.ends_with("deleted") && kind != "spend_limit.deleted";
        let is_first_limit = kind == "rate_limit.updated";
        let is_payment = kind.starts_with("payment.");
        assert_eq!(row["before"].is_null(), (is_new && !is_payment) || is_first_limit, "{row}");
        assert_eq!(row["after"].is_null(), is_gone, "{row}");
        assert_ne!(row["before"], row["after"], "{row}");
        let scoped = route.contains("{p}") || kind == "project.created";
        assert_eq!(row.get("project").is_some(), scoped, "{row}");
        assert!(!text(&row[kind]["id"]).is_empty(), "{row}");
    }
    // No row has a secret.
    let all = Statement::new(
        "SELECT COALESCE(value_before, '') || COALESCE(value_after, '') FROM audit_logs",
        [],
    );
    let all = node.database.query(all).await.unwrap();
    assert!(secrets.len() > 4);
    for row in all {
        let shown = row.text(0).unwrap();
        assert!(secrets.iter().all(|secret| !shown.contains(&**secret)), "{shown}");
    }
}

async fn a_change_whose_row_cannot_be_written_is_not_made(node: &Node) {
    let objects = Objects::new(node).await;
    let limit = format!("POST /v1/organization/projects/{}/spend_limit", objects.project);
    node.ask(&limit, money()).await;
    node.ask("POST /v1/organization/spend_limit", money()).await;
    let before = contents(node).await;
    let rename =
        |from, to| Statement::composed(format!("ALTER TABLE {from} RENAME TO {to}"), vec![]);
    node.database.transact(vec![rename("audit_logs", "elsewhere")]).await.unwrap();
    for (method, route) in gateway_admin::routes() {
        if method == Method::GET {
            continue;
        }
        let (what, body, _) = call(&objects, &method, &route);
        let (status, answer) = node.call(&what, TOKEN, body).await;
        assert!(status >= 500, "{what}: {status} {answer}");
        assert!(answer.get("value").is_none(), "{what}: {answer}");
    }
    node.database.transact(vec![rename("elsewhere", "audit_logs")]).await.unwrap();
    assert_eq!(contents(node).await, before);
    node.ask(&limit, money()).await;
}

/// All rows that administrators change.
async fn contents(node: &Node) -> Vec<String> {
    let mut all = Vec::new();
    for table in [
        "organizations",
        "payments",
        "projects",
        "project_limits",
        "spend_alerts",
        "service_accounts",
        "keys",
        "admin_keys",
        "changes",
    ] {
        let rows = Statement::composed(format!("SELECT * FROM {table}"), vec![]);
        let rows = node.database.query(rows).await.unwrap();
        all.extend(rows.iter().map(|row| format!("{table} {row:?}")));
    }
    all.sort();
    all
}

async fn acts_that_are_refused_leave_no_row(node: &Node) {
    let other = node.ask("POST /v1/organizations", json!({ "name": "other" })).await;
    let (id, mine) = (text(&other["id"]), json!({ "name": "mine" }));
    let key = node.ask("POST /v1/organization/admin_api_keys", mine.clone()).await;
    let (project, before) = (node.project().await, stored(node).await + 1);
    let mine = text(&key["value"]);
    let path = format!("/v1/organization/projects/{project}");
    let none = Value::Null;
    for (what, token, body, expected) in [
        (format!("POST /v1/organizations/{id}"), &*mine, json!({ "name": "x" }), 403),
        (format!("POST /v1/organizations/{id}/payments"), &mine, json!({ "amount_cents": 1 }), 403),
        ("POST /v1/organization/projects".to_owned(), "wrong", json!({ "name": "x" }), 401),
        (format!("POST {path}"), TOKEN, json!({ "name": 7 }), 400),
        (format!("DELETE {path}/api_keys/key_unknown"), TOKEN, none.clone(), 404),
        (format!("DELETE {path}/spend_limit"), TOKEN, none.clone(), 404),
        (format!("DELETE {path}/service_accounts/svc_x"), TOKEN, none.clone(), 404),
        ("DELETE /v1/organizations/org-default".to_owned(), TOKEN, none.clone(), 400),
        (format!("POST {path}/api_keys/key_unknown/rotate"), TOKEN, none.clone(), 404),
        (LOGS.to_owned(), "wrong", none.clone(), 401),
    ] {
        let (status, answer) = node.call(&what, token, body).await;
        assert_eq!(status, expected, "{what}: {answer}");
    }
    let named = node.call_as(LOGS, &mine, Some(&id), none.clone()).await;
    assert_eq!(named.0, 401, "an admin key reads its own organization's log only");
    assert_eq!(stored(node).await, before - 1);
    // An act of an admin key has its id.
    let (status, _) = node.call(&format!("POST {path}"), &mine, json!({ "name": "y" })).await;
    assert_eq!((status, stored(node).await), (200, before));
    let actor = &rows(node, "event_types[]=project.updated").await[0]["actor"];
    assert_eq!(actor["api_key"], self::key(&text(&key["id"])));
    // The log of an organization that has ended stays for the admin token.
    node.ask(&format!("DELETE /v1/organizations/{id}"), none.clone()).await;
    let (status, ended) = node.call_as(LOGS, TOKEN, Some(&id), none.clone()).await;
    assert_eq!((status, &ended["data"][0]["type"]), (200, &json!("organization.deleted")));
    let unknown = node.call_as(LOGS, TOKEN, Some("org-none"), none).await;
    assert_eq!(unknown.0, 404);
}

async fn rows_cannot_be_changed(node: &Node) {
    let before = stored(node).await;
    assert!(before > 0, "the first start is recorded");
    let first = &rows(node, "event_types[]=organization.created").await[0];
    assert_eq!(first["actor"]["api_key"], key("gateway"));
    assert_eq!((&first["actor"]["ip_address"], &first["before"]), (&Value::Null, &Value::Null));
    for sql in [
        "UPDATE audit_logs SET actor = 'somebody else'",
        "DELETE FROM audit_logs",
        "DELETE FROM audit_logs WHERE at >= 0",
    ] {
        assert!(node.database.transact(vec![Statement::new(sql, [])]).await.is_err(), "{sql}");
    }
    assert_eq!(stored(node).await, before);
    // Another node on the same store starts no organization, and invents no row.
    node.another().await;
    assert_eq!(stored(node).await, before);
}

async fn lists_are_filtered_and_come_in_pages(node: &Node) {
    let project = node.project().await;
    node.sources.0.fetch_add(10_000_000, std::sync::atomic::Ordering::Relaxed);
    let (key, _) = node.key(&project).await;
    let kinds = |rows: &[Value]| -> Vec<String> { rows.iter().map(|r| text(&r["type"])).collect() };
    let later = NOW + 10;
    for (query, expected) in [
        (String::new(), 3),
        (format!("effective_at[gte]={later}"), 1),
        (format!("effective_at[gt]={later}"), 0),
        (format!("effective_at[lt]={later}"), 2),
        (format!("effective_at[lte]={later}&effective_at[gt]={NOW}"), 1),
        (format!("project_ids[]={project}"), 2),
        ("project_ids[]=proj_none".to_owned(), 0),
        (format!("resource_ids[]={key}&resource_ids[]={project}"), 2),
        ("event_types[]=api_key.created&event_types[]=project.created".to_owned(), 2),
        ("event_types[]=invite.sent".to_owned(), 0),
        ("actor_ids[]=admin_token".to_owned(), 2),
        ("actor_ids[]=gateway".to_owned(), 1),
        ("actor_emails[]=a@b.example".to_owned(), 0),
        ("actor_ids[]='%20OR%201=1".to_owned(), 0),
    ] {
        assert_eq!(rows(node, &query).await.len(), expected, "{query}");
    }
    let all = rows(node, "").await;
    assert_eq!(kinds(&all), ["api_key.created", "project.created", "organization.created"]);
    assert_eq!(all[0]["api_key.created"]["data"]["name"], "a key");
    assert_eq!(all[1]["project.created"]["data"]["title"], "a project");
    let id = |row: &Value| text(&row["id"]);
    let first = node.ask(&format!("{LOGS}?limit=2"), Value::Null).await;
    assert_eq!((&first["has_more"], &first["last_id"]), (&json!(true), &all[1]["id"]));
    assert_eq!(rows(node, &format!("after={}", id(&all[1]))).await, [all[2].clone()]);
    let nearest = node.ask(&format!("{LOGS}?limit=1&before={}", id(&all[2])), Value::Null).await;
    assert_eq!((&nearest["data"], &nearest["has_more"]), (&json!([all[1]]), &json!(true)));
    for (query, code, param) in [
        ("limit=0", "invalid_value", Some("limit")),
        ("limit=101", "invalid_value", Some("limit")),
        ("limit=x", "invalid_value", Some("limit")),
        ("after=a&before=b", "invalid_value", Some("before")),
        ("effective_at[gt]=-1", "invalid_value", Some("effective_at[gt]")),
        ("effective_at[lt]=99999999999999999999", "invalid_value", Some("effective_at[lt]")),
        ("effective_at=1", "unknown_parameter", Some("effective_at")),
        ("order=asc", "unknown_parameter", Some("order")),
    ] {
        node.refused(&format!("{LOGS}?{query}"), Value::Null, (400, code, param)).await;
    }
    let many = "actor_ids[]=x&".repeat(101);
    let refusal = (400, "invalid_value", Some("actor_ids"));
    node.refused(&format!("{LOGS}?{many}"), Value::Null, refusal).await;
    let change = format!("DELETE /v1/organization/audit_logs/{}", id(&all[0]));
    assert_eq!(node.call(&change, TOKEN, Value::Null).await.0, 404);
    let (status, _) = node.call("DELETE /v1/organization/audit_logs", TOKEN, Value::Null).await;
    assert_eq!(status, 405);
}

async fn exports_have_all_rows_once(node: &Node) {
    // More rows than a part has.
    let sql = "INSERT INTO audit_logs (id, at, organization, kind, object, actor_kind, actor, user_agent) \
               WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 1202) \
               SELECT 'audit_log-' || (1000000 + i), i, 'org-default', 'test.made', '', 'gateway', 'gateway', '=1+1' \
               FROM n";
    node.database.transact(vec![Statement::new(sql, []).expecting(1203)]).await.unwrap();
    let export = async |query: &str| {
        let path = format!("/v1/organization/audit_logs/export?{query}");
        let request = hyper::Request::builder().uri(path);
        let request = request.header("authorization", format!("Bearer {TOKEN}"));
        let (status, body) = node.send(request.body(axum::body::Body::empty()).unwrap()).await;
        (status, String::from_utf8(body.to_vec()).unwrap())
    };
    let (status, lines) = export("format=jsonl").await;
    assert_eq!(status, 200);
    let ids: Vec<String> = lines
        .lines()
        .map(|line| text(&serde_json::from_str::<Value>(line).unwrap()["id"]))
        .collect();
    assert_eq!(ids.len(), 1204);
    assert!(ids.is_sorted(), "oldest first");
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
    let (_, csv) = export("format=csv&event_types[]=test.made").await;
    assert_eq!(csv.lines().count(), 1204);
    assert!(csv.starts_with("time,id,type,"), "{csv:.80}");
    assert!(csv.contains(",'=1+1,"), "no text of a client is a formula: {csv:.300}");
    let (_, nothing) = export("format=jsonl&actor_emails[]=x").await;
    assert_eq!(nothing, "");
    for wrong in ["", "format=xml", "format=csv&limit=5", "format=csv&effective_at[gt]=x"] {
        assert_eq!(export(wrong).await.0, 400, "{wrong}");
    }
}

async fn concurrent_changes_are_recorded_as_they_follow_each_other(node: &Node) {
    let project = node.project().await;
    let what = format!("POST /v1/organization/projects/{project}");
    let calls = (0..8).map(|n| node.ask(&what, json!({ "name": format!("name {n}") })));
    futures_util::future::join_all(calls).await;
    let rows = rows(node, "event_types[]=project.updated").await;
    assert_eq!(rows.len(), 8);
    let befores: BTreeSet<_> = rows.iter().map(|row| text(&row["before"]["name"])).collect();
    let afters: BTreeSet<_> = rows.iter().map(|row| text(&row["after"]["name"])).collect();
    // The changes form one chain: each name but the last one is replaced once.
    assert_eq!((befores.len(), afters.len()), (8, 8));
    assert!(befores.contains("a project"), "{befores:?}");
    let name = text(&node.ask(&what.replace("POST", "GET"), Value::Null).await["name"]);
    assert!(afters.contains(&name) && !befores.contains(&name), "{name}: {befores:?}");
}

async fn payments_are_corrected_with_a_reason(node: &Node) {
    let made = node.ask("POST /v1/organizations", json!({ "name": "acme" })).await;
    let id = text(&made["id"]);
    let pay = format!("POST /v1/organizations/{id}/payments");
    node.ask(&pay, json!({ "amount_cents": 10_000 })).await;
    for (body, code, param) in [
        (json!({ "amount_cents": -1 }), "missing_required_parameter", Some("reason")),
        (json!({ "amount_cents": -1, "reason": "" }), "invalid_value", Some("reason")),
        (json!({ "amount_cents": -1, "reason": 7 }), "invalid_value", Some("reason")),
        (json!({ "amount_cents": -10_001, "reason": "x" }), "invalid_value", Some("amount_cents")),
        (json!({ "amount_cents": 0 }), "invalid_value", Some("amount_cents")),
        (json!({ "amount_cents": "5" }), "invalid_value", Some("amount_cents")),
        (json!({ "amount_cents": 1.5 }), "invalid_value", Some("amount_cents")),
        (json!({ "amount_cents": i64::MIN, "reason": "x" }), "invalid_value", Some("amount_cents")),
        (json!({ "amount_cents": null }), "missing_required_parameter", Some("amount_cents")),
    ] {
        node.refused(&pay, body, (400, code, param)).await;
    }
    let unknown = "POST /v1/organizations/org-none/payments";
    let body = json!({ "amount_cents": -1, "reason": "x" });
    node.refused(unknown, body, (404, "organization_not_found", None)).await;
    let reason = "the bank took it back";
    let corrected = node.ask(&pay, json!({ "amount_cents": -9_999, "reason": reason })).await;
    assert_eq!((&corrected["amount_cents"], &corrected["reason"]), (&json!(-9999), &json!(reason)));
    // A tier that was paid for stays.
    let organization = &corrected["organization"];
    assert_eq!((&organization["paid_cents"], &organization["tier"]), (&json!(1), &json!("3")));
    let listed = node.ask(&pay.replace("POST", "GET"), Value::Null).await;
    assert_eq!(listed["data"][1]["amount_cents"], -9999);
    assert_eq!(listed["data"][0]["reason"], Value::Null);
    let (_, log) = node.call_as(LOGS, TOKEN, Some(&id), Value::Null).await;
    let row = &log["data"][0];
    assert_eq!(row["type"], "payment.corrected");
    let after = json!({ "amount_cents": -9999, "reason": reason, "tier": "3", "paid_cents": 1 });
    assert_eq!((&row["before"]["paid_cents"], &row["after"]), (&json!(10_000), &after));
    // Two corrections at once do not take back more than was paid.
    let body = json!({ "amount_cents": -1, "reason": "twice" });
    let both =
        tokio::join!(node.call(&pay, TOKEN, body.clone()), node.call(&pay, TOKEN, body.clone()));
    let mut statuses = [both.0.0, both.1.0];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 400]);
}
