//! The keys of a backend: requests take turns with them, one that is refused is put aside, and those in files are read
//! again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use files::Pool;
use gateway_policy::settings::{KeySource, Secret};
use ratelimit::{Micros, SteadyTime};

/// Time for which a refused key is put aside. After it, one request finds out whether it is valid again.
const ASIDE: Micros = 60_000_000;

/// Longest wait for a file.
const PATIENCE: Duration = Duration::from_secs(2);

/// The keys of a backend.
pub(crate) struct KeyRing {
    sources: Vec<KeySource>,
    slots: Mutex<Slots>,
}

struct Slots {
    keys: Vec<Slot>,
    /// The key whose turn it is.
    next: usize,
}

struct Slot {
    key: Arc<str>,
    /// The key before: answers to requests with it may still show it.
    before: Option<Arc<str>>,
    /// Until then it is put aside.
    aside_until: SteadyTime,
    /// True if the file could not be read the last time.
    is_unreadable: bool,
}

/// The result of reading a file again.
enum Replaced {
    /// Nothing is new.
    Same,
    New,
    Unreadable,
}

/// A key for a request.
#[derive(Clone, Debug)]
pub(crate) struct PickedKey {
    at: usize,
    key: Arc<str>,
}

impl PickedKey {
    /// The key itself.
    pub(crate) fn reveal(&self) -> &str {
        &self.key
    }
}

impl KeyRing {
    pub(super) fn new(sources: &[KeySource]) -> Self {
        let slot = |source: &KeySource| Slot {
            key: source.key().reveal().into(),
            before: None,
            aside_until: SteadyTime::default(),
            is_unreadable: false,
        };
        let keys = sources.iter().map(slot).collect();
        Self { sources: sources.to_vec(), slots: Mutex::new(Slots { keys, next: 0 }) }
    }

    /// The next key that is not in `tried`. The first attempt gets one that is put aside rather than none.
    pub(crate) fn pick(&self, tried: &[PickedKey], now: SteadyTime) -> Option<PickedKey> {
        let mut slots = self.slots();
        let count = slots.keys.len();
        let turn = (0..count).map(|step| (slots.next + step) % count);
        let is_tried =
            |at: usize| tried.iter().any(|tried| tried.at == at && tried.key == slots.keys[at].key);
        let is_usable = |at: &usize| slots.keys[*at].aside_until <= now && !is_tried(*at);
        let at = turn.clone().find(is_usable).or_else(|| {
            let first = turn.min_by_key(|at| slots.keys[*at].aside_until);
            first.filter(|_| tried.is_empty())
        })?;
        slots.next = (at + 1) % count;
        Some(PickedKey { at, key: Arc::clone(&slots.keys[at].key) })
    }

    /// The end of the time for which all keys are put aside; `None` if one of them is usable, or there are none.
    pub(crate) fn rest(&self, now: SteadyTime) -> Option<SteadyTime> {
        let until = self.slots().keys.iter().map(|slot| slot.aside_until).min();
        until.filter(|until| *until > now)
    }

    /// Puts a refused key aside, unless it was replaced in the meantime. Returns its name for the log if it was in use.
    pub(crate) fn put_aside(&self, refused: &PickedKey, now: SteadyTime) -> Option<String> {
        let mut slots = self.slots();
        let slot = &mut slots.keys[refused.at];
        if slot.key != refused.key {
            return None;
        }
        let was_in_use = slot.aside_until <= now;
        slot.aside_until = now.after(ASIDE);
        was_in_use.then(|| self.sources[refused.at].shown())
    }

    /// All keys, with those that files held before.
    pub(crate) fn secrets(&self) -> Vec<Arc<str>> {
        let slots = self.slots();
        let all = slots.keys.iter().flat_map(|slot| [Some(&slot.key), slot.before.as_ref()]);
        all.flatten().cloned().collect()
    }

