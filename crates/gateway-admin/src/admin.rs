//! The administration over HTTP: organizations, projects, keys, limits, spend and usage, in the
//! shapes of the public administration API. It writes records and reads the ledger; clients' API
//! requests do not pass through it. Each change leaves a row in the audit log. Unsupported resources
//! (users, invitations, certificates, roles …) return 404.

mod admin_keys;
mod audit_logs;
pub(crate) mod authority;
mod export;
mod export_format;
mod input;
mod keys;
mod model_permissions;
mod organizations;
mod output;
mod projects;
pub(crate) mod rate_limits;
mod service_accounts;
mod spend;
mod usage;

use std::sync::Arc;

use authority::Authority;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use hyper::{Method, StatusCode};

use gateway_policy::error::ApiError;

use crate::Services;
use crate::routes::Routes;

type ApiRoutes = Routes<Arc<Services>>;

/// Largest body, in bytes.
const MAX_BODY: usize = 256 << 10;

/// Everything under `/v1/organizations` and `/v1/organization`. This router receives all requests
/// for these paths, and also answers those for unsupported ones.
pub(crate) fn router(context: Arc<Services>) -> Router {
    all()
        .router
        .fallback(unknown_resource)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .with_state(context)
}

/// The methods and paths of [`router`].
pub(crate) fn routes() -> Vec<(Method, String)> {
    all().listed
}

fn all() -> ApiRoutes {
    [organizations_routes, projects_routes, keys_routes, money_routes, audit_routes]
        .into_iter()
        .fold(Routes::new(), |routes, add| add(routes))
}

fn organizations_routes(routes: ApiRoutes) -> ApiRoutes {
    let one = "/v1/organizations/{id}";
    let payments = "/v1/organizations/{id}/payments";
    let retention = "/v1/organization/data_retention";
    let admin_keys = "/v1/organization/admin_api_keys";
    routes
        .get("/v1/organizations", organizations::list)
        .post("/v1/organizations", organizations::create)
        .get(one, organizations::get)
        .post(one, organizations::update)
        .delete(one, organizations::delete)
        .get(payments, organizations::payments)
        .post(payments, organizations::pay)
        .get(retention, organizations::retention)
        .post(retention, organizations::retain)
        .get(admin_keys, admin_keys::list)
        .post(admin_keys, admin_keys::create)
        .get("/v1/organization/admin_api_keys/{id}", admin_keys::get)
        .delete("/v1/organization/admin_api_keys/{id}", admin_keys::revoke)
}

fn projects_routes(routes: ApiRoutes) -> ApiRoutes {
    let all = "/v1/organization/projects";
    let one = "/v1/organization/projects/{p}";
    let permissions = "/v1/organization/projects/{p}/model_permissions";
    routes
        .get(all, projects::list)
        .post(all, projects::create)
        .get(one, projects::get)
        .post(one, projects::update)
        .post("/v1/organization/projects/{p}/archive", projects::archive)
        .get(permissions, model_permissions::of_project)
        .post(permissions, model_permissions::set_of_project)
        .delete(permissions, model_permissions::delete_of_project)
        .get("/v1/organization/projects/{p}/rate_limits", rate_limits::list)
        .post("/v1/organization/projects/{p}/rate_limits/{id}", rate_limits::update)
}

fn keys_routes(routes: ApiRoutes) -> ApiRoutes {
    let keys = "/v1/organization/projects/{p}/api_keys";
    let key = "/v1/organization/projects/{p}/api_keys/{id}";
    let permissions = "/v1/organization/projects/{p}/api_keys/{id}/model_permissions";
    let accounts = "/v1/organization/projects/{p}/service_accounts";
    let account = "/v1/organization/projects/{p}/service_accounts/{id}";
    routes
        .get(keys, keys::list)
        .post(keys, keys::create)
        .get(key, keys::get)
        .post(key, keys::update)
        .delete(key, keys::revoke)
        .post("/v1/organization/projects/{p}/api_keys/{id}/rotate", keys::rotate)
        .get(permissions, model_permissions::of_key)
        .post(permissions, model_permissions::set_of_key)
        .delete(permissions, model_permissions::delete_of_key)
        .get(accounts, service_accounts::list)
        .post(accounts, service_accounts::create)
        .get(account, service_accounts::get)
        .post(account, service_accounts::update)
        .delete(account, service_accounts::delete)
        .post(
            "/v1/organization/projects/{p}/service_accounts/{id}/api_keys",
            service_accounts::create_key,
        )
}

fn money_routes(routes: ApiRoutes) -> ApiRoutes {
    let mut routes = routes
        .get("/v1/organization/usage/export", export::export)
        .get("/v1/organization/usage/{page}", usage::usage)
        .get("/v1/organization/costs", usage::costs);
    for scope in ["/v1/organization", "/v1/organization/projects/{p}"] {
        let limit = &format!("{scope}/spend_limit");
        let alerts = &format!("{scope}/spend_alerts");
        let alert = &format!("{scope}/spend_alerts/{{id}}");
        routes = routes
            .get(limit, spend::limit)
            .post(limit, spend::set_limit)
            .delete(limit, spend::delete_limit)
            .get(alerts, spend::alerts)
            .post(alerts, spend::create_alert)
            .get(alert, spend::alert)
            .post(alert, spend::update_alert)
            .delete(alert, spend::delete_alert);
    }
    routes
}

fn audit_routes(routes: ApiRoutes) -> ApiRoutes {
    routes
        .get("/v1/organization/audit_logs", audit_logs::list)
        .get("/v1/organization/audit_logs/export", audit_logs::export)
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

async fn method_not_allowed(method: Method, uri: hyper::Uri) -> ApiError {
    let message = format!("{} does not accept {method} requests.", uri.path());
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
}
