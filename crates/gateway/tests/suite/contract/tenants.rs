//! The owner of a request: keys, additional headers, regions, and the ownership of objects.

use hyper::Method;
use serde_json::{Value, json};

use super::{BIG, start};
use crate::common::gateway::{SECOND, Tenant, TestGateway, chat_request, config};
use crate::common::upstream::{Script, Upstream};

const CHAT: &str = "/v1/chat/completions";

async fn status(gateway: &TestGateway, key: &str) -> u16 {
    let authorization = format!("Bearer {key}");
    let headers = [("authorization", &*authorization), ("content-type", "application/json")];
    let body = chat_request().to_string();
    gateway.send(Method::POST, CHAT, &headers, body).await.status.as_u16()
}

#[tokio::test]
async fn requests_without_a_valid_key_are_refused() {
    let (gateway, upstream) = start(BIG).await;
    let tenant = gateway.tenant("free").await;
    let bearer = format!("Bearer {}", tenant.key);
    let cut = &bearer[..bearer.len() - 1];
    let basic = format!("Basic {}", tenant.key);
    for wrong in
        ["", "Bearer", "Bearer ", &tenant.key, &basic, cut, "Bearer sk-proj-none", "Bearer \u{e9}"]
    {
        let answer = gateway.send(Method::POST, CHAT, &[("authorization", wrong)], "{}").await;
        assert_eq!(answer.error(), (401, "invalid_api_key".into(), String::new()), "{wrong}");
        assert_eq!(answer.header("www-authenticate"), "Bearer");
        assert!(!answer.text().contains("sk-"), "{}", answer.text());
    }
    // Clients of other providers send their key in other headers. Two different ones are none.
    for name in ["x-api-key", "api-key", "x-goog-api-key"] {
        let models = |headers: Vec<(&'static str, String)>| {
            let gateway = &gateway;
            async move {
                let headers: Vec<_> = headers.iter().map(|(name, key)| (*name, &**key)).collect();
                gateway.send(Method::GET, "/v1/models", &headers, "").await.status
            }
        };
        let (key, bearer) = (tenant.key.clone(), bearer.clone());
        assert_eq!(models(vec![(name, key.clone())]).await, 200, "{name}");
        assert_eq!(models(vec![(name, key), ("authorization", bearer.clone())]).await, 200);
        assert_eq!(models(vec![(name, "x".into()), ("authorization", bearer)]).await, 401);
        assert_eq!(models(vec![(name, String::new())]).await, 401);
    }
    let twice = [("authorization", &*bearer), ("authorization", "Bearer x")];
    assert_eq!(gateway.send(Method::GET, "/v1/models", &twice, "").await.status, 401);
    assert_eq!(
        gateway
            .send(
                Method::GET,
                "/v1/models",
                &[("authorization", &bearer.replace("Bearer", "bEARER"))],
                ""
            )
            .await
            .status,
        200
    );
    // The admin token is not a key, and a key is not an admin token.
    assert_eq!(status(&gateway, crate::common::gateway::ADMIN).await, 401);
    let answer = gateway.get(&tenant, "/v1/organization/projects").await;
    assert_eq!(answer.status, 401);
    assert_eq!(upstream.count(), 0);
}

#[tokio::test]
async fn keys_are_revoked_and_rotated() {
    let (gateway, _upstream) = start(BIG).await;
    let tenant = gateway.tenant("free").await;
    let keys = format!("/v1/organization/projects/{}/api_keys", tenant.project);
    let rotate = async |id: &str, grace: u64| {
        let path = format!("{keys}/{id}/rotate");
        let body = json!({ "grace_seconds": grace });
        let key = gateway.admin_of(&tenant.organization, Method::POST, &path, body).await;
        (key["id"].as_str().unwrap().to_owned(), key["value"].as_str().unwrap().to_owned())
    };
    assert_eq!(status(&gateway, &tenant.key).await, 200);
    let (second_id, second) = rotate(&tenant.key_id, 60).await;
    assert_eq!((status(&gateway, &tenant.key).await, status(&gateway, &second).await), (200, 200));
    gateway.clock.advance(61 * SECOND);
    assert_eq!((status(&gateway, &tenant.key).await, status(&gateway, &second).await), (401, 200));
    let (third_id, third) = rotate(&second_id, 0).await;
    assert_eq!((status(&gateway, &second).await, status(&gateway, &third).await), (401, 200));
    let path = format!("{keys}/{third_id}");
    gateway.admin_of(&tenant.organization, Method::DELETE, &path, Value::Null).await;
    assert_eq!(status(&gateway, &third).await, 401);
}

