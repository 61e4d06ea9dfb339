//! The models that a project or a key may use: the administration of the lists, and their effect.

use hyper::Method;
use serde_json::{Value, json};

use super::start;
use crate::common::gateway::{Answer, Tenant, TestGateway, chat_with};
use crate::common::upstream::{Script, Upstream};

const MODELS: &str = "[models.\"big-2026-08-01\"]\naliases = [\"big\"]\n\
    [models.small]\n[models.\"old-1\"]\naliases = [\"old\"]\n\
    [tiers.free.limits.big]\nrpm = 100\n[defaults]\nmoderation_model = \"small\"\n";

async fn served() -> (TestGateway, Upstream, Tenant) {
    let (gateway, upstream) = start(MODELS).await;
    let tenant = gateway.tenant("free").await;
    (gateway, upstream, tenant)
}

fn of_project(tenant: &Tenant) -> String {
    format!("/v1/organization/projects/{}/model_permissions", tenant.project)
}

fn of_key(tenant: &Tenant) -> String {
    let Tenant { project, key_id, .. } = tenant;
    format!("/v1/organization/projects/{project}/api_keys/{key_id}/model_permissions")
}

async fn set(gateway: &TestGateway, tenant: &Tenant, path: &str, mode: &str, names: Value) {
    let body = json!({ "mode": mode, "model_ids": names });
    gateway.admin_of(&tenant.organization, Method::POST, path, body).await;
}

#[track_caller]
fn denied(answer: &Answer, whose: &str, model: &str) {
    let error = (403, "model_not_found".to_owned(), "model".to_owned());
    assert_eq!(answer.error(), error, "{}", answer.text());
    let message = answer.message();
    assert!(message.starts_with(whose) && message.contains(&format!("`{model}`")), "{message}");
}

#[tokio::test]
async fn a_list_decides_by_model_whichever_name_is_used() {
    let all = ["big", "big-2026-08-01", "small", "*"];
    for (mode, list, allowed) in [
        ("allow_list", json!(["big"]), &["big", "big-2026-08-01"][..]),
        ("allow_list", json!(["big-2026-08-01", "big", "big"]), &["big", "big-2026-08-01"]),
        ("allow_list", json!(["small", "*"]), &["small", "*"]),
        ("allow_list", json!([]), &[]),
        ("deny_list", json!(["big"]), &["small", "*"]),
        ("deny_list", json!(["*", "small"]), &["big", "big-2026-08-01"]),
        ("deny_list", json!([]), &all),
    ] {
        for is_of_project in [true, false] {
            let (gateway, upstream, tenant) = served().await;
            let path = if is_of_project { of_project(&tenant) } else { of_key(&tenant) };
            set(&gateway, &tenant, &path, mode, list.clone()).await;
            for name in all {
                let before = upstream.count();
                let answer = match name {
                    "*" => gateway.post(&tenant, "/v1/conversations", &json!({})).await,
                    name => {
                        let body = chat_with(json!({ "model": name }));
                        gateway.post(&tenant, "/v1/chat/completions", &body).await
                    }
                };
                let is_allowed = allowed.contains(&name);
                assert_eq!(
                    upstream.count() - before,
                    usize::from(is_allowed),
                    "{mode} {list} {name}"
                );
                if !is_allowed {
                    let project = format!("Project `{}`", tenant.project);
                    let whose = if is_of_project { &*project } else { "This API key" };
                    denied(&answer, whose, name);
                }
            }
        }
    }
}

