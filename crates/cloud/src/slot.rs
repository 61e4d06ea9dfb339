//! The key of one account. A key that is valid always serves: it is renewed by a task of its own, one at a time, and a
//! renewal that failed is not tried again at once. Requests wait only while there is no key to use.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::sync::watch;

use crate::account::Key;
use crate::fetched::{CloudError, Fetched};

/// Time from the start of a renewal to the next one, as long as the old key serves.
const ASKED_AGAIN_AFTER: Duration = Duration::from_secs(30);
/// Shortest time between two renewals of keys that were refused: a refusal may have other causes.
const REFUSED_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// An account's place for what it gave.
#[derive(Default)]
pub(crate) struct Slot {
    state: Mutex<State>,
    /// Signals the end of a fetch.
    ended: watch::Sender<()>,
}

#[derive(Default)]
struct State {
    /// The last key.
    kept: Option<Fetched>,
    /// Why the last fetch gave none.
    error: Option<CloudError>,
    is_fetching: bool,
    /// Start of the last fetch.
    asked_at: Option<SystemTime>,
    /// The last time that a refusal started a fetch.
    refused_at: Option<SystemTime>,
}

impl Slot {
    /// The key: the kept one while it is valid, else that of a fetch, which all that wait for it share. `user` names who
    /// uses it, for the log.
    ///
    /// # Errors
    /// There is no valid key, and the fetch failed.
    pub(crate) async fn key<F>(
        self: &Arc<Self>,
        now: SystemTime,
        user: &str,
        fetch: impl FnOnce() -> F,
    ) -> Result<Key, CloudError>
    where
        F: Future<Output = Result<Fetched, CloudError>> + Send + 'static,
    {
        let mut ended = self.ended.subscribe();
        {
            let mut state = self.state();
            let is_asked = is_within(state.asked_at, now, ASKED_AGAIN_AFTER);
            if let Some(kept) = &state.kept {
                let key = kept.key.clone();
                let has_failed = is_asked && state.error.is_some();
                if kept.is_fresh(now) || (kept.is_valid(now) && has_failed) {
                    return Ok(key);
                }
                if kept.outlasts_a_fetch(now) {
                    // Some services give the same key again until shortly before its end.
                    if !is_asked {
                        self.begin(&mut state, now, user, fetch);
                    }
                    return Ok(key);
                }
            }
            self.begin(&mut state, now, user, fetch);
        }
        // The sender lives as long as the slot.
        let _ = ended.changed().await;
        self.state().outcome(now)
    }

    /// Another key than `refused`, which was refused; `None` if there is no other now. The refused one serves until
    /// there is another.
    ///
    /// # Errors
    /// The fetch failed.
    pub(crate) async fn renewed<F>(
        self: &Arc<Self>,
        refused: &Key,
        now: SystemTime,
        user: &str,
        fetch: impl FnOnce() -> F,
    ) -> Result<Option<Key>, CloudError>
    where
        F: Future<Output = Result<Fetched, CloudError>> + Send + 'static,
    {
        let mut ended = self.ended.subscribe();
        {
            let mut state = self.state();
            if let Some(kept) = state.kept.as_ref().filter(|kept| !kept.key.is_same(refused)) {
                return Ok(Some(kept.key.clone()));
            }
            if !state.is_fetching {
                if is_within(state.refused_at, now, REFUSED_AGAIN_AFTER) {
                    return Ok(None);
                }
                state.refused_at = Some(now);
            }
            self.begin(&mut state, now, user, fetch);
        }
        let _ = ended.changed().await;
        let state = self.state();
        if let Some(error) = &state.error {
            return Err(error.clone());
        }
        let kept = state.kept.as_ref().filter(|kept| !kept.key.is_same(refused));
        Ok(kept.map(|kept| kept.key.clone()))
    }

    /// Starts a fetch, unless one runs.
    fn begin<F>(
        self: &Arc<Self>,
        state: &mut State,
        now: SystemTime,
        user: &str,
        fetch: impl FnOnce() -> F,
    ) where
        F: Future<Output = Result<Fetched, CloudError>> + Send + 'static,
    {
        if std::mem::replace(&mut state.is_fetching, true) {
            return;
        }
        state.asked_at = Some(now);
        let fetched = fetch();
        let fetching = Fetching { slot: Arc::clone(self), user: user.to_owned(), result: None };
        tokio::spawn(async move {
            let mut fetching = fetching;
            fetching.result = Some(fetched.await);
        });
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The outcome of the last fetch.
    fn outcome(&self, now: SystemTime) -> Result<Key, CloudError> {
        match (&self.kept, &self.error) {
            // One that has just come is used however short its time is.
            (Some(kept), error) if error.is_none() || kept.is_valid(now) => Ok(kept.key.clone()),
            (_, Some(error)) => Err(error.clone()),
            (_, None) => Err(abandoned()),
        }
    }
}

fn abandoned() -> CloudError {
    CloudError { message: "fetching the credentials ended early".to_owned(), passes: true }
}

/// A fetch that runs. Its end, even that of its task, is noted.
struct Fetching {
    slot: Arc<Slot>,
    user: String,
    result: Option<Result<Fetched, CloudError>>,
}

impl Drop for Fetching {
    fn drop(&mut self) {
        let mut state = self.slot.state();
        state.is_fetching = false;
        match self.result.take().unwrap_or_else(|| Err(abandoned())) {
            Ok(fetched) => (state.kept, state.error) = (Some(fetched), None),
            Err(mut error) => {
                if state.kept.is_some() {
                    tracing::warn!(
                        target: "model::cloud",
                        "{}: its credentials cannot be renewed yet: {}", self.user, error.message
                    );
                    // The account gave some before.
                    error.passes = true;
                }
                state.error = Some(error);
            }
        }
        drop(state);
        self.slot.ended.send_replace(());
    }
}

/// Returns whether `at` is less than `time` ago. After a step of the clock it is not.
fn is_within(at: Option<SystemTime>, now: SystemTime, time: Duration) -> bool {
    at.and_then(|at| now.duration_since(at).ok()).is_some_and(|ago| ago < time)
}

#[cfg(test)]
mod tests {
    use http_client::Secret;
    use tokio::sync::oneshot;

