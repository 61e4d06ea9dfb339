//! The dashboard: server-rendered pages for administrators at `/dashboard`, without scripts. It is
//! read-only.

mod access;
mod attempts;
mod chart;
mod context;
mod credential;
mod deprecations;
mod live;
mod organization;
mod organizations;
mod page;
mod project;
mod session;
mod sign_in;
mod text;

use std::sync::Arc;

use axum::Router;
use axum::middleware::map_response;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{any, get, post};
use hyper::header::{self, HeaderName, HeaderValue};

use attempts::Attempts;
use context::Context;
use page::{Failure, LogLine};
use session::SignedOut;

/// All routes at and below `/dashboard`.
pub(crate) fn router(services: Arc<crate::Services>) -> Router {
    let context = Arc::new(Context {
        services,
        attempts: Attempts::default(),
        signed_out: SignedOut::default(),
    });
    Router::new()
        .route("/dashboard", get(organizations::page))
        .route("/dashboard/", get(|| async { Redirect::permanent("/dashboard") }))
        .route("/dashboard/organizations/{id}", get(organization::page))
        .route("/dashboard/organizations/{id}/projects/{project}", get(project::page))
        .route("/dashboard/deprecations", get(deprecations::page))
        .route("/dashboard/sign-in", get(sign_in::form).post(sign_in::sign_in))
        .route("/dashboard/sign-out", post(sign_in::sign_out))
        .route(
            "/dashboard/style.css",
            get(|| file("text/css", include_str!("dashboard/style.css"))),
        )
        .route(
            "/dashboard/icon.svg",
            get(|| file("image/svg+xml", include_str!("dashboard/icon.svg"))),
        )
        .route("/dashboard/{*rest}", any(|| async { Failure::NotFound("no such page".into()) }))
        .method_not_allowed_fallback(|| async { Failure::Method })
        .layer(map_response(secured))
        .with_state(context)
}

/// Headers of every response: no scripts, no frames, no external resources, no caching. The
/// referrer policy hides the referrer from other sites, but keeps the `Origin` header, which our
/// own forms need.
const SECURITY: [(HeaderName, &str); 7] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; \
         base-uri 'none'; frame-ancestors 'none'",
    ),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (header::CACHE_CONTROL, "no-store"),
];

async fn secured(mut response: Response) -> Response {
    if let Some(LogLine(why)) = response.extensions().get() {
        tracing::warn!("dashboard: {why}");
    }
    let headers = response.headers_mut();
    for (name, value) in SECURITY {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

/// A static file of the pages, the same for all readers.
async fn file(kind: &'static str, text: &'static str) -> Response {
    let headers = [(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "max-age=300")];
    (headers, text).into_response()
}
