//! A bounded list of objects by id, in the order of their creation, in memory.

use std::collections::VecDeque;

use serde_json::{Value, json};

use super::{query::Query, reply::Refused};

/// Default and maximum of `limit`.
pub(super) const PAGE: (usize, usize) = (20, 100);
/// The same for files.
pub(super) const FILES_PAGE: (usize, usize) = (10_000, 10_000);

#[derive(Debug)]
pub(super) struct Kept<T> {
    objects: VecDeque<(String, T, usize)>,
    most: usize,
    /// Total size of the objects, in bytes.
    bytes: usize,
}

/// Largest total size of all objects of one kind, in bytes.
const MAX_BYTES: usize = 256 << 20;

impl<T> Kept<T> {
    pub(super) fn new(most: usize) -> Self {
        Self { objects: VecDeque::new(), most, bytes: 0 }
    }

    /// Adds an object of this size; drops the oldest ones when full.
    pub(super) fn push(&mut self, id: String, object: T, bytes: usize) {
        while !self.fits(bytes) {
            let Some((_, _, freed)) = self.objects.pop_front() else { break };
            self.bytes -= freed;
        }
        self.bytes += bytes;
        self.objects.push_back((id, object, bytes));
    }

    /// Returns whether an object of this size can be added without dropping another.
    pub(super) fn fits(&self, bytes: usize) -> bool {
        self.objects.len() < self.most && self.bytes + bytes <= MAX_BYTES
    }

    pub(super) fn get(&self, id: &str) -> Option<&T> {
        self.objects.iter().find(|(known, ..)| known == id).map(|(_, object, _)| object)
    }

    pub(super) fn get_mut(&mut self, id: &str) -> Option<&mut T> {
        self.objects.iter_mut().find(|(known, ..)| known == id).map(|(_, object, _)| object)
    }

    pub(super) fn remove(&mut self, id: &str) -> Option<T> {
        let at = self.objects.iter().position(|(known, ..)| known == id)?;
        let (_, object, bytes) = self.objects.remove(at)?;
        self.bytes -= bytes;
        Some(object)
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.objects.iter().map(|(_, object, _)| object)
    }

    /// A page of the objects that `shown` renders, selected by `limit`, `order` and `after`.
    pub(super) fn page(
        &self,
        query: &Query<'_>,
        (usual, most): (usize, usize),
        shown: impl Fn(&T) -> Option<Value>,
    ) -> Result<Value, Refused> {
        let limit = match query.get("limit").map(|limit| limit.parse()) {
            None => usual,
            Some(Ok(limit)) if (1..=most).contains(&limit) => limit,
            Some(_) => {
                let message = format!("`limit` is a number from 1 to {most}.");
                return Err(Refused::value("limit", message));
            }
        };
        let shown =
            |(id, object, _): &(String, T, usize)| shown(object).map(|value| (id.clone(), value));
        let mut all: Vec<(String, Value)> = self.objects.iter().filter_map(shown).collect();
        // The default is newest first.
        if query.get("order").as_deref() != Some("asc") {
            all.reverse();
        }
        let after = query.get("after");
        let begin = match &after {
            Some(after) => {
                all.iter().position(|(id, _)| id == after).map_or(all.len(), |at| at + 1)
            }
            None => 0,
        };
        let rest = &all[begin..];
        let page = &rest[..rest.len().min(limit)];
        let data: Vec<&Value> = page.iter().map(|(_, value)| value).collect();
        Ok(json!({"object": "list", "data": data,
            "first_id": page.first().map(|(id, _)| id), "last_id": page.last().map(|(id, _)| id),
            "has_more": rest.len() > limit}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_object_is_evicted() {
        let mut kept = Kept::new(3);
        for id in ["a", "b", "c", "d"] {
            kept.push(id.to_owned(), id, 10);
        }
        assert!(kept.get("a").is_none() && kept.get("b").is_some() && !kept.fits(0));
        kept.push("e".to_owned(), "e", MAX_BYTES - 15);
        let left: Vec<_> = kept.values().copied().collect();
        assert_eq!(left, ["d", "e"]);
        assert!(kept.fits(5) && !kept.fits(6));
        kept.remove("e");
        assert!(kept.fits(MAX_BYTES - 10));
    }

    #[test]
    fn pages_are_consecutive() {
        let mut kept = Kept::new(10);
        for number in 0..5 {
            kept.push(number.to_string(), number, 0);
        }
        let page = |query: &str| {
            let page = kept.page(&Query(query), PAGE, |number| Some(json!(number))).unwrap();
            (page["data"].clone(), page["has_more"] == true)
        };
        assert_eq!(page(""), (json!([4, 3, 2, 1, 0]), false));
        assert_eq!(page("limit=2"), (json!([4, 3]), true));
        assert_eq!(page("limit=3&after=3"), (json!([2, 1, 0]), false));
        assert_eq!(page("order=asc&limit=2&after=1"), (json!([2, 3]), true));
        assert_eq!(page("after=unknown"), (json!([]), false));
        for bad in ["limit=0", "limit=101", "limit=x", "limit=-1"] {
            assert!(kept.page(&Query(bad), PAGE, |number| Some(json!(number))).is_err());
        }
    }
}