    use super::*;

    fn key(name: &str) -> Key {
        Key::Bearer(Secret::new(name))
    }

    fn fetched(name: &str, ends: SystemTime) -> Result<Fetched, CloudError> {
        Ok(Fetched { key: key(name), ends: Some(ends) })
    }

    fn away() -> Result<Fetched, CloudError> {
        Err(CloudError::permanent("away"))
    }

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    async fn given(slot: &Arc<Slot>, now: u64, given: Result<Fetched, CloudError>) -> Key {
        slot.key(at(now), "u", || async move { given }).await.unwrap()
    }

    async fn ended(slot: &Arc<Slot>) {
        while slot.state().is_fetching {
            tokio::task::yield_now().await;
        }
    }

    fn never() -> std::future::Ready<Result<Fetched, CloudError>> {
        panic!("it is not fetched")
    }

    #[tokio::test]
    async fn a_valid_key_serves_while_its_renewal_takes_long_or_fails() {
        let slot = Arc::new(Slot::default());
        assert_eq!(given(&slot, 0, fetched("one", at(1000))).await, key("one"));
        assert_eq!(slot.key(at(700), "u", never).await, Ok(key("one")));
        // It is due, and the service is slow: no request waits, and only one fetch runs.
        let (answer, slow) = oneshot::channel();
        let first = slot.key(at(800), "u", || async move { slow.await.unwrap() }).await;
        assert_eq!(first, Ok(key("one")));
        assert_eq!(slot.key(at(801), "u", never).await, Ok(key("one")));
        answer.send(away()).unwrap();
        ended(&slot).await;
        // The failure is remembered, whatever its kind.
        assert_eq!(slot.key(at(829), "u", never).await, Ok(key("one")));
        assert_eq!(given(&slot, 831, away()).await, key("one"));
        ended(&slot).await;
        // Shortly before its end, a request waits for the next one; the old one serves if there is none.
        assert_eq!(given(&slot, 980, away()).await, key("one"));
        assert_eq!(slot.key(at(990), "u", never).await, Ok(key("one")));
        let error = slot.key(at(1000), "u", || async { away() }).await.unwrap_err();
        assert!(error.passes, "it gave keys before");
        assert_eq!(given(&slot, 1001, fetched("two", at(5000))).await, key("two"));
    }

    #[tokio::test]
    async fn requests_without_a_key_share_a_fetch() {
        let slot = Arc::new(Slot::default());
        let (answer, slow) = oneshot::channel();
        let first = slot.key(at(0), "u", || async move { slow.await.unwrap() });
        let second = slot.key(at(0), "u", never);
        let send = async { answer.send(away()).unwrap() };
        let (first, second, ()) = tokio::join!(first, second, send);
        assert_eq!(first, second);
        assert!(!first.unwrap_err().passes);
        // A client that leaves ends no fetch.
        let (answer, slow) = oneshot::channel();
        {
            let left = slot.key(at(1), "u", || async move { slow.await.unwrap() });
            tokio::pin!(left);
            let waits = std::future::poll_fn(|cx| std::task::Poll::Ready(left.as_mut().poll(cx)));
            assert!(waits.await.is_pending());
        }
        answer.send(fetched("one", at(9000))).unwrap();
        ended(&slot).await;
        assert_eq!(slot.key(at(2), "u", never).await, Ok(key("one")));
    }

    #[tokio::test]
    async fn a_refused_key_is_renewed_once_a_minute_and_serves_until_then() {
        let slot = Arc::new(Slot::default());
        given(&slot, 0, fetched("one", at(9000))).await;
        let renewed = slot.renewed(&key("one"), at(10), "u", || async { away() }).await;
        assert_eq!(renewed.unwrap_err().message, "away");
        assert_eq!(slot.key(at(11), "u", never).await, Ok(key("one")));
        assert_eq!(slot.renewed(&key("one"), at(69), "u", never).await, Ok(None));
        let two = || async { fetched("two", at(9000)) };
        assert_eq!(slot.renewed(&key("one"), at(70), "u", two).await, Ok(Some(key("two"))));
        // Another request learned of the refusal later.
        assert_eq!(slot.renewed(&key("one"), at(71), "u", never).await, Ok(Some(key("two"))));
        assert_eq!(slot.renewed(&key("two"), at(72), "u", never).await, Ok(None));
        // The account has the same one still.
        let same = || async { fetched("two", at(9000)) };
        assert_eq!(slot.renewed(&key("two"), at(140), "u", same).await, Ok(None));
        assert_eq!(slot.key(at(141), "u", never).await, Ok(key("two")));
    }
}
