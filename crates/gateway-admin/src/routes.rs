//! A router that knows its own routes, so that a test can go through all of them.

use axum::Router;
use axum::handler::Handler;
use axum::routing::{MethodRouter, delete, get, post};
use hyper::Method;

/// Routes and their handlers.
pub(crate) struct Routes<S> {
    pub(crate) router: Router<S>,
    /// Methods and paths.
    pub(crate) listed: Vec<(Method, String)>,
}

impl<S: Clone + Send + Sync + 'static> Routes<S> {
    pub(crate) fn new() -> Self {
        Self { router: Router::new(), listed: Vec::new() }
    }

    pub(crate) fn get<T: 'static>(self, path: &str, handler: impl Handler<T, S>) -> Self {
        self.add(Method::GET, path, get(handler))
    }

    pub(crate) fn post<T: 'static>(self, path: &str, handler: impl Handler<T, S>) -> Self {
        self.add(Method::POST, path, post(handler))
    }

    pub(crate) fn delete<T: 'static>(self, path: &str, handler: impl Handler<T, S>) -> Self {
        self.add(Method::DELETE, path, delete(handler))
    }

    fn add(mut self, method: Method, path: &str, handler: MethodRouter<S>) -> Self {
        self.listed.push((method, path.to_owned()));
        Self { router: self.router.route(path, handler), listed: self.listed }
    }
}
