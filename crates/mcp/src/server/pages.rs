//! The pages of a list, until the server names no further one. A cursor that is empty, or that was sent
//! before, ends the list: asking again would give the same pages forever.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use rmcp::model::PaginatedRequestParams;
use serde_json::Value;

use super::requests::malformed;
use crate::error::Error;

/// The place in a list that is being read. The entries keep their form, even when one of them is
/// malformed.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    /// The cursor of the next page.
    cursor: Option<String>,
    /// Those that were sent.
    sent: BTreeSet<String>,
    /// The pages, as hashes of their entries.
    pages: BTreeSet<u64>,
    count: usize,
    age: Option<Duration>,
}

impl Pages {
    /// The parameters of the request for the next page.
    pub(crate) fn params(&self) -> PaginatedRequestParams {
        PaginatedRequestParams::default().with_cursor(self.cursor.clone())
    }

    /// The entries of the next page. A page that ends a list in a circle, and only repeats another, has none.
    ///
    /// # Errors
    /// An answer without the list `member`.
    pub(crate) fn take(&mut self, answer: &Value, member: &str) -> Result<Vec<Value>, Error> {
        let entries = match answer.get(member) {
            Some(Value::Array(entries)) => entries.clone(),
            Some(_) => return Err(malformed(member, Some(format!("`{member}` is not a list")))),
            None => return Err(malformed(member, Some(format!("`{member}` is missing")))),
        };
        let age = Duration::from_millis(answer.get("ttlMs").and_then(Value::as_u64).unwrap_or(0));
        self.age = Some(self.age.map_or(age, |before| before.min(age)));
        let next = answer.get("nextCursor").and_then(Value::as_str);
        let next = next.filter(|cursor| !cursor.is_empty()).map(str::to_owned);
        self.sent.extend(self.cursor.take());
        let is_circle = next.as_ref().is_some_and(|next| self.sent.contains(next));
        self.cursor = next.filter(|_| !is_circle);
        self.count += 1;
        let is_new = self.pages.insert(hash_of(&entries));
        Ok(if is_circle && !is_new { Vec::new() } else { entries })
    }

    /// True if no page is missing.
    pub(crate) fn are_all(&self) -> bool {
        self.count > 0 && self.cursor.is_none()
    }

    /// For how long the server allows what was read to be kept.
    pub(crate) fn age(&self) -> Duration {
        self.age.unwrap_or(Duration::MAX)
    }
}

fn hash_of(entries: &[Value]) -> u64 {
    let mut hasher = DefaultHasher::new();
    entries.iter().for_each(|entry| entry.to_string().hash(&mut hasher));
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The entries of all pages, and how many were asked for.
    fn all(pages: &[Value]) -> (Vec<Value>, usize) {
        let (mut reading, mut entries) = (Pages::default(), Vec::new());
        for page in pages {
            entries.extend(reading.take(page, "tools").unwrap());
            if reading.are_all() {
                break;
            }
        }
        (entries, reading.count)
    }

    #[test]
    fn a_list_ends_when_its_cursor_says_nothing_new() {
        let page = |entry: u32, cursor: Value| json!({"tools": [entry], "nextCursor": cursor});
        for (pages, expected, asked) in [
            (vec![json!({"tools": [1]})], vec![1], 1),
            (vec![page(1, json!(null))], vec![1], 1),
            (vec![page(1, json!(""))], vec![1], 1),
            (vec![page(1, json!(7))], vec![1], 1),
            (vec![page(1, json!("a")), page(2, json!(""))], vec![1, 2], 2),
            (vec![page(1, json!("7")), page(1, json!("7")), page(1, json!("7"))], vec![1], 2),
            (vec![page(1, json!("7")), page(2, json!("7")), page(3, json!("7"))], vec![1, 2], 2),
            (vec![page(1, json!("a")), page(2, json!("b")), page(1, json!("a"))], vec![1, 2], 3),
            (vec![page(1, json!("a")), page(2, json!("b")), page(3, json!("a"))], vec![1, 2, 3], 3),
            (
                vec![page(1, json!("a")), page(2, json!("b")), page(3, json!(null))],
                vec![1, 2, 3],
                3,
            ),
        ] {
            assert_eq!(all(&pages), (expected.into_iter().map(Value::from).collect(), asked));
        }
        assert!(Pages::default().take(&json!({"tools": 1}), "tools").is_err());
        assert!(Pages::default().take(&json!({}), "tools").is_err());
        assert!(!Pages::default().are_all());
    }
}