#[tokio::test]
async fn every_route_that_names_a_model_is_covered() {
    let (gateway, upstream, tenant) = served().await;
    set(&gateway, &tenant, &of_project(&tenant), "allow_list", json!(["big"])).await;
    for path in [
        "/v1/responses",
        "/v1/responses/compact",
        "/v1/responses/input_tokens",
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/embeddings",
        "/v1/images/generations",
        "/v1/images/edits",
        "/v1/audio/speech",
        "/v1/videos",
        "/v1/moderations",
        "/v1/evals",
        "/v1/vector_stores",
    ] {
        denied(
            &gateway.post(&tenant, path, &json!({ "model": "small" })).await,
            "Project",
            "small",
        );
    }
    // The default of moderations is one too, and a model in the path.
    let answer = gateway.post(&tenant, "/v1/moderations", &json!({ "input": "x" })).await;
    denied(&answer, "Project", "small");
    denied(&gateway.get(&tenant, "/v1/models/small").await, "Project", "small");
    for path in ["/v1/messages", "/v1/messages/count_tokens"] {
        let body = json!({ "model": "small", "max_tokens": 1, "messages": [] });
        let answer = gateway.post(&tenant, path, &body).await;
        let error = &answer.json()["error"];
        assert_eq!((answer.status.as_u16(), &error["type"]), (403, &json!("permission_error")));
        assert_eq!(error["details"]["error_code"], "model_not_found");
    }
    let form = "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nsmall\r\n\
                --b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nx\r\n--b--";
    let kind = [("content-type", "multipart/form-data; boundary=b")];
    let path = "/v1/audio/transcriptions";
    denied(&gateway.with(&tenant, Method::POST, path, &kind, form).await, "Project", "small");
    assert_eq!(upstream.count(), 0);
    // An unknown model is still unknown, and nothing of this was counted.
    let unknown = gateway.post(&tenant, "/v1/responses", &json!({ "model": "none" })).await;
    assert_eq!(unknown.status, 404);
    assert_eq!(gateway.chat(&tenant).await.limits("requests")[1], "99");
}

#[tokio::test]
async fn a_response_stays_readable_without_its_model() {
    let (gateway, upstream, tenant) = served().await;
    upstream.script([Script::json(&json!({ "id": "resp_1" }))]);
    let body = json!({ "model": "big", "input": "x" });
    assert_eq!(gateway.post(&tenant, "/v1/responses", &body).await.status, 200);
    set(&gateway, &tenant, &of_project(&tenant), "allow_list", json!([])).await;
    assert_eq!(gateway.get(&tenant, "/v1/responses/resp_1").await.status, 200);
}

