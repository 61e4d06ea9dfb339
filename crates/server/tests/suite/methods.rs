//! Every method of the table answers, and none that it is not implemented; members that are not are refused.

use serde_json::{Value, json};
use testkit::TestEnvironment;

use crate::says;

#[tokio::test]
async fn every_method_answers() {
    let env = TestEnvironment::with_responses(json!([says("Hello.")])).await;
    let server = env.start();
    let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
    for method in protocol::METHODS {
        let params = protocol::generate::minimal_params(method.name).unwrap();
        let answer = peer.try_call(method.name, params).await;
        if let Err(fault) = answer {
            let refused = matches!(fault.code, -32600 | -32602)
                || method.name == "thread/turns/items/list" && fault.code == -32601;
            assert!(refused, "{}: {fault:?}", method.name);
        }
    }
}

#[tokio::test]
async fn a_method_without_parameters_takes_none() {
    let env = TestEnvironment::with_responses(json!([says("Hello.")])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    for method in ["thread/start", "thread/list", "thread/loaded/list", "model/list"] {
        peer.call(method, Value::Null).await;
    }
}

#[tokio::test]
async fn an_unknown_method_is_named() {
    let env = TestEnvironment::with_responses(json!([says("Hello.")])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let fault = peer.refused("thread/dance", json!({})).await;
    assert_eq!(fault.code, -32601);
    assert!(fault.message.contains("thread/dance"), "{}", fault.message);
    // Unsupported by the specification, whatever its parameters are.
    let params = protocol::generate::minimal_params("thread/turns/items/list").unwrap();
    for params in [params, json!({}), Value::Null, json!({ "threadId": 5 }), json!([1])] {
        let fault = peer.refused("thread/turns/items/list", params).await;
        assert_eq!((fault.code, fault.data), (-32601, Value::Null));
        assert!(fault.message.contains("not supported"), "{}", fault.message);
    }
}

/// A client learns that a member has no effect, and which.
#[tokio::test]
async fn members_that_are_not_implemented_are_refused_by_name() {
    let env = TestEnvironment::with_responses(json!([says("Hello.")])).await;
    let server = env.start();
    let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
    let thread = peer.start_thread(json!({})).await;
    let input = json!([{ "type": "text", "text": "Hello" }]);
    let turn = json!({ "threadId": thread, "input": input, "environments": [] });
    let steer = json!({ "threadId": thread, "input": input, "expectedTurnId": "any",
        "responsesapiClientMetadata": {} });
    for (method, params, member) in [
        ("thread/start", json!({ "environments": [] }), "environments"),
        ("thread/start", json!({ "experimentalRawEvents": true }), "experimentalRawEvents"),
        ("turn/start", turn, "environments"),
        ("turn/steer", steer, "responsesapiClientMetadata"),
    ] {
        let fault = peer.refused(method, params).await;
        assert_eq!((fault.code, fault.data), (-32601, json!({ "reason": "notImplemented" })));
        assert!(fault.message.contains(&format!("`{method}.{member}`")), "{}", fault.message);
    }
}

/// Methods that have little to refuse: what their parameters must be is all.
#[tokio::test]
async fn parameters_of_the_wrong_type_are_refused_by_name() {
    let env = TestEnvironment::with_responses(json!([says("Hello.")])).await;
    let server = env.start();
    let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
    let no_object = "`params` must be an object";
    for (method, params, reason) in [
        ("thread/unsubscribe", json!({}), "missing field `threadId`"),
        ("thread/unsubscribe", json!({ "threadId": 5 }), "`threadId`: invalid type: integer `5`"),
        ("account/read", json!({ "refreshToken": "yes" }), "`refreshToken`: invalid type: string"),
        ("account/login/cancel", json!({}), "missing field `loginId`"),
        ("account/login/cancel", json!({ "loginID": "x" }), "missing field `loginId`"),
        ("account/login/cancel", json!({ "loginId": [] }), "`loginId`: invalid type: array"),
        ("config/read", json!({ "includeLayers": "yes" }), "`includeLayers`: invalid type: string"),
        ("account/logout", json!([1]), no_object),
        ("account/rateLimits/read", json!([1]), no_object),
        ("collaborationMode/list", json!("plan"), no_object),
        ("config/mcpServer/reload", json!(["one"]), no_object),
        ("configRequirements/read", json!(5), no_object),
        ("modelProvider/capabilities/read", json!("openai"), no_object),
    ] {
        let fault = peer.refused(method, params.clone()).await;
        assert_eq!(fault.code, -32602, "{method} {params}: {fault:?}");
        assert!(fault.message.contains(reason), "{method} {params}: {fault:?}");
    }
}

#[tokio::test]
async fn models_are_listed_in_pages() {
    let env = TestEnvironment::with_responses(json!([says("Hello.")])).await;
    env.write_config("model_provider = \"default\"\n");
    let server = env.start();
    let mut peer = server.connect().await;
    let all = peer.call("model/list", json!({ "includeHidden": true })).await;
    let ids = |page: &Value| -> Vec<String> {
        let data = page["data"].as_array().unwrap();
        data.iter().map(|model| model["id"].as_str().unwrap().to_owned()).collect()
    };
    let mut paged = Vec::new();
    let mut cursor = Value::Null;
    loop {
        let page = peer
            .call("model/list", json!({ "includeHidden": true, "limit": 1, "cursor": cursor }))
            .await;
        paged.extend(ids(&page));
        cursor = page["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(paged, ids(&all));
    let visible = peer.call("model/list", json!({})).await;
    let visible = visible["data"].as_array().unwrap();
    assert!(visible.iter().all(|model| model["hidden"] == false));
    assert_eq!(visible.iter().filter(|model| model["isDefault"] == true).count(), 1);
}

#[tokio::test]
#[cfg(not(windows))]
async fn the_windows_sandbox_does_not_apply() {
    let env = TestEnvironment::with_responses(json!([says("Hello.")])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let setup = json!({ "mode": "unelevated" });
    for (method, params) in
        [("windowsSandbox/readiness", json!({})), ("windowsSandbox/setupStart", setup)]
    {
        let fault = peer.refused(method, params).await;
        assert_eq!((fault.code, &fault.data["reason"]), (-32600, &json!("notApplicable")));
        assert!(fault.message.contains("applies to Windows only"), "{fault:?}");
    }
}
