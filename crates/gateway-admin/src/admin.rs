//! The administration over HTTP: organizations, projects, keys, limits, spend and usage, in the
//! shapes of the public administration API. It writes records and reads the ledger; clients' API
//! requests do not pass through it. Unsupported resources (users, invitations, certificates, roles,
//! audit logs …) return 404.

mod admin_keys;
pub(crate) mod authority;
mod export;
mod input;
mod keys;
mod model_permissions;
mod organizations;
mod output;
mod projects;
mod rate_limits;
mod service_accounts;
mod spend;
mod usage;

use std::sync::Arc;

use authority::Authority;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};
use hyper::StatusCode;

use gateway_policy::error::ApiError;

use crate::Services;

/// Largest body, in bytes.
const MAX_BODY: usize = 256 << 10;

/// Everything under `/v1/organizations` and `/v1/organization`. This router receives all requests
/// for these paths, and also answers those for unsupported ones.
pub(crate) fn router(context: Arc<Services>) -> Router {
    Router::new()
        .merge(organizations_routes())
        .merge(projects_routes())
        .merge(keys_routes())
        .merge(money_routes())
        .fallback(unknown_resource)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .with_state(context)
}

fn organizations_routes() -> Router<Arc<Services>> {
    Router::new()
        .route("/v1/organizations", get(organizations::list).post(organizations::create))
        .route(
            "/v1/organizations/{id}",
            get(organizations::get).post(organizations::update).delete(organizations::delete),
        )
        .route(
            "/v1/organizations/{id}/payments",
            get(organizations::payments).post(organizations::pay),
        )
        .route(
            "/v1/organization/data_retention",
            get(organizations::retention).post(organizations::retain),
        )
        .route("/v1/organization/admin_api_keys", get(admin_keys::list).post(admin_keys::create))
        .route(
            "/v1/organization/admin_api_keys/{id}",
            get(admin_keys::get).delete(admin_keys::revoke),
        )
}

fn projects_routes() -> Router<Arc<Services>> {
    Router::new()
        .route("/v1/organization/projects", get(projects::list).post(projects::create))
        .route("/v1/organization/projects/{p}", get(projects::get).post(projects::update))
        .route("/v1/organization/projects/{p}/archive", post(projects::archive))
        .route(
            "/v1/organization/projects/{p}/model_permissions",
            get(model_permissions::of_project)
                .post(model_permissions::set_of_project)
                .delete(model_permissions::delete_of_project),
        )
        .route("/v1/organization/projects/{p}/rate_limits", get(rate_limits::list))
        .route("/v1/organization/projects/{p}/rate_limits/{id}", post(rate_limits::update))
}

fn keys_routes() -> Router<Arc<Services>> {
    let accounts = "/v1/organization/projects/{p}/service_accounts";
    let keys = "/v1/organization/projects/{p}/api_keys";
    Router::new()
        .route(keys, get(keys::list).post(keys::create))
        .route(&format!("{keys}/{{id}}"), get(keys::get).post(keys::update).delete(keys::revoke))
        .route(&format!("{keys}/{{id}}/rotate"), post(keys::rotate))
        .route(
            &format!("{keys}/{{id}}/model_permissions"),
            get(model_permissions::of_key)
                .post(model_permissions::set_of_key)
                .delete(model_permissions::delete_of_key),
        )
        .route(accounts, get(service_accounts::list).post(service_accounts::create))
        .route(
            &format!("{accounts}/{{id}}"),
            get(service_accounts::get)
                .post(service_accounts::update)
                .delete(service_accounts::delete),
        )
        .route(&format!("{accounts}/{{id}}/api_keys"), post(service_accounts::create_key))
}

fn money_routes() -> Router<Arc<Services>> {
    let mut router = Router::new()
        .route("/v1/organization/usage/export", get(export::export))
        .route("/v1/organization/usage/{page}", get(usage::usage))
        .route("/v1/organization/costs", get(usage::costs));
    for scope in ["/v1/organization", "/v1/organization/projects/{p}"] {
        router = router
            .route(
                &format!("{scope}/spend_limit"),
                get(spend::limit).post(spend::set_limit).delete(spend::delete_limit),
            )
            .route(&format!("{scope}/spend_alerts"), get(spend::alerts).post(spend::create_alert))
            .route(
                &format!("{scope}/spend_alerts/{{id}}"),
                get(spend::alert).post(spend::update_alert).delete(spend::delete_alert),
            );
    }
    router
}

/// 404 for unsupported resources. The authority is checked first.
async fn unknown_resource(authority: Result<Authority, ApiError>, uri: hyper::Uri) -> ApiError {
    match authority {
        Err(error) => error,
        Ok(_) => ApiError::not_found(
            "unknown_url",
            format!("This gateway has no {} resource.", uri.path()),
        ),
    }
}

async fn method_not_allowed(method: hyper::Method, uri: hyper::Uri) -> ApiError {
    let message = format!("{} does not accept {method} requests.", uri.path());
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
}
