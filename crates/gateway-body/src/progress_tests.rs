//! States of whole answers and of streams.

use serde_json::json;

use super::*;
use crate::Reader;
use crate::answer::tests::{events, json_outcome, outcome};

#[test]
fn progress_is_the_last_status_of_the_answer() {
    use Progress::{Cancelled, Completed, Expired, Failed, Incomplete, Open};
    for (status, expected) in [
        (json!("queued"), Some(Open)),
        (json!("in_progress"), Some(Open)),
        (json!("completed"), Some(Completed)),
        (json!("succeeded"), Some(Completed)),
        (json!("c\u{6f}mpleted"), Some(Completed)),
        (json!("incomplete"), Some(Incomplete)),
        (json!("failed"), Some(Failed)),
        (json!("cancelled"), Some(Cancelled)),
        (json!("canceled"), Some(Cancelled)),
        (json!("expired"), Some(Expired)),
        (json!("Completed"), Some(Open)),
        (json!(""), Some(Open)),
        (json!("x".repeat(1000)), None),
        (json!(null), None),
        (json!(7), None),
        (json!({ "status": "completed" }), None),
        (json!(["completed"]), None),
    ] {
        let output = json!([{ "type": "message", "status": "completed", "content": [] }]);
        let body = json!({ "id": "resp_1", "status": status, "output": output });
        assert_eq!(json_outcome(&body).progress, expected, "{status}");
        let created = json!({ "type": "response.created", "response": body });
        let seen = outcome(Reader::events, events(&[created]).as_bytes());
        assert_eq!(seen.progress, expected, "{status}");
    }
    assert_eq!(json_outcome(&json!({ "output": [{ "status": "completed" }] })).progress, None);
}

#[test]
fn a_job_tells_what_it_has_trained() {
    for (told, expected, is_invalid) in [
        (json!(0), Some(0), false),
        (json!(5_000_000_000_u64), Some(5_000_000_000), false),
        (json!(null), None, false),
        (json!(-1), None, true),
        (json!(1.5), None, true),
        (json!(1e30), None, true),
        (json!("1000"), None, true),
        (json!({ "tokens": 5 }), None, false),
    ] {
        let job = json!({ "id": "ftjob-1", "status": "succeeded", "trained_tokens": told });
        let seen = json_outcome(&job);
        assert_eq!((seen.trained_tokens, seen.usage_invalid), (expected, is_invalid), "{told}");
        // Elsewhere it is no such number.
        let other = json!({ "id": "x", "metadata": { "trained_tokens": told } });
        assert_eq!(json_outcome(&other).trained_tokens, None);
    }
}

#[test]
fn progress_of_a_stream_is_that_of_its_last_event() {
    use Progress::{Cancelled, Completed, Failed, Incomplete, Open};
    let created =
        json!({ "type": "response.created", "response": { "id": "r", "status": "queued" } });
    let item = json!({ "type": "response.output_item.done", "item": { "status": "completed" } });
    let delta = json!({ "type": "response.output_text.delta", "delta": "x" });
    for (last, expected) in [
        (delta, Open),
        (item.clone(), Open),
        (json!({ "type": "response.in_progress", "response": { "status": "in_progress" } }), Open),
        (json!({ "type": "response.completed", "response": { "id": "r" } }), Completed),
        (json!({ "type": "response.incomplete" }), Incomplete),
        (json!({ "type": "response.failed", "response": { "status": 5 } }), Failed),
        (json!({ "type": "response.cancelled" }), Cancelled),
        (json!({ "type": "error", "message": "It failed" }), Open),
    ] {
        let text = events(&[created.clone(), item.clone(), last.clone()]);
        let mut reader = Reader::events();
        reader.feed(text.as_bytes());
        assert_eq!((reader.progress(), reader.id()), (Some(expected), Some("r")), "{last}");
        assert_eq!(outcome(Reader::events, text.as_bytes()).progress, Some(expected), "{last}");
    }
}
