//! Spawns tasks whose type is their result alone.
//!
//! Tokio compiles some kilobytes for each type of future or closure that is spawned, once for each kind of
//! runtime. The program spawns hundreds of them, most of which return nothing: boxed, they are one type.

use std::pin::Pin;

use tokio::task::{self, JoinHandle};

/// A boxed future, for tasks that belong to a `JoinSet` or a certain runtime.
pub type Task<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Boxes a future.
pub fn boxed<T>(future: impl Future<Output = T> + Send + 'static) -> Task<T> {
    Box::pin(future)
}

/// As [`tokio::spawn`].
///
/// # Panics
/// When called outside of a runtime.
#[track_caller]
pub fn spawn<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    tokio::spawn(boxed(future))
}

/// As [`task::spawn_blocking`].
///
/// # Panics
/// When called outside of a runtime.
#[track_caller]
pub fn spawn_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    let work: Box<dyn FnOnce() -> T + Send> = Box::new(work);
    task::spawn_blocking(work)
}

#[cfg(test)]
mod tests {
    #[tokio::test]
    async fn tasks_return_their_results_and_report_panics() {
        assert_eq!(super::spawn(async { 1 }).await.unwrap(), 1);
        assert_eq!(super::spawn_blocking(|| 2).await.unwrap(), 2);
        let mut set = tokio::task::JoinSet::new();
        set.spawn(super::boxed(async { 3 }));
        assert_eq!(set.join_next().await.unwrap().unwrap(), 3);
        assert!(super::spawn(async { panic!("expected") }).await.unwrap_err().is_panic());
    }
}