#[tokio::test]
async fn keys_of_archived_projects_and_deleted_organizations_are_refused() {
    let (gateway, _upstream) = start(BIG).await;
    let tenant = gateway.tenant("free").await;
    let other = gateway.project(&tenant.organization, Value::Null).await;
    assert_eq!(
        (status(&gateway, &tenant.key).await, status(&gateway, &other.key).await),
        (200, 200)
    );
    let path = format!("/v1/organization/projects/{}/archive", tenant.project);
    gateway.admin_of(&tenant.organization, Method::POST, &path, json!({})).await;
    assert_eq!(
        (status(&gateway, &tenant.key).await, status(&gateway, &other.key).await),
        (401, 200)
    );
    let path = format!("/v1/organizations/{}", tenant.organization);
    gateway.admin(Method::DELETE, &path, Value::Null).await;
    assert_eq!(status(&gateway, &other.key).await, 401);
}

#[tokio::test]
async fn headers_must_not_contradict_the_key() {
    let (gateway, _upstream) = start(BIG).await;
    let tenant = gateway.tenant("free").await;
    let check = async |name: &str, value: &str, code: &str| {
        let answer = gateway.with(&tenant, Method::GET, "/v1/models", &[(name, value)], "").await;
        match code {
            "" => assert_eq!(answer.status, 200, "{name}: {value}"),
            code => assert_eq!(answer.error(), (401, code.into(), String::new())),
        }
    };
    check("OpenAI-Organization", &tenant.organization, "").await;
    check("OpenAI-Project", &tenant.project, "").await;
    check("OpenAI-Organization", "", "").await;
    check("OpenAI-Organization", "org-default", "mismatched_organization").await;
    check("OpenAI-Project", "proj_none", "mismatched_project").await;
    let both = [("openai-project", &*tenant.project), ("openai-project", "proj_none")];
    assert_eq!(gateway.with(&tenant, Method::GET, "/v1/models", &both, "").await.status, 401);
}

#[tokio::test]
async fn a_host_names_a_region() {
    let (home, eu, us) =
        (Upstream::start().await, Upstream::start().await, Upstream::start().await);
    let regions = format!(
        "base_urls = {{ eu = \"{}\", us = \"{}\" }}\n{BIG}[regions]\nprefixes = [\"eu\", \"us\", \"au\"]\n",
        eu.url(),
        us.url()
    );
    let gateway = TestGateway::start(&config(&home, &regions)).await;
    let global = gateway.tenant("free").await;
    let at_home = gateway.project(&global.organization, json!("eu")).await;
    let body = chat_request().to_string();
    let ask = async |tenant: &Tenant, host: &str| {
        let headers = [("host", host), ("content-type", "application/json")];
        gateway.with(tenant, Method::POST, CHAT, &headers, body.clone()).await
    };
    let served = || [home.count(), eu.count(), us.count()];
    for (host, expected) in [
        ("api.example.org", [1, 0, 0]),
        ("eu.api.example.org:8080", [1, 1, 0]),
        ("US.api.example.org", [1, 1, 1]),
        ("eu", [2, 1, 1]),
        ("europe.example.org", [3, 1, 1]),
    ] {
        assert_eq!(ask(&global, host).await.status, 200, "{host}");
        assert_eq!(served(), expected, "{host}");
    }
    assert_eq!(ask(&global, "au.example.org").await.error().1, "region_not_available");
    // Data of a region is served there through any host except another region's.
    assert_eq!(ask(&at_home, "api.example.org").await.status, 200);
    assert_eq!(ask(&at_home, "eu.example.org").await.status, 200);
    assert_eq!(served(), [3, 3, 1]);
    for host in ["us.example.org", "au.example.org"] {
        assert_eq!(
            ask(&at_home, host).await.error(),
            (401, "incorrect_hostname".into(), String::new())
        );
    }
    assert_eq!(served(), [3, 3, 1]);
}

