//! Waiting for the first of several futures.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

/// The result of the first of the futures that is ready; never without any.
pub async fn first<F: Future>(futures: impl Iterator<Item = F>) -> F::Output {
    let mut futures: Vec<Pin<Box<F>>> = futures.map(Box::pin).collect();
    poll_fn(|cx| {
        let mut polled = futures.iter_mut().map(|future| future.as_mut().poll(cx));
        polled.find(Poll::is_ready).unwrap_or(Poll::Pending)
    })
    .await
}
