//! The stored shape of what a thread has used.

use serde::{Deserialize, Serialize};
use session::Usage;

/// The tokens and the cost of a thread so far, and the tokens of its last response.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// In picodollars; older threads have no cost.
    pub cost: Option<i64>,
    #[serde(with = "Shape", default)]
    pub last: Usage,
    #[serde(with = "Shape")]
    pub total: Usage,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Usage", rename_all = "camelCase")]
struct Shape {
    #[serde(default)]
    cache_write_input: i64,
    cached_input: i64,
    input: i64,
    output: i64,
    reasoning_output: i64,
    total: i64,
}

impl Totals {
    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("plain data")
    }

    /// Tokens and cost of the thread `id`. Both are unknown when the stored ones cannot be read: they
    /// only inform.
    pub fn read(id: &str, json: Option<&str>) -> (Usage, Option<i64>) {
        let Some(json) = json else { return (Usage::default(), Some(0)) };
        match super::read::<Self>(&format!("the token totals of thread {id}"), json) {
            Ok(Self { total, cost, .. }) => (total, cost),
            Err(error) => {
                tracing::warn!(target: "server::store", "{error}");
                (Usage::default(), None)
            }
        }
    }
}
