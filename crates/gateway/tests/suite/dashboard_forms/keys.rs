//! Keys in the dashboard: the text of a new one is shown once, and lists are searched.

use serde_json::{Value, json};

use super::Objects;
use super::visitor::{Page, Visitor};
use crate::common::both_stores::on_both_stores;
use crate::common::html_form::{HtmlForm, escape};
use crate::common::node::{Node, TOKEN, text};

on_both_stores!(
    the_text_of_a_key_is_shown_once,
    keys_are_searched_across_projects,
    lists_of_keys_come_in_pages,
    keys_of_an_earlier_version_are_found_after_the_next_tidying,
);

/// The text of a key on the page that follows its form.
fn secret(page: &Page) -> String {
    let (_, rest) =
        page.body.split_once("id=\"secret\"").unwrap_or_else(|| panic!("{}", page.body));
    let (_, value) = rest.split_once("value=\"").unwrap();
    value.split('"').next().unwrap().to_owned()
}

fn ids(page: &Page) -> Vec<String> {
    let ids = page.body.split("<code class=\"id\">").skip(1);
    ids.map(|rest| rest.split('<').next().unwrap().to_owned()).collect()
}

async fn the_text_of_a_key_is_shown_once(node: &Node) {
    let objects = Objects::new(node).await;
    let visitor = Visitor::new(node, TOKEN).await;
    let project = objects.address("/dashboard/organizations/{id}/projects/{project}");
    let path = format!("{project}/keys/new");
    let form = visitor.fill(&path, &[("name", "server"), ("expires_in_seconds", "86400")]).await;
    let answer = visitor.submit(&form).await;
    assert_eq!((answer.status, answer.location()), (200, ""));
    assert_eq!(answer.header("cache-control"), "no-store");
    assert_eq!(answer.header("referrer-policy"), "same-origin");
    let made = secret(&answer);
    assert!(made.starts_with("sk-proj-") && answer.body.matches(&made).count() == 1);
    assert!(node.directory.caller(&made).await.is_ok());
    // A reload makes no other key and shows no text.
    let again = visitor.submit(&form).await;
    assert_eq!((again.status, again.location()), (303, &*format!("{project}?done=repeated")));
    let page = visitor.get(&project).await;
    assert_eq!(page.body.matches(">server<").count(), 1);
    let (_, id) = answer.body.split_once("Id: <code>").unwrap();
    let id = id.split('<').next().unwrap();
    let key = format!("{project}/keys/{id}");
    for path in
        [&project, &key, &format!("{key}/rotate"), "/dashboard/organizations/org-default/keys"]
    {
        assert!(!visitor.get(path).await.body.contains(&made), "{path}");
    }
    visitor.get(&key).await.assert_has("until 2023-11-15 22:13");
    // A rotated key is replaced by another text, and refused after the grace.
    let form = visitor.fill(&format!("{key}/rotate"), &[("grace_seconds", "0")]).await;
    let answer = visitor.submit(&form).await;
    let rotated = secret(&answer);
    assert_ne!(rotated, made);
    assert!(node.directory.caller(&rotated).await.is_ok());
    assert!(node.directory.caller(&made).await.is_err());
    // A revoked one is refused at once.
    let (_, id) = answer.body.split_once("Id: <code>").unwrap();
    let key = format!("{project}/keys/{}", id.split('<').next().unwrap());
    let revoke = visitor.open(&format!("{key}/revoke")).await;
    let page = visitor.get(&format!("{key}/revoke")).await;
    page.assert_has("This cannot be undone.");
    assert!(node.directory.caller(&rotated).await.is_ok(), "asking revokes nothing");
    let answer = visitor.submit(&revoke).await;
    assert_eq!(answer.location(), format!("{project}?done=revoked"));
    assert!(node.directory.caller(&rotated).await.is_err());
    assert_eq!(visitor.get(&key).await.status, 404);
}

