//! The forms of the dashboard, on both kinds of store. Most tests go through the table of routes, so
//! that a new form is tested when it is added.

mod audit;
mod figures;
mod keys;
mod refusals;
mod safety;
mod visitor;

use hyper::Method;
use serde_json::json;

use crate::common::node::{Node, text};

/// The records that the forms of a test are about.
pub(super) struct Objects {
    pub(super) organization: String,
    pub(super) project: String,
    /// A project that is archived in the test.
    pub(super) ending: String,
    pub(super) key: String,
    /// Keys that are rotated and revoked in the test.
    pub(super) rotated: String,
    pub(super) revoked: String,
    pub(super) organization_alert: String,
    pub(super) project_alert: String,
    /// Alerts that are deleted in the test.
    pub(super) ending_organization_alert: String,
    pub(super) ending_project_alert: String,
}

impl Objects {
    pub(super) async fn new(node: &Node) -> Self {
        let project = node.project().await;
        let money = || json!({ "currency": "USD", "interval": "month", "threshold_amount": 1000 });
        let of_organization = "POST /v1/organization/spend_alerts";
        let of_project = &format!("POST /v1/organization/projects/{project}/spend_alerts");
        let alert = async |path: &str| text(&node.ask(path, money()).await["id"]);
        Self {
            organization: "org-default".to_owned(),
            ending: node.project().await,
            key: node.key(&project).await.0,
            rotated: node.key(&project).await.0,
            revoked: node.key(&project).await.0,
            organization_alert: alert(of_organization).await,
            project_alert: alert(of_project).await,
            ending_organization_alert: alert(of_organization).await,
            ending_project_alert: alert(of_project).await,
            project,
        }
    }

    /// The address of a route with the ids of these records.
    pub(super) fn address(&self, route: &str) -> String {
        let project = if route.ends_with("/archive") { &self.ending } else { &self.project };
        let key = match route {
            _ if route.ends_with("/rotate") => &self.rotated,
            _ if route.ends_with("/revoke") => &self.revoked,
            _ => &self.key,
        };
        let alert = match (route.contains("{project}"), route.ends_with("/delete")) {
            (false, false) => &self.organization_alert,
            (true, false) => &self.project_alert,
            (false, true) => &self.ending_organization_alert,
            (true, true) => &self.ending_project_alert,
        };
        let address = route
            .replace("{id}", &self.organization)
            .replace("{project}", project)
            .replace("{key}", key)
            .replace("{alert}", alert)
            .replace("{model}", "big");
        assert!(!address.contains('{'), "{route} has an id that this test does not know");
        address
    }
}

/// The routes of forms that change records.
pub(super) fn forms() -> Vec<String> {
    let routes = gateway_admin::dashboard_routes().into_iter();
    let changes = routes.filter(|(method, path)| {
        *method == Method::POST && !path.ends_with("/sign-in") && !path.ends_with("/sign-out")
    });
    let changes: Vec<String> = changes.map(|(_, path)| path).collect();
    assert!(changes.len() > 20, "{changes:?}");
    changes
}

/// What is entered into the form of a route, and the type of the row that it leaves.
pub(super) fn filled(route: &str) -> (Vec<(&'static str, &'static str)>, &'static str) {
    let route = route.strip_prefix("/dashboard/organizations/").unwrap();
    let (rest, in_project) = match route.strip_prefix("{id}/projects/{project}/") {
        Some(rest) => (rest, true),
        None => (route, false),
    };
    match (rest, in_project) {
        ("new", _) => (vec![("name", "acme"), ("tier", "2")], "organization.created"),
        ("{id}/edit", _) => (vec![("name", "another"), ("tier", "3")], "organization.updated"),
        ("{id}/payments/new", _) => (vec![("amount_cents", "12.50")], "payment.created"),
        ("{id}/projects/new", _) => (vec![("name", "fresh")], "project.created"),
        ("edit", true) => (vec![("name", "renamed"), ("geography", "eu")], "project.updated"),
        ("archive", true) => (vec![], "project.archived"),
        ("models", true) => (
            vec![("mode", "allow_list"), ("model_ids", "small")],
            "project.model_permissions.updated",
        ),
        ("keys/{key}/models", true) => (
            vec![("mode", "deny_list"), ("model_ids", "small")],
            "api_key.model_permissions.updated",
        ),
        ("limits/{model}", true) => {
            (vec![("max_requests_per_1_minute", "2")], "rate_limit.updated")
        }
        ("keys/new", true) => (vec![("name", "fresh")], "api_key.created"),
        ("keys/{key}/expiry", true) => (vec![("expires_in_seconds", "86400")], "api_key.updated"),
        ("keys/{key}/rotate", true) => (vec![("grace_seconds", "3600")], "api_key.rotated"),
        ("keys/{key}/revoke", true) => (vec![], "api_key.deleted"),
        ("{id}/spend-limit", false) | ("spend-limit", true) => {
            (vec![("threshold_amount", "400")], "spend_limit.updated")
        }
        ("{id}/spend-alerts/new", false) | ("spend-alerts/new", true) => {
            (vec![("threshold_amount", "$1,250.50")], "spend_alert.created")
        }
        ("{id}/spend-alerts/{alert}", false) | ("spend-alerts/{alert}", true) => {
            (vec![("threshold_amount", "7")], "spend_alert.updated")
        }
        ("{id}/spend-alerts/{alert}/delete", false) | ("spend-alerts/{alert}/delete", true) => {
            (vec![], "spend_alert.deleted")
        }
        _ => panic!("{route} changes something: add what is entered there to this test"),
    }
}
