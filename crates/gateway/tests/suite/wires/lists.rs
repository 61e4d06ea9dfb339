//! Lists of models in the form of each client, the two versions of Gemini's paths, and what agents offer to every server.

use hyper::Method;
use serde_json::{Value, json};
use wire::Wire;

use super::dialects::{PROMPT, Read, Reply, answer, read};
use super::start;
use crate::common::gateway::{Answer, Tenant, TestGateway};
use crate::common::upstream::Upstream;

async fn get(gateway: &TestGateway, tenant: &Tenant, path: &str, wire: Wire) -> Answer {
    let bearer = format!("Bearer {}", tenant.key);
    let headers = match wire {
        Wire::Messages => vec![("x-api-key", &*tenant.key), ("anthropic-version", "2023-06-01")],
        Wire::Gemini => vec![("x-goog-api-key", &*tenant.key)],
        Wire::Responses | Wire::Chat => vec![("authorization", &*bearer)],
    };
    gateway.send(Method::GET, path, &headers, String::new()).await
}

#[tokio::test]
async fn models_are_listed_in_the_form_of_the_client() {
    let upstream = Upstream::start().await;
    let gateway = start(&upstream, Wire::Chat, "aliases = [\"maker/big\"]\n").await;
    let tenant = gateway.tenant("free").await;
    let list = get(&gateway, &tenant, "/v1/models", Wire::Responses).await.json();
    assert_eq!((&list["object"], &list["data"][0]["object"]), (&json!("list"), &json!("model")));
    let list = get(&gateway, &tenant, "/v1/models", Wire::Messages).await.json();
    assert_eq!(
        [&list["first_id"], &list["last_id"], &list["has_more"]],
        [&json!("big"), &json!("maker/big"), &json!(false)]
    );
    assert_eq!([&list["data"][0]["type"], &list["data"][1]["id"]], ["model", "maker/big"]);
    let one = get(&gateway, &tenant, "/v1/models/maker/big", Wire::Messages).await.json();
    assert_eq!([&one["type"], &one["display_name"]], ["model", "maker/big"]);
    for path in ["/v1/models", "/v1beta/models"] {
        let list = get(&gateway, &tenant, path, Wire::Gemini).await.json();
        assert_eq!(list["models"][0]["name"], "models/big", "{path}");
        let one = get(&gateway, &tenant, &format!("{path}/big"), Wire::Gemini).await.json();
        assert_eq!(one["name"], "models/big", "{path}");
    }
    // So are errors.
    let missing = get(&gateway, &tenant, "/v1/models/none", Wire::Messages).await.json();
    assert_eq!(missing["error"]["type"], "not_found_error");
    let missing = get(&gateway, &tenant, "/v1/models/none", Wire::Gemini).await.json();
    assert_eq!(missing["error"]["status"], "NOT_FOUND");
    let missing = get(&gateway, &tenant, "/v1/models/none", Wire::Responses).await.json();
    assert_eq!(missing["error"]["code"], "model_not_found");
}

#[tokio::test]
async fn both_versions_of_the_paths_of_gemini_are_served() {
    for backend in Wire::ALL {
        let upstream = Upstream::start().await;
        let gateway = start(&upstream, backend, "").await;
        let tenant = gateway.tenant("free").await;
        let body = json!({ "contents": [{ "role": "user", "parts": [{ "text": PROMPT }] }] });
        let key = [("x-goog-api-key", &*tenant.key), ("content-type", "application/json")];
        for version in ["v1", "v1beta"] {
            upstream.script([answer(backend, Reply::Text, false)]);
            let path = format!("/{version}/models/big:generateContent");
            let answered = gateway.send(Method::POST, &path, &key, body.to_string()).await;
            let seen = read(Wire::Gemini, &answered, false);
            assert_eq!(seen, Read::reply(Reply::Text), "{version} {backend}: {}", answered.text());
            let path = format!("/{version}/models/none:generateContent?key={}", tenant.key);
            let answered = gateway.send(Method::POST, &path, &key[1..], body.to_string()).await;
            assert_eq!(answered.json()["error"]["status"], "NOT_FOUND", "{version}");
        }
    }
}

/// Agents offer the provider's search next to their own tools.
#[tokio::test]
async fn a_search_that_the_server_does_not_have_is_left_out() {
    let own = json!({ "type": "function", "name": "read", "parameters": {}, "strict": false });
    let search = json!({ "type": "web_search" });
    for backend in [Wire::Chat, Wire::Messages] {
        let upstream = Upstream::start().await;
        let gateway =
            start(&upstream, backend, "[defaults]\ntool_calls = { web_search = 0.01 }\n").await;
        let tenant = gateway.tenant("free").await;
        let ask = async |tools: Value, choice: Value| {
            upstream.script([answer(backend, Reply::Text, false)]);
            let body =
                json!({ "model": "big", "input": PROMPT, "tools": tools, "tool_choice": choice });
            gateway.post(&tenant, "/v1/responses", &body).await
        };
        let answered = ask(json!([own, search]), json!("auto")).await;
        assert_eq!(answered.status, 200, "{backend}: {}", answered.text());
        assert!(answered.header("x-translation-warnings").contains("web search"));
        assert_eq!(upstream.last().json()["tools"].as_array().map(Vec::len), Some(1));
        for (tools, choice) in [
            (json!([search]), json!("auto")),
            (json!([own, search]), json!({ "type": "web_search" })),
        ] {
            let refused = ask(tools, choice).await;
            assert_eq!(refused.error().1, "unsupported_parameter", "{backend}");
        }
    }
}
