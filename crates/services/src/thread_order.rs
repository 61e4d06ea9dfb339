//! The order of a connection's requests about one thread ([`protocol::Ordering::InThread`]): each waits
//! for the response to the one before, and no request about something else waits for them.

use std::collections::HashMap;

use jsonrpc::read_params;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

/// The last request about each thread that has requests without a response.
#[derive(Default)]
pub struct ThreadOrder {
    /// Each resolves when that request is answered. At most one for each concurrent request of the
    /// connection; those of answered requests are removed when their number has doubled.
    last: HashMap<String, oneshot::Receiver<()>>,
    /// Number of entries of `last` above which those of answered requests are next removed.
    looked_at: usize,
}

/// The place of a request among those about the same thread, given up when this is dropped.
pub struct Place {
    before: Option<oneshot::Receiver<()>>,
    _answered: oneshot::Sender<()>,
}

/// Least number of entries that are looked through.
const FEW: usize = 16;

impl ThreadOrder {
    /// The place of a request that arrives now. `None` when its parameters name no thread: such a
    /// request waits for none.
    pub fn place(&mut self, params: Option<&RawValue>) -> Option<Place> {
        let thread = thread_of(params)?;
        if self.last.len() > self.looked_at {
            self.last.retain(|_, answered| answered.try_recv() == Err(TryRecvError::Empty));
            self.looked_at = FEW.max(2 * self.last.len());
        }
        let (answered, next) = oneshot::channel();
        Some(Place { before: self.last.insert(thread, next), _answered: answered })
    }
}

impl Place {
    /// Waits for the response to the request before.
    pub async fn reached(&mut self) {
        if let Some(before) = self.before.take() {
            // Nothing is sent: the sender is dropped, on every way out of the request.
            let _ = before.await;
        }
    }
}

/// The thread that a request is about.
#[must_use]
pub fn thread_of(params: Option<&RawValue>) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct AboutThread {
        thread_id: String,
    }
    let about: AboutThread = read_params(params).ok()?;
    Some(about.thread_id).filter(|id| !id.is_empty())
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;

    use super::*;

    fn place(order: &mut ThreadOrder, params: &str) -> Option<Place> {
        let params = RawValue::from_string(params.to_owned()).unwrap();
        order.place(Some(&params))
    }

    async fn is_reached(place: &mut Place) -> bool {
        if place.before.is_none() {
            return true;
        }
        let before = place.before.as_mut().unwrap();
        let mut before = pin!(before);
        poll_fn(|cx| Poll::Ready(before.as_mut().poll(cx).is_ready())).await
    }

    #[tokio::test]
    async fn requests_about_one_thread_wait_for_each_other_only() {
        let mut order = ThreadOrder::default();
        let first = place(&mut order, r#"{"threadId":"a"}"#);
        let mut second = place(&mut order, r#"{"input":[],"threadId":"a"}"#).unwrap();
        let mut other = place(&mut order, r#"{"threadId":"b"}"#).unwrap();
        assert!(!is_reached(&mut second).await);
        assert!(is_reached(&mut other).await);
        drop(first);
        assert!(is_reached(&mut second).await);
    }

    #[test]
    fn a_request_that_names_no_thread_has_no_place() {
        let mut order = ThreadOrder::default();
        for params in ["{}", r#"{"threadId":""}"#, r#"{"threadId":3}"#, "[]"] {
            assert!(place(&mut order, params).is_none(), "{params}");
        }
        assert!(order.place(None).is_none());
    }

    #[test]
    fn answered_requests_are_forgotten() {
        let mut order = ThreadOrder::default();
        for number in 0..1_000 {
            drop(place(&mut order, &format!(r#"{{"threadId":"t{number}"}}"#)));
        }
        assert!(order.last.len() <= FEW + 1);
    }
}