    /// Reads the files again. What cannot be read is logged once, and the key before stays.
    pub(super) async fn read_again(&self, files: &Pool, label: &str) {
        for (at, source) in self.sources.iter().enumerate() {
            let KeySource::File { path, .. } = source else { continue };
            let file = path.clone();
            let read = files.run_within(PATIENCE, path, move || KeySource::read_file(&file)).await;
            let read = read.unwrap_or_else(|error| Err(error.to_string()));
            // Nothing is logged under the lock: each line of the log is searched for the keys.
            match (self.replace(at, &read), &read) {
                (Replaced::New, Ok((_, warning))) => {
                    tracing::info!("backend {label}: {} has another key", path.display());
                    if let Some(warning) = warning {
                        tracing::warn!("backend {label}: {warning}");
                    }
                }
                (Replaced::Unreadable, Err(problem)) => {
                    tracing::warn!("backend {label}: the key before stays in use: {problem}");
                }
                _ => {}
            }
        }
    }

    fn replace(&self, at: usize, read: &Result<(Secret, Option<String>), String>) -> Replaced {
        let mut slots = self.slots();
        let slot = &mut slots.keys[at];
        let was_unreadable = std::mem::replace(&mut slot.is_unreadable, read.is_err());
        match read {
            Ok((key, _)) if key.reveal() == &*slot.key => Replaced::Same,
            Ok((key, _)) => {
                slot.before = Some(std::mem::replace(&mut slot.key, key.reveal().into()));
                slot.aside_until = SteadyTime::default();
                Replaced::New
            }
            Err(_) if was_unreadable => Replaced::Same,
            Err(_) => Replaced::Unreadable,
        }
    }

    /// Returns whether any key is in a file.
    pub(super) fn has_files(&self) -> bool {
        self.sources.iter().any(|source| matches!(source, KeySource::File { .. }))
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: Micros) -> SteadyTime {
        SteadyTime::from_micros(micros)
    }

    fn ring(keys: &[&str]) -> KeyRing {
        let source =
            |key: &&str| KeySource::Variable { name: (*key).into(), key: Secret::new(*key) };
        KeyRing::new(&keys.iter().map(source).collect::<Vec<_>>())
    }

    fn picked(ring: &KeyRing, tried: &[PickedKey], now: Micros) -> Option<String> {
        ring.pick(tried, at(now)).map(|key| key.reveal().to_owned())
    }

    #[test]
    fn requests_take_turns_and_skip_what_is_put_aside() {
        let ring = ring(&["a", "b", "c"]);
        let turns: Vec<_> = (0..4).filter_map(|_| picked(&ring, &[], 0)).collect();
        assert_eq!(turns, ["a", "b", "c", "a"]);
        let b = ring.pick(&[], at(0)).unwrap();
        assert_eq!(ring.put_aside(&b, at(0)).as_deref(), Some("of the variable b"));
        assert_eq!(ring.put_aside(&b, at(0)), None, "it is logged once");
        let turns: Vec<_> = (0..3).filter_map(|_| picked(&ring, &[], 1)).collect();
        assert_eq!(turns, ["c", "a", "c"]);
        assert_eq!(ring.rest(at(1)), None);
        let turns: Vec<_> = (0..3).filter_map(|_| picked(&ring, &[], ASIDE)).collect();
        assert_eq!(turns, ["a", "b", "c"]);
    }

    #[test]
    fn a_request_tries_each_key_once_and_one_in_any_case() {
        let ring = ring(&["a", "b"]);
        let first = ring.pick(&[], at(0)).unwrap();
        let second = ring.pick(std::slice::from_ref(&first), at(0)).unwrap();
        assert_ne!(first.reveal(), second.reveal());
        let tried = [first, second];
        assert!(ring.pick(&tried, at(0)).is_none());
        tried.iter().for_each(|key| drop(ring.put_aside(key, at(5))));
        assert_eq!(ring.rest(at(6)), Some(at(5 + ASIDE)));
        assert!(ring.pick(&[], at(6)).is_some());
        assert!(KeyRing::new(&[]).pick(&[], at(0)).is_none());
    }
}