/// Answers each `POST` with an object whose id contains its number.
async fn making() -> (TestGateway, Upstream) {
    let count = std::sync::atomic::AtomicU64::new(0);
    let upstream = Upstream::answering(move |received| {
        let number = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        match (&received.method, &*received.path) {
            (&Method::POST, _) => Script::json(&json!({ "id": format!("resp_{number}"), "usage": null })),
            _ => {
                let entry = |n: u64| json!({ "id": format!("resp_{n}") });
                let data: Vec<_> = (0..10).map(entry).collect();
                Script::json(&json!({ "object": "list", "data": data, "first_id": "resp_0", "last_id": "resp_9" }))
            }
        }
    })
    .await;
    let open = "[server]\npass_through = [\"/v1/fine_tuning/jobs\"]\n";
    (TestGateway::start(&config(&upstream, &format!("{BIG}{open}"))).await, upstream)
}

#[tokio::test]
async fn objects_are_invisible_to_other_projects() {
    let (gateway, upstream) = making().await;
    let mine = gateway.tenant("free").await;
    // In the same organization: projects are separate nevertheless.
    let theirs = gateway.project(&mine.organization, Value::Null).await;
    let form =
        "--b\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nassistants\r\n--b--\r\n";
    let kind = [("content-type", "multipart/form-data; boundary=b")];
    let id =
        |answer: &crate::common::gateway::Answer| answer.json()["id"].as_str().unwrap().to_owned();
    let response = id(&gateway.post(&mine, "/v1/responses", &json!({ "model": "big" })).await);
    let file = id(&gateway.with(&mine, Method::POST, "/v1/files", &kind, form).await);
    let store = id(&gateway.post(&mine, "/v1/vector_stores", &json!({})).await);
    let conversation = id(&gateway.post(&mine, "/v1/conversations", &json!({})).await);
    let job = id(&gateway.post(&mine, "/v1/fine_tuning/jobs", &json!({})).await);
    let video = id(&gateway
        .post(&mine, "/v1/videos/edits", &json!({ "model": "big", "prompt": "x" }))
        .await);
    for (method, path) in [
        (Method::GET, format!("/v1/responses/{response}")),
        (Method::POST, format!("/v1/responses/{response}/cancel")),
        (Method::GET, format!("/v1/responses/{response}/input_items")),
        (Method::GET, format!("/v1/files/{file}")),
        (Method::GET, format!("/v1/files/{file}/content")),
        (Method::GET, format!("/v1/vector_stores/{store}/files")),
        (Method::POST, format!("/v1/vector_stores/{store}/search")),
        (Method::GET, format!("/v1/conversations/{conversation}/items")),
        (Method::GET, format!("/v1/fine_tuning/jobs/{job}")),
        (Method::GET, format!("/v1/videos/{video}/content")),
        (Method::DELETE, format!("/v1/files/{file}")),
        (Method::DELETE, format!("/v1/responses/{response}")),
    ] {
        let before = upstream.count();
        let refused = gateway.with(&theirs, method.clone(), &path, &[], "").await;
        assert_eq!(refused.error(), (404, "not_found".into(), String::new()), "{method} {path}");
        assert_eq!(upstream.count(), before, "{method} {path}");
        assert_eq!(gateway.with(&mine, method, &path, &[], "").await.status, 200, "{path}");
    }
    // Deleted objects have no owner.
    assert_eq!(gateway.get(&mine, &format!("/v1/files/{file}")).await.status, 404);
}