async fn keys_are_searched_across_projects(node: &Node) {
    let (one, two) = (node.project().await, node.project().await);
    let make = async |project: &str, name: &str| {
        let path = format!("POST /v1/organization/projects/{project}/api_keys");
        node.ask(&path, json!({ "name": name })).await
    };
    let alpha = make(&one, "Ünï Älpha 100%").await;
    let beta = make(&two, "beta_server").await;
    make(&two, "betaXserver").await;
    let account = format!("POST /v1/organization/projects/{two}/service_accounts");
    let account = node.ask(&account, json!({ "name": "Robot ÄRM" })).await;
    let owned = &account["api_key"];
    let other = text(&node.ask("POST /v1/organizations", json!({ "name": "x" })).await["id"]);
    let name = json!({ "name": "beta_server" });
    let (_, foreign) =
        node.call_as("POST /v1/organization/projects", TOKEN, Some(&other), name.clone()).await;
    let path = format!("POST /v1/organization/projects/{}/api_keys", text(&foreign["id"]));
    assert_eq!(node.call_as(&path, TOKEN, Some(&other), name).await.0, 200);
    let visitor = Visitor::new(node, TOKEN).await;
    let all = "/dashboard/organizations/org-default/keys";
    let found = async |path: &str, text: &str| {
        let page = visitor.get(&format!("{path}?q={}", escape(text))).await;
        assert_eq!(page.status, 200);
        ids(&page)
    };
    let id = |key: &Value| vec![text(&key["id"])];
    let last_four = |key: &Value| {
        let value = text(&key["value"]);
        value[value.len() - 4..].to_owned()
    };
    assert_eq!(found(all, "ÜNÏ äL").await, id(&alpha));
    assert_eq!(found(all, "100%").await, id(&alpha), "no wildcards");
    assert_eq!(found(all, "BETA_server").await, id(&beta), "no wildcards, of this organization");
    assert_eq!(found(all, &text(&beta["id"]).to_uppercase()).await, id(&beta));
    assert!(found(all, &last_four(&beta)).await.contains(&text(&beta["id"])));
    assert_eq!(found(all, "sk-svcacct-").await, id(owned));
    assert_eq!(found(all, "robot").await, id(owned), "by the owner");
    assert_eq!(found(all, "Robot ÄRM").await, id(owned));
    assert_eq!(found(all, &text(&account["id"])).await, id(owned));
    assert_eq!(found(all, "").await.len(), 4);
    let project = format!("/dashboard/organizations/org-default/projects/{two}");
    assert_eq!(found(&project, "").await.len(), 3);
    assert_eq!(found(&project, "alpha").await, Vec::<String>::new());
    assert_eq!(found(&project, "beta_").await, id(&beta));
    visitor.get(&format!("{all}?q=%3Cnone%3E")).await.assert_has("contains “&lt;none&gt;”");
    // A whole key is not searched and not shown again.
    let secret = text(&beta["value"]);
    let page = visitor.get(&format!("{all}?q={secret}")).await;
    page.assert_has("Not searched.");
    assert!(!page.body.contains(&secret) && ids(&page).is_empty());
}

async fn lists_of_keys_come_in_pages(node: &Node) {
    let projects = [node.project().await, node.project().await];
    let mut made = Vec::new();
    for number in 0..130 {
        made.push(node.key(&projects[number % 2]).await.0);
    }
    let visitor = Visitor::new(node, TOKEN).await;
    let link = |page: &Page, rel: &str| {
        let (_, rest) = page.body.split_once(&format!("rel=\"{rel}\" href=\""))?;
        Some(rest.split(['"', '#']).next().unwrap().replace("&amp;", "&"))
    };
    let mut path = "/dashboard/organizations/org-default/keys?q=a+key".to_owned();
    let (mut seen, mut sizes) = (Vec::new(), Vec::new());
    let last = loop {
        let page = visitor.get(&path).await;
        let ids = ids(&page);
        sizes.push(ids.len());
        seen.extend(ids);
        assert_eq!(link(&page, "prev").is_some(), sizes.len() > 1);
        let Some(next) = link(&page, "next") else { break page };
        path = next;
    };
    assert_eq!((sizes, &seen), (vec![50, 50, 30], &made));
    let back = visitor.get(&link(&last, "prev").unwrap()).await;
    assert_eq!(ids(&back), made[50..100]);
    let first = visitor.get(&link(&back, "prev").unwrap()).await;
    assert_eq!((ids(&first), link(&first, "prev")), (made[..50].to_vec(), None));
    // A revoked key is still a cursor.
    let next = link(&first, "next").unwrap();
    let revoke = format!("DELETE /v1/organization/projects/{}/api_keys/{}", projects[1], made[49]);
    node.ask(&revoke, Value::Null).await;
    assert_eq!(ids(&visitor.get(&next).await), made[50..100]);
}

async fn keys_of_an_earlier_version_are_found_after_the_next_tidying(node: &Node) {
    let project = node.project().await;
    let (id, _) = node.key(&project).await;
    let sql = "UPDATE keys SET search_text = NULL, organization = NULL";
    let forget = gateway_store::database::Statement::new(sql, []);
    node.database.transact(vec![forget]).await.unwrap();
    let visitor = Visitor::new(node, TOKEN).await;
    let all = "/dashboard/organizations/org-default/keys";
    assert_eq!(ids(&visitor.get(all).await), Vec::<String>::new());
    gateway_store::records::prune(&node.database, 0).await.unwrap();
    for query in ["", "?q=A+KEY"] {
        assert_eq!(ids(&visitor.get(&format!("{all}{query}")).await), vec![id.clone()]);
    }
    assert!(HtmlForm::find(&visitor.get(all).await.body, "/keys#keys").is_some());
}