#[tokio::test]
async fn models_are_listed_as_far_as_they_may_be_used() {
    let (gateway, _upstream, tenant) = served().await;
    let names = async || {
        let list = gateway.get(&tenant, "/v1/models").await.json();
        let data = list["data"].as_array().unwrap().iter();
        data.map(|entry| entry["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let all = ["big-2026-08-01", "big", "old-1", "old", "small"];
    assert_eq!(names().await, all);
    set(&gateway, &tenant, &of_project(&tenant), "deny_list", json!(["old"])).await;
    assert_eq!(names().await, ["big-2026-08-01", "big", "small"]);
    // A key never has more than its project.
    set(&gateway, &tenant, &of_key(&tenant), "allow_list", json!(["old", "small"])).await;
    assert_eq!(names().await, ["small"]);
    let limits = gateway.get(&tenant, "/v1/fine_tuning/model_limits").await.json();
    assert_eq!(limits["data"].as_array().unwrap().len(), 1);
    let organization = &tenant.organization;
    gateway.admin_of(organization, Method::DELETE, &of_project(&tenant), Value::Null).await;
    assert_eq!(names().await, ["old-1", "old", "small"]);
    gateway.admin_of(organization, Method::DELETE, &of_key(&tenant), Value::Null).await;
    assert_eq!(names().await, all);
}

#[tokio::test]
async fn other_models_to_try_are_refused_under_a_list() {
    let free = "[models.\"big-2026-08-01\"]\naliases = [\"big\"]\n";
    let (gateway, _upstream) = start(free).await;
    let tenant = gateway.tenant("free").await;
    let body = chat_with(json!({ "fallbacks": ["dear"] }));
    assert_eq!(gateway.post(&tenant, "/v1/chat/completions", &body).await.status, 200);
    set(&gateway, &tenant, &of_key(&tenant), "allow_list", json!(["big"])).await;
    let answer = gateway.post(&tenant, "/v1/chat/completions", &body).await;
    assert_eq!(answer.error().1, "other_models_not_supported");
}

#[tokio::test]
async fn a_key_has_its_list_from_the_start_and_when_it_is_rotated() {
    let (gateway, _upstream, tenant) = served().await;
    let keys = format!("/v1/organization/projects/{}/api_keys", tenant.project);
    let list = json!({ "mode": "allow_list", "model_ids": ["small"] });
    let body = json!({ "name": "Narrow", "model_permissions": list });
    let mut key = gateway.admin_of(&tenant.organization, Method::POST, &keys, body).await;
    for _ in 0..2 {
        let narrow = Tenant {
            key: key["value"].as_str().unwrap().to_owned(),
            key_id: key["id"].as_str().unwrap().to_owned(),
            ..tenant.clone()
        };
        denied(&gateway.chat(&narrow).await, "This API key", "big");
        let small = chat_with(json!({ "model": "small" }));
        assert_eq!(gateway.post(&narrow, "/v1/chat/completions", &small).await.status, 200);
        let path = of_key(&narrow);
        let shown = gateway.admin_of(&tenant.organization, Method::GET, &path, Value::Null).await;
        let expected = json!({
            "object": "api_key.model_permissions", "mode": "allow_list", "model_ids": ["small"],
        });
        assert_eq!(shown, expected);
        let rotate = format!("{keys}/{}/rotate", narrow.key_id);
        key = gateway.admin_of(&tenant.organization, Method::POST, &rotate, json!({})).await;
    }
    // The project's other key is not affected.
    assert_eq!(gateway.chat(&tenant).await.status, 200);
}

#[tokio::test]
async fn keys_of_a_service_account_have_lists_too() {
    let (gateway, _upstream, tenant) = served().await;
    let of = &tenant.organization;
    let accounts = format!("/v1/organization/projects/{}/service_accounts", tenant.project);
    let list = json!({ "mode": "allow_list", "model_ids": ["small"] });
    let body = json!({ "name": "Robot", "model_permissions": list });
    let made = gateway.admin_of(of, Method::POST, &accounts, body.clone()).await;
    let keys = format!("{accounts}/{}/api_keys", made["id"].as_str().unwrap());
    let more = gateway.admin_of(of, Method::POST, &keys, body.clone()).await;
    for key in [&made["api_key"], &more] {
        let key = key["value"].as_str().unwrap().to_owned();
        denied(&gateway.chat(&Tenant { key, ..tenant.clone() }).await, "This API key", "big");
    }
    // Without a list, and with one where there is no key.
    let more = gateway.admin_of(of, Method::POST, &keys, json!({})).await;
    let key = more["value"].as_str().unwrap().to_owned();
    assert_eq!(gateway.chat(&Tenant { key, ..tenant.clone() }).await.status, 200);
    let mut alone = body;
    alone["create_service_account_only"] = json!(true);
    let answer = gateway.try_admin(of, Method::POST, &accounts, alone).await;
    assert_eq!(answer.error().2, "model_permissions");
}

#[tokio::test]
async fn lists_are_validated() {
    let (gateway, _upstream, tenant) = served().await;
    let of = &tenant.organization;
    let keys = format!("/v1/organization/projects/{}/api_keys", tenant.project);
    for (body, param) in [
        (json!({}), "mode"),
        (json!({ "mode": "allow_list" }), "model_ids"),
        (json!({ "mode": "allow_list", "model_ids": null }), "model_ids"),
        (json!({ "model_ids": ["big"] }), "mode"),
        (json!({ "mode": "allow", "model_ids": [] }), "mode"),
        (json!({ "mode": 1, "model_ids": [] }), "mode"),
        (json!({ "mode": "deny_list", "model_ids": "big" }), "model_ids"),
        (json!({ "mode": "deny_list", "model_ids": { "big": true } }), "model_ids"),
        (json!({ "mode": "deny_list", "model_ids": ["big", 1] }), "model_ids"),
        (json!({ "mode": "deny_list", "model_ids": ["big", null] }), "model_ids"),
        (json!({ "mode": "deny_list", "model_ids": ["none"] }), "model_ids"),
        (json!({ "mode": "deny_list", "model_ids": [""] }), "model_ids"),
        (json!({ "mode": "deny_list", "model_ids": ["big*"] }), "model_ids"),
        (json!({ "mode": "deny_list", "model_ids": vec!["big"; 1001] }), "model_ids"),
        (json!({ "mode": "deny_list", "model_ids": [], "other": 1 }), "other"),
    ] {
        for path in [of_project(&tenant), of_key(&tenant)] {
            let answer = gateway.try_admin(of, Method::POST, &path, body.clone()).await;
            let (status, _, at) = answer.error();
            assert_eq!((status, &*at), (400, param), "{body} {}", answer.text());
        }
        let new = json!({ "name": "Key", "model_permissions": body });
        let answer = gateway.try_admin(of, Method::POST, &keys, new).await;
        assert_eq!(answer.status, 400, "{body} {}", answer.text());
    }
    for wrong in [json!("allow_list"), json!(["big"]), json!(true)] {
        let new = json!({ "name": "Key", "model_permissions": wrong });
        let answer = gateway.try_admin(of, Method::POST, &keys, new).await;
        assert_eq!(answer.error().2, "model_permissions", "{}", answer.text());
    }
    // Nothing was set.
    let shown = gateway.admin_of(of, Method::GET, &of_project(&tenant), Value::Null).await;
    let all =
        json!({ "object": "project.model_permissions", "mode": "deny_list", "model_ids": [] });
    assert_eq!(shown, all);
    // Names are sorted, and each is there once.
    let body = json!({ "mode": "deny_list", "model_ids": ["small", "big", "small", "*"] });
    let shown = gateway.admin_of(of, Method::POST, &of_project(&tenant), body).await;
    assert_eq!(shown["model_ids"], json!(["*", "big", "small"]));
    let gone = gateway.admin_of(of, Method::DELETE, &of_project(&tenant), Value::Null).await;
    assert_eq!(gone, json!({ "object": "project.model_permissions.deleted", "deleted": true }));
}

#[tokio::test]
async fn lists_belong_to_their_organization() {
    let (gateway, _upstream, tenant) = served().await;
    let other = gateway.tenant("free").await;
    let body = json!({ "mode": "deny_list", "model_ids": [] });
    let foreign_key = Tenant { key_id: other.key_id.clone(), ..tenant.clone() };
    for path in [of_project(&other), of_key(&other), of_key(&foreign_key)] {
        for (method, body) in [
            (Method::GET, Value::Null),
            (Method::POST, body.clone()),
            (Method::DELETE, Value::Null),
        ] {
            let answer = gateway.try_admin(&tenant.organization, method, &path, body).await;
            assert_eq!(answer.status, 404, "{path}");
        }
    }
    let project = format!("/v1/organization/projects/{}", tenant.project);
    let archive = format!("{project}/archive");
    gateway.admin_of(&tenant.organization, Method::POST, &archive, json!({})).await;
    let path = of_project(&tenant);
    let answer = gateway.try_admin(&tenant.organization, Method::POST, &path, body).await;
    assert_eq!(answer.error().1, "project_archived");
}

/// The key and the model of a denied request are known, so it shows their limits.
#[tokio::test]
async fn a_denied_request_shows_the_limits_of_its_model() {
    let limits = "[models.big]\n[tiers.free.limits.big]\nrpm = 100\n";
    let (gateway, _upstream) = start(limits).await;
    let tenant = gateway.tenant("free").await;
    set(&gateway, &tenant, &of_project(&tenant), "deny_list", json!(["big"])).await;
    let answer = gateway.chat(&tenant).await;
    denied(&answer, "Project", "big");
    assert_eq!(answer.limits("requests")[..2], ["100", "100"]);
}