#[tokio::test]
async fn objects_of_other_projects_cannot_be_referenced() {
    let (gateway, upstream) = making().await;
    let mine = gateway.tenant("free").await;
    let theirs = gateway.tenant("free").await;
    let made = gateway.post(&mine, "/v1/vector_stores", &json!({})).await.json();
    let id = made["id"].as_str().unwrap();
    // Responses and other objects are distinguished by their ids.
    let response = gateway.post(&mine, "/v1/responses", &json!({ "model": "big" })).await.json();
    let response = response["id"].as_str().unwrap();
    let file = json!({ "type": "input_file", "file_id": id });
    let before = upstream.count();
    for (path, body) in [
        ("/v1/responses", json!({ "model": "big", "previous_response_id": response })),
        ("/v1/responses", json!({ "model": "big", "conversation": id })),
        ("/v1/responses", json!({ "model": "big", "conversation": { "id": id } })),
        (
            "/v1/responses",
            json!({ "model": "big", "input": [{ "role": "user", "content": [file] }] }),
        ),
        (
            "/v1/responses",
            json!({ "model": "big", "tools": [{ "type": "file_search", "vector_store_ids": [id] }] }),
        ),
        (
            "/v1/responses",
            json!({ "model": "big", "tools": [{ "type": "code_interpreter", "container": id }] }),
        ),
        (
            "/v1/responses",
            json!({ "model": "big", "tools": [{ "type": "shell", "environment": { "container_id": id } }] }),
        ),
        ("/v1/responses", json!({ "model": "big", "input": [{ "container_id": id }] })),
        ("/v1/videos/edits", json!({ "model": "big", "video": { "id": id } })),
        ("/v1/vector_stores", json!({ "video_id": id })),
        ("/v1/images/edits", json!({ "model": "big", "images": [{ "file_id": id }] })),
        ("/v1/images/edits", json!({ "model": "big", "mask": { "file_id": id } })),
        ("/v1/vector_stores", json!({ "file_ids": [id] })),
        ("/v1/fine_tuning/jobs", json!({ "training_file": id })),
        ("/v1/evals", json!({ "data_source": { "source": { "type": "file_id", "id": id } } })),
        ("/v1/evals", json!({ "data_source": { "source": { "id": id, "type": "file_id" } } })),
    ] {
        let refused = gateway.post(&theirs, path, &body).await;
        assert_eq!(refused.error(), (404, "not_found".into(), String::new()), "{path} {body}");
        // Nor with another content type, or none.
        for kind in ["text/plain", "application/octet-stream", "application/x-www-form-urlencoded"]
        {
            let kind = [("content-type", kind)];
            let refused = gateway.with(&theirs, Method::POST, path, &kind, body.to_string()).await;
            assert!(refused.status.is_client_error(), "{path} {body}");
        }
    }
    let body =
        json!({ "model": "big", "max_tokens": 1, "messages": [], "container": { "id": id } });
    assert_eq!(gateway.post(&theirs, "/v1/messages", &body).await.status, 404);
    // The upstream makes containers itself, which the gateway does not know.
    let body = json!({ "model": "big", "tools": [{ "container": "cntr_unknown" }] });
    assert_eq!(gateway.post(&theirs, "/v1/responses", &body).await.status, 200);
    assert_eq!(upstream.count(), before + 1);
    let before = upstream.count();
    let twice = format!("{{\"file_ids\":[\"{id}\"],\"file_ids\":[\"{id}\"]}}");
    let kind = [("content-type", "text/plain")];
    let refused = gateway.with(&theirs, Method::POST, "/v1/vector_stores", &kind, twice).await;
    assert_eq!(refused.error().1, "invalid_json");
    assert_eq!(upstream.count(), before);
}

#[tokio::test]
async fn the_file_of_a_multipart_upload_belongs_to_the_project() {
    let (gateway, upstream) = start(BIG).await;
    let mine = gateway.tenant("free").await;
    let theirs = gateway.tenant("free").await;
    let done = json!({ "id": "upload_1", "file": { "id": "file-9", "object": "file" } });
    upstream.script([Script::json(&json!({ "id": "upload_1" })), Script::json(&done)]);
    gateway.post(&mine, "/v1/uploads", &json!({ "bytes": 5 })).await;
    let complete = "/v1/uploads/upload_1/complete";
    assert_eq!(gateway.post(&theirs, complete, &json!({})).await.status, 404);
    assert_eq!(gateway.post(&mine, complete, &json!({ "part_ids": [] })).await.json(), done);
    assert_eq!(gateway.get(&mine, "/v1/files/file-9").await.status, 200);
    assert_eq!(gateway.get(&theirs, "/v1/files/file-9").await.status, 404);
}

#[tokio::test]
async fn lists_show_only_objects_of_the_project() {
    let (gateway, _upstream) = making().await;
    let mine = gateway.tenant("free").await;
    let theirs = gateway.tenant("free").await;
    for tenant in [&mine, &theirs, &mine] {
        gateway.post(tenant, "/v1/vector_stores", &json!({})).await;
    }
    let ids = async |tenant: &Tenant, path: &str| {
        let list = gateway.get(tenant, path).await.json();
        let ids = list["data"].as_array().unwrap().iter().map(|entry| entry["id"].clone());
        (ids.collect::<Vec<_>>(), list["first_id"].clone(), list["last_id"].clone())
    };
    // Immediately, without waiting for the store.
    let expected = (vec![json!("resp_0"), json!("resp_2")], json!("resp_0"), json!("resp_2"));
    assert_eq!(ids(&mine, "/v1/vector_stores").await, expected);
    assert_eq!(ids(&theirs, "/v1/files?limit=5").await.0, ["resp_1"]);
    assert_eq!(ids(&theirs, "/v1/fine_tuning/jobs").await.0, ["resp_1"]);
    assert_eq!(
        ids(&gateway.tenant("free").await, "/v1/chat/completions").await.0,
        [] as [Value; 0]
    );
}

