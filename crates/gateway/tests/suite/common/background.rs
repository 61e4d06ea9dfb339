//! An upstream of responses in the background, whose states the test sets.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hyper::Method;
use serde_json::{Value, json};

use super::upstream::{Received, Script, Step, Upstream, event};

/// The upstream. Responses are `resp_1`, `resp_2` …
pub(crate) struct Background {
    pub(crate) upstream: Upstream,
    responses: Arc<Mutex<Responses>>,
}

/// The responses by id, and the number of all that were created.
#[derive(Debug, Default)]
struct Responses {
    by_id: BTreeMap<String, Value>,
    created: usize,
}

impl Background {
    pub(crate) async fn start() -> Self {
        let responses = Arc::new(Mutex::<Responses>::default());
        let shared = Arc::clone(&responses);
        let upstream = Upstream::answering(move |received| answer(&mut lock(&shared), received));
        Self { upstream: upstream.await, responses }
    }

    /// Changes members of a response; one that is deleted or forgotten stays so.
    pub(crate) fn set(&self, id: &str, members: &Value) {
        if let Some(response) = lock(&self.responses).by_id.get_mut(id) {
            for (name, value) in members.as_object().expect("members") {
                response[name] = value.clone();
            }
        }
    }

    /// Answers for a response with 404 from now on.
    pub(crate) fn forget(&self, id: &str) {
        lock(&self.responses).by_id.remove(id);
    }

    /// Number of requests for the state of a response.
    pub(crate) fn looks(&self, id: &str) -> usize {
        let path = format!("/v1/responses/{id}");
        let is_look = |one: &&Received| one.method == Method::GET && one.path == path;
        self.upstream.received().iter().filter(is_look).count()
    }
}

fn lock(responses: &Mutex<Responses>) -> MutexGuard<'_, Responses> {
    responses.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Twelve characters of output: three tokens.
pub(crate) fn text() -> Value {
    json!([{ "type": "message", "content": [{ "type": "output_text", "text": "123456789012" }] }])
}

fn answer(responses: &mut Responses, received: &Received) -> Script {
    let path = received.path.split('?').next().unwrap_or_default();
    let mut parts = path.trim_start_matches("/v1/responses").trim_start_matches('/').split('/');
    let (id, action) = (parts.next().unwrap_or_default(), parts.next());
    let unknown = || {
        let error = json!({ "message": "There is no such response", "code": "not_found" });
        Script::error(404, &json!({ "error": error }))
    };
    if received.method == Method::POST && id.is_empty() {
        return created(responses, received);
    }
    match (received.method.as_str(), action) {
        ("GET", None) => responses.by_id.get(id).map_or_else(unknown, Script::json),
        ("POST", Some("cancel")) => {
            let Some(response) = responses.by_id.get_mut(id) else { return unknown() };
            if matches!(response["status"].as_str(), Some("queued" | "in_progress")) {
                response["status"] = json!("cancelled");
            }
            Script::json(response)
        }
        ("DELETE", None) => match responses.by_id.remove(id) {
            Some(_) => Script::json(&json!({ "id": id, "object": "response", "deleted": true })),
            None => unknown(),
        },
        _ => unknown(),
    }
}

fn created(responses: &mut Responses, received: &Received) -> Script {
    responses.created += 1;
    let id = format!("resp_{}", responses.created);
    let response = json!({
        "id": id, "object": "response", "status": "queued", "background": true, "error": null,
        "output": [], "usage": null,
    });
    responses.by_id.insert(id, response.clone());
    if received.json()["stream"] != json!(true) {
        return Script::json(&response);
    }
    let begun = json!({ "type": "response.created", "response": response });
    let delta = json!({ "type": "response.output_text.delta", "delta": "123456789012" });
    let bytes = |value: &Value| Step::Bytes(event(value).into());
    Script::stream(vec![bytes(&begun), bytes(&delta), Step::Hang])
}
