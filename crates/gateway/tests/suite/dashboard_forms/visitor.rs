//! A browser without scripts at the pages of a node.

use axum::body::Body;
use gateway_store::database::Statement;
use hyper::{HeaderMap, Request};

use crate::common::html_form::{HtmlForm, escape};
use crate::common::node::Node;

/// A signed-in reader.
pub(super) struct Visitor<'a> {
    pub(super) node: &'a Node,
    pub(super) cookie: String,
}

/// A response.
pub(super) struct Page {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: String,
}

impl Page {
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub(super) fn location(&self) -> &str {
        self.header("location")
    }

    #[track_caller]
    pub(super) fn assert_has(&self, expected: &str) {
        assert!(
            self.body.contains(expected),
            "{expected} is not in {}: {}",
            self.status,
            self.body
        );
    }

    /// Returns whether the form was accepted.
    pub(super) fn is_done(&self) -> bool {
        let is_repeated = self.location().ends_with("?done=repeated");
        matches!(self.status, 200 | 303) && !is_repeated
    }
}

impl<'a> Visitor<'a> {
    pub(super) async fn new(node: &'a Node, secret: &str) -> Self {
        let mut visitor = Self { node, cookie: String::new() };
        let answer =
            visitor.post("/dashboard/sign-in", &format!("secret={}", escape(secret))).await;
        assert_eq!(answer.status, 303, "{}", answer.body);
        visitor.cookie = answer.header("set-cookie").split(';').next().unwrap().to_owned();
        visitor
    }

    pub(super) async fn get(&self, path: &str) -> Page {
        self.send("GET", path, &[], "").await
    }

    pub(super) async fn post(&self, path: &str, body: &str) -> Page {
        self.send("POST", path, &[], body).await
    }

    pub(super) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Page {
        let mut request = Request::builder().method(method).uri(path).header("host", "gateway");
        if method == "POST" {
            request = request.header("content-type", "application/x-www-form-urlencoded");
        }
        if !self.cookie.is_empty() {
            request = request.header("cookie", &self.cookie);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(body.to_owned())).unwrap();
        let (status, headers, body) = self.node.send_page(request).await;
        Page { status, headers, body: String::from_utf8(body.to_vec()).unwrap() }
    }

    /// Opens the form at this address.
    pub(super) async fn open(&self, path: &str) -> HtmlForm {
        let page = self.get(path).await;
        assert_eq!(page.status, 200, "{path}: {}", page.body);
        HtmlForm::find(&page.body, path).unwrap_or_else(|| panic!("no form in {}", page.body))
    }

    /// Opens it and fills it in.
    pub(super) async fn fill(&self, path: &str, values: &[(&str, &str)]) -> HtmlForm {
        let mut form = self.open(path).await;
        for (name, value) in values {
            form.set(name, value);
        }
        form
    }

    pub(super) async fn submit(&self, form: &HtmlForm) -> Page {
        self.post(&form.action, &form.body()).await
    }
}

/// Number of all rows of the audit log.
pub(super) async fn rows(node: &Node) -> i64 {
    let count = Statement::new("SELECT COUNT(*) FROM audit_logs", []);
    node.database.query(count).await.unwrap()[0].integer(0).unwrap()
}

/// All rows of the tables that a form can change.
pub(super) async fn contents(node: &Node) -> Vec<String> {
    let mut all = Vec::new();
    for table in [
        "organizations",
        "payments",
        "projects",
        "project_limits",
        "spend_alerts",
        "service_accounts",
        "keys",
        "admin_keys",
        "changes",
        "facts",
        "audit_logs",
    ] {
        let rows = Statement::composed(format!("SELECT * FROM {table}"), vec![]);
        let rows = node.database.query(rows).await.unwrap();
        all.extend(rows.iter().map(|row| format!("{table} {row:?}")));
    }
    all.sort();
    all
}
