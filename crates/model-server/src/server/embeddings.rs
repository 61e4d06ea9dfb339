//! `POST …/embeddings`: unit vectors that are determined by the text. Equal texts have equal
//! vectors; similar texts are not near each other.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{
    offline::{Call, Offline, number, text},
    reply::{Answered, Refused, Reply},
    saying::{hash, mixed, tokens},
};

const DIMENSIONS: u64 = 1536;
const MAX_DIMENSIONS: u64 = 3072;
/// Most inputs per request.
const MAX_INPUTS: usize = 2048;

impl Offline {
    pub(super) fn embeddings(&self, call: &Call<'_>) -> Answered {
        let body = call.json()?;
        let model = text(&body, "model")?;
        let dimensions = number(&body, "dimensions", MAX_DIMENSIONS)?.unwrap_or(DIMENSIONS);
        let base64 = match body["encoding_format"].as_str() {
            None | Some("float") => false,
            Some("base64") => true,
            Some(_) => {
                let message = "`encoding_format` is `float` or `base64`.";
                return Err(Refused::value("encoding_format", message));
            }
        };
        let mut read = 0;
        let mut data = Vec::new();
        for (index, input) in inputs(&body["input"])?.into_iter().enumerate() {
            read += input_tokens(input)?;
            let vector = vector(hash(input.to_string().as_bytes()), dimensions);
            let embedding = match base64 {
                true => {
                    let bytes: Vec<u8> = vector.iter().flat_map(|x| x.to_le_bytes()).collect();
                    STANDARD.encode(bytes).into()
                }
                false => json!(vector),
            };
            data.push(json!({"object": "embedding", "index": index, "embedding": embedding}));
        }
        Ok(Reply::Json(json!({"object": "list", "data": data, "model": model,
            "usage": {"prompt_tokens": read, "total_tokens": read}})))
    }
}

/// The inputs: a text, a list of texts, a list of token ids, or a list of such lists.
fn inputs(input: &Value) -> Result<Vec<&Value>, Refused> {
    let inputs = match input {
        Value::Array(entries) if entries.first().is_some_and(|entry| !entry.is_number()) => {
            entries.iter().collect()
        }
        other => vec![other],
    };
    if inputs.len() > MAX_INPUTS {
        return Err(Refused::value("input", "`input` has at most 2048 entries."));
    }
    Ok(inputs)
}

fn input_tokens(input: &Value) -> Result<u64, Refused> {
    match input {
        Value::String(text) if !text.is_empty() => Ok(tokens(text.chars().count())),
        Value::Array(ids) if !ids.is_empty() && ids.iter().all(Value::is_u64) => {
            Ok(ids.len() as u64)
        }
        _ => Err(Refused::value("input", "`input` is one or more texts or lists of token ids.")),
    }
}

/// A vector of length 1.
fn vector(seed: u64, dimensions: u64) -> Vec<f32> {
    let random = |at: u64| {
        let bits = mixed(seed.wrapping_add(at)) >> 40;
        bits as f32 / (1_u64 << 23) as f32 - 1.0
    };
    let mut vector: Vec<f32> = (0..dimensions).map(random).collect();
    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
    vector.iter_mut().for_each(|x| *x /= length);
    vector
}
