//! The dashboard: server-rendered pages for administrators at `/dashboard`, without scripts. Its
//! forms change records through the administration API.

mod access;
mod api;
mod attempts;
mod audit;
mod chart;
mod context;
mod credential;
mod deprecations;
mod form_body;
mod form_token;
mod forms;
mod key;
mod keys;
mod live;
mod notice;
mod organization;
mod organizations;
mod origin;
mod page;
mod payments;
mod project;
mod session;
mod sign_in;
mod text;

use std::sync::Arc;

use axum::Router;
use axum::middleware::map_response;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::any;
use hyper::Method;
use hyper::header::{self, HeaderName, HeaderValue};

use crate::routes::Routes;
use api::Api;
use attempts::Attempts;
use context::Context;
use page::{Failure, LogLine};
use session::SignedOut;

/// All routes at and below `/dashboard`. `api` is the router of the administration API.
pub(crate) fn router(services: Arc<crate::Services>, api: Router) -> Router {
    let context = Arc::new(Context {
        services,
        api: Api::new(api),
        attempts: Attempts::default(),
        signed_out: SignedOut::default(),
    });
    all()
        .router
        .route("/dashboard/{*rest}", any(|| async { Failure::NotFound("no such page".into()) }))
        .method_not_allowed_fallback(|| async { Failure::Method })
        .layer(map_response(secured))
        .with_state(context)
}

/// The methods and paths of [`router`].
pub(crate) fn routes() -> Vec<(Method, String)> {
    all().listed
}

fn all() -> Routes<Arc<Context>> {
    let pages = Routes::new()
        .get("/dashboard", organizations::page)
        .get("/dashboard/", || async { Redirect::permanent("/dashboard") })
        .get("/dashboard/organizations/{id}", organization::page)
        .get("/dashboard/organizations/{id}/keys", keys::page)
        .get("/dashboard/organizations/{id}/payments", payments::page)
        .get("/dashboard/organizations/{id}/audit", audit::page)
        .get("/dashboard/organizations/{id}/audit/export", audit::export)
        .get("/dashboard/organizations/{id}/projects/{project}", project::page)
        .get("/dashboard/organizations/{id}/projects/{project}/limits", project::choose_limits)
        .get("/dashboard/organizations/{id}/projects/{project}/keys/{key}", key::page)
        .get("/dashboard/deprecations", deprecations::page)
        .get("/dashboard/sign-in", sign_in::form)
        .post("/dashboard/sign-in", sign_in::sign_in)
        .post(page::SIGN_OUT, sign_in::sign_out)
        .get("/dashboard/style.css", || file("text/css", include_str!("dashboard/style.css")))
        .get("/dashboard/icon.svg", || file("image/svg+xml", include_str!("dashboard/icon.svg")));
    forms::routes(pages)
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