#[tokio::test]
async fn path_traversal_is_refused() {
    let (gateway, upstream) = making().await;
    let tenant = gateway.tenant("free").await;
    for path in [
        "/v1/x/../organization/projects",
        "/v1/./models",
        "/v1//models",
        "/v1/models/",
        "/v1/%2e%2e/organization/projects",
        "/v1/%2E%2E%2Forganization",
        "/v1/organization%2fprojects",
        "/v1/%6frganization/projects",
        "/v1/ch%61t/completions",
        "/v1/%66iles/file%2Dabc",
        "/v1/conversations/conv%5Fabc",
        "/v1/a%5c..%5cb",
        "/v1/a%00b",
        "/v1/a%zz",
    ] {
        let answer = gateway.with(&tenant, Method::POST, path, &[], "{}").await;
        assert_eq!(answer.error(), (400, "invalid_path".into(), String::new()), "{path}");
    }
    for path in
        ["/", "/v1", "/v2/models", "//v1/models", "/V1/models", "/v1x/models", "/dashboardx"]
    {
        assert_eq!(gateway.get(&tenant, path).await.error().1, "not_found", "{path}");
    }
    assert_eq!(upstream.count(), 0);
}

/// A form with these text fields.
fn form(fields: &[(&str, &str)]) -> String {
    let field = |(name, value): &(&str, &str)| {
        format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
    };
    fields.iter().map(field).collect::<String>() + "--b--\r\n"
}

#[tokio::test]
async fn forms_cannot_refer_to_objects_of_other_projects() {
    const FORM: (&str, &str) = ("content-type", "multipart/form-data; boundary=b");
    const URLENCODED: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");
    let (gateway, upstream) = making().await;
    let mine = gateway.tenant("free").await;
    let theirs = gateway.tenant("free").await;
    let made = async |tenant| {
        let made = gateway.post(tenant, "/v1/vector_stores", &json!({})).await.json();
        made["id"].as_str().unwrap().to_owned()
    };
    let (id, own) = (made(&mine).await, made(&theirs).await);
    let files = format!("/v1/containers/{own}/files");
    let before = upstream.count();
    for (path, fields) in [
        (&*files, &[("file_id", &*id)][..]),
        (&files, &[("file_ids[]", &id)]),
        (&files, &[("model", "big"), ("source", &json!({ "file_id": id }).to_string())]),
        ("/v1/videos/edits", &[("model", "big"), ("video[id]", &id)]),
        ("/v1/videos/edits", &[("model", "big"), ("video", &json!({ "id": id }).to_string())]),
        ("/v1/videos", &[("model", "big"), ("input_reference[file_id]", &id)]),
        ("/v1/images/edits", &[("model", "big"), ("image[0][file_id]", &id)]),
    ] {
        let body = form(fields);
        let refused = gateway.with(&theirs, Method::POST, path, &[FORM], body.clone()).await;
        assert_eq!(refused.error(), (404, "not_found".into(), String::new()), "{path} {fields:?}");
        let served = gateway.with(&mine, Method::POST, path, &[FORM], body).await;
        let is_served = served.status == 200 || path == files;
        assert!(is_served, "{path} {fields:?}: {}", served.text());
    }
    assert_eq!(upstream.count() - before, 4, "only the requests of the owner");
    let encoded = format!("a=b&file%5Fid={id}");
    let refused = gateway.with(&theirs, Method::POST, &files, &[URLENCODED], encoded).await;
    assert_eq!(refused.status, 404);
    // What is called a form is one.
    let json = json!({ "file_id": id }).to_string();
    let refused = gateway.with(&theirs, Method::POST, &files, &[FORM], json).await;
    assert_eq!(refused.error().1, "invalid_form");
    let body = form(&[("file_id", &own)]);
    assert_eq!(gateway.with(&theirs, Method::POST, &files, &[FORM], body).await.status, 200);
}
