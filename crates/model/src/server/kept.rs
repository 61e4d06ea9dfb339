//! A bounded list of objects by id, in the order in which they were made. It lives in memory only.

use std::collections::VecDeque;

use serde_json::{Value, json};

use super::{query::Query, reply::Refused};

/// Objects in one answer when the request names no `limit`, and the most that it may name.
const PAGE: usize = 20;
const MAX_PAGE: usize = 100;

#[derive(Debug)]
pub(super) struct Kept<T> {
    objects: VecDeque<(String, T)>,
    most: usize,
}

impl<T> Kept<T> {
    pub(super) fn new(most: usize) -> Self {
        Self { objects: VecDeque::new(), most }
    }

    /// Adds an object; the oldest one goes when there are too many.
    pub(super) fn push(&mut self, id: String, object: T) {
        if self.objects.len() >= self.most {
            self.objects.pop_front();
        }
        self.objects.push_back((id, object));
    }

    pub(super) fn is_full(&self) -> bool {
        self.objects.len() >= self.most
    }

    pub(super) fn get(&self, id: &str) -> Option<&T> {
        self.objects.iter().find(|(known, _)| known == id).map(|(_, object)| object)
    }

    pub(super) fn get_mut(&mut self, id: &str) -> Option<&mut T> {
        self.objects.iter_mut().find(|(known, _)| known == id).map(|(_, object)| object)
    }

    pub(super) fn remove(&mut self, id: &str) -> Option<T> {
        let at = self.objects.iter().position(|(known, _)| known == id)?;
        self.objects.remove(at).map(|(_, object)| object)
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.objects.iter().map(|(_, object)| object)
    }

    /// One page of the objects that `shown` shows, as `limit`, `order` and `after` ask for.
    pub(super) fn page(
        &self,
        query: &Query<'_>,
        shown: impl Fn(&T) -> Option<Value>,
    ) -> Result<Value, Refused> {
        let limit = match query.get("limit").map(|limit| limit.parse()) {
            None => PAGE,
            Some(Ok(limit @ 1..=MAX_PAGE)) => limit,
            Some(_) => return Err(Refused::value("limit", "`limit` is a number from 1 to 100.")),
        };
        let shown = |(id, object): &(String, T)| shown(object).map(|value| (id.clone(), value));
        let mut all: Vec<(String, Value)> = self.objects.iter().filter_map(shown).collect();
        // Newest first, unless it is asked otherwise.
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
