//! A router that knows its own routes, so that a test can go through all of them.

use std::sync::Arc;

use axum::Router;
use axum::handler::Handler;
use axum::routing::{MethodRouter, delete, get, post};
use hyper::Method;

use crate::Services;

/// Routes and their handlers.
#[derive(Default)]
pub(super) struct Routes {
    pub(super) router: Router<Arc<Services>>,
    /// Methods and paths.
    pub(super) listed: Vec<(Method, String)>,
}

impl Routes {
    pub(super) fn get<T: 'static>(
        self,
        path: &str,
        handler: impl Handler<T, Arc<Services>>,
    ) -> Self {
        self.add(Method::GET, path, get(handler))
    }

    pub(super) fn post<T: 'static>(
        self,
        path: &str,
        handler: impl Handler<T, Arc<Services>>,
    ) -> Self {
        self.add(Method::POST, path, post(handler))
    }

    pub(super) fn delete<T: 'static>(
        self,
        path: &str,
        handler: impl Handler<T, Arc<Services>>,
    ) -> Self {
        self.add(Method::DELETE, path, delete(handler))
    }

    fn add(mut self, method: Method, path: &str, handler: MethodRouter<Arc<Services>>) -> Self {
        self.listed.push((method, path.to_owned()));
        Self { router: self.router.route(path, handler), listed: self.listed }
    }
}
