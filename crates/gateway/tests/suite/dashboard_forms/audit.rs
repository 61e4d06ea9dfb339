//! The page of the audit log: filters, pages, the values before and after, and the export.

use serde_json::{Value, json};

use super::visitor::{Page, Visitor, rows};
use crate::common::both_stores::on_both_stores;
use crate::common::html_form::HtmlForm;
use crate::common::node::{Node, TOKEN, text};

on_both_stores!(
    the_audit_log_is_filtered_and_comes_in_pages,
    an_act_shows_its_values_before_and_after,
    the_audit_log_is_exported_with_its_filters,
    an_admin_key_reads_the_log_of_its_organization,
);

const LOG: &str = "/dashboard/organizations/org-default/audit";

fn kinds(page: &Page) -> Vec<String> {
    assert_eq!(page.status, 200, "{}", page.body);
    let kinds = page.body.split("<h2>").skip(1);
    kinds.map(|rest| rest.split('<').next().unwrap().to_owned()).collect()
}

async fn the_audit_log_is_filtered_and_comes_in_pages(node: &Node) {
    let project = node.project().await;
    let (key, _) = node.key(&project).await;
    for number in 0..28 {
        let name = json!({ "name": format!("name {number}") });
        node.ask(&format!("POST /v1/organization/projects/{project}"), name).await;
    }
    let visitor = Visitor::new(node, TOKEN).await;
    let log = async |query: &str| kinds(&visitor.get(&format!("{LOG}?{query}")).await);
    let none = Vec::<String>::new();
    assert_eq!(log("action=api_key.created").await, ["api_key.created"]);
    assert_eq!(log(&format!("object={key}")).await, ["api_key.created"]);
    assert_eq!(log("actor=gateway").await, ["organization.created"]);
    assert_eq!(
        log("action=login.succeeded").await,
        ["login.succeeded"],
        "of the gateway as a whole"
    );
    assert_eq!(
        log(&format!("project={project}&action=project.created")).await,
        ["project.created"]
    );
    assert_eq!(log("project=proj_none").await, none);
    // The clock of the test stands at 2023-11-14 22:13:20.
    assert_eq!(log("action=api_key.created&from=2023-11-14T22:13").await.len(), 1);
    assert_eq!(log("action=api_key.created&from=2023-11-14T22:14").await, none);
    assert_eq!(log("action=api_key.created&until=2023-11-14T22:14").await.len(), 1);
    assert_eq!(log("action=api_key.created&until=2023-11-14T22:13").await, none);
    let page = visitor.get(&format!("{LOG}?from=yesterday&actor=a%22b")).await;
    assert_eq!(kinds(&page), none);
    page.assert_has("id=\"from-error\">Expected a moment such as");
    let form = HtmlForm::find(&page.body, "/audit").unwrap();
    assert_eq!((form.get("from"), form.get("actor")), ("yesterday", "a\"b"));
    // Pages, forward and back.
    let link = |page: &Page, rel: &str| {
        let (_, rest) = page.body.split_once(&format!("rel=\"{rel}\" href=\""))?;
        Some(rest.split('"').next().unwrap().replace("&amp;", "&"))
    };
    let first = visitor.get(&format!("{LOG}?action=project.updated")).await;
    assert_eq!((kinds(&first).len(), link(&first, "prev")), (25, None));
    let second = visitor.get(&link(&first, "next").unwrap()).await;
    assert_eq!((kinds(&second).len(), link(&second, "next")), (3, None));
    second.assert_has("name 0");
    let back = visitor.get(&link(&second, "prev").unwrap()).await;
    assert_eq!((kinds(&back).len(), link(&back, "prev")), (25, None));
    assert!(link(&back, "next").is_some());
    assert_eq!(visitor.get("/dashboard/organizations/org-none/audit").await.status, 404);
}

async fn an_act_shows_its_values_before_and_after(node: &Node) {
    let project = node.project().await;
    let name = json!({ "name": "<new> & name" });
    node.ask(&format!("POST /v1/organization/projects/{project}"), name).await;
    let visitor = Visitor::new(node, TOKEN).await;
    let page = visitor.get(&format!("{LOG}?action=project.updated")).await;
    page.assert_has("Before and after");
    page.assert_has("name <span class=\"tag high\">changed</span></th><td>a project</td><td>&lt;new&gt; &amp; name</td>");
    page.assert_has("<th scope=\"row\">geography</th><td>–</td><td>–</td>");
    page.assert_has(&format!("<dt>Project</dt><dd>{project}</dd>"));
    page.assert_has("<dt>Actor</dt><dd>admin_token</dd>");
    page.assert_has("<dt>Time</dt><dd>2023-11-14 22:13</dd>");
    page.assert_has("<dt>By</dt><dd>the API</dd>");
    let page = visitor.get(&format!("{LOG}?action=login.succeeded")).await;
    page.assert_has("<dt>By</dt><dd>the dashboard</dd>");
}

async fn the_audit_log_is_exported_with_its_filters(node: &Node) {
    for _ in 0..30 {
        node.project().await;
    }
    let visitor = Visitor::new(node, TOKEN).await;
    let page = visitor.get(&format!("{LOG}?action=project.created&actor=admin_token")).await;
    let (_, rest) = page.body.split_once("href=\"").unwrap();
    let links: Vec<String> = rest
        .split("href=\"")
        .map(|rest| rest.split('"').next().unwrap().replace("&amp;", "&"))
        .filter(|link| link.contains("/export?"))
        .collect();
    assert_eq!(links.len(), 2);
    for (link, kind, lines) in
        [(&links[0], "text/csv; charset=utf-8", 31), (&links[1], "application/jsonl", 30)]
    {
        let export = visitor.get(link).await;
        assert_eq!((export.status, export.header("content-type")), (200, kind));
        assert!(export.header("content-disposition").starts_with("attachment;"));
        assert_eq!(export.header("cache-control"), "no-store");
        assert_eq!(export.body.lines().count(), lines, "all pages: {}", export.body);
        assert!(!export.body.contains("login."));
    }
    for query in ["", "format=xml", "format=csv&from=x"] {
        assert_eq!(visitor.get(&format!("{LOG}/export?{query}")).await.status, 400, "{query}");
    }
}

async fn an_admin_key_reads_the_log_of_its_organization(node: &Node) {
    let name = || json!({ "name": "own" });
    let other = text(&node.ask("POST /v1/organizations", name()).await["id"]);
    let (_, key) =
        node.call_as("POST /v1/organization/admin_api_keys", TOKEN, Some(&other), name()).await;
    let visitor = Visitor::new(node, key["value"].as_str().unwrap()).await;
    let before = rows(node).await;
    let own = visitor.get(&format!("/dashboard/organizations/{other}/audit")).await;
    assert_eq!(kinds(&own), ["login.succeeded", "admin_api_key.created", "organization.created"]);
    let export =
        visitor.get(&format!("/dashboard/organizations/{other}/audit/export?format=csv")).await;
    assert_eq!(export.body.lines().count(), 4);
    assert_eq!(visitor.get(LOG).await.status, 404);
    assert_eq!(visitor.get(&format!("{LOG}/export?format=csv")).await.status, 404);
    assert_eq!(rows(node).await, before);
    // The log of an organization that has ended stays for the admin token.
    node.ask(&format!("DELETE /v1/organizations/{other}"), Value::Null).await;
    let everything = Visitor::new(node, TOKEN).await;
    let ended = everything.get(&format!("/dashboard/organizations/{other}/audit")).await;
    assert_eq!(kinds(&ended)[0], "organization.deleted");
}
