//! Bodies of requests: a scan takes what `serde_json` takes, counts no more text than there is, and
//! what it edits says the same but for the edits. The first byte is the kind.

use bytes::Bytes;
use gateway_body::{Edits, Invalid, Kind, scan};
use serde_json::{Value, json};

const KINDS: [Kind; 5] =
    [Kind::Other, Kind::Chat, Kind::Responses, Kind::Embeddings, Kind::ImageGenerations];

/// Checks one input.
pub fn run(bytes: &[u8]) {
    let [kind, body @ ..] = bytes else { return };
    let kind = KINDS[usize::from(*kind) % KINDS.len()];
    let tree = serde_json::from_slice::<Value>(body);
    let scanned = match scan(body, kind) {
        Ok(scanned) => scanned,
        Err(Invalid::Malformed(_)) => return assert!(tree.is_err(), "that is JSON"),
        // A value may be wrong before the JSON is.
        Err(_) => return,
    };
    let mut tree = tree.expect("what is taken is JSON");
    assert!(scanned.chars <= 4 * body.len() as u64);
    if let Some(model) = scanned.model {
        assert_eq!(tree["model"], *model.read(body));
    }
    if scanned.end.is_none() || kind == Kind::Other {
        return;
    }
    assert_eq!(tree["stream"] == true, scanned.stream);
    let mut edits = Edits::new();
    if let Some(model) = scanned.model {
        edits.set_text(model, "other\"");
        tree["model"] = json!("other\"");
    }
    edits.include_usage(&scanned);
    edits.set_prompt_cache_retention(&scanned, "24h");
    edits.set_max_tokens(&scanned, 7);
    if !tree["stream_options"].is_object() {
        tree["stream_options"] = json!({});
    }
    tree["stream_options"]["include_usage"] = json!(true);
    tree["prompt_cache_retention"] = json!("24h");
    tree["max_tokens"] = json!(7);
    let edited = edits.apply(&Bytes::copy_from_slice(body)).pieces.concat();
    let edited: Value = serde_json::from_slice(&edited).expect("edits leave JSON");
    // Scans read it again, so that the edits of edits are good as well.
    assert_eq!(edited, tree);
}
