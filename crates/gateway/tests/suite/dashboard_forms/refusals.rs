//! Refused forms: each reason stands at its field, what was entered stays, and an admin key can do
//! no more than at the API.

use serde_json::{Value, json};

use super::visitor::{Visitor, rows};
use super::{Objects, filled, forms};
use crate::common::both_stores::on_both_stores;
use crate::common::html_form::HtmlForm;
use crate::common::node::{Node, TOKEN, text};

on_both_stores!(
    each_refusal_stands_at_its_field,
    refusals_of_a_form_as_a_whole,
    an_admin_key_changes_its_own_organization_only,
    forms_with_basic_authentication_need_a_token_too,
    entered_texts_never_become_markup,
);

async fn each_refusal_stands_at_its_field(node: &Node) {
    let objects = Objects::new(node).await;
    let visitor = Visitor::new(node, TOKEN).await;
    let organization = "/dashboard/organizations/{id}";
    let project = "/dashboard/organizations/{id}/projects/{project}";
    let long = "x".repeat(257);
    let before = rows(node).await;
    let needed = "This field is needed.";
    for (route, values, field, reason) in [
        (
            "/dashboard/organizations/new".to_owned(),
            vec![("name", " ")],
            "name",
            "1 to 256 characters",
        ),
        (format!("{organization}/edit"), vec![("name", &*long)], "name", "1 to 256 characters"),
        (format!("{organization}/edit"), vec![("tier", "9")], "tier", "free, 1, 2, 3, 4 or 5"),
        (
            format!("{organization}/payments/new"),
            vec![("amount_cents", "")],
            "amount_cents",
            needed,
        ),
        (
            format!("{organization}/payments/new"),
            vec![("amount_cents", "0")],
            "amount_cents",
            "but 0",
        ),
        (
            format!("{organization}/payments/new"),
            vec![("amount_cents", "1.234")],
            "amount_cents",
            "an amount such as",
        ),
        (format!("{organization}/payments/new"), vec![("amount_cents", "-1")], "reason", needed),
        (
            format!("{organization}/payments/new"),
            vec![("amount_cents", "-1"), ("reason", "typo")],
            "amount_cents",
            "more than the organization has paid",
        ),
        (
            format!("{organization}/spend-limit"),
            vec![("threshold_amount", "-3")],
            "threshold_amount",
            "from 0 to",
        ),
        (
            format!("{organization}/spend-alerts/new"),
            vec![("threshold_amount", "")],
            "threshold_amount",
            needed,
        ),
        (
            format!("{organization}/spend-alerts/{{alert}}"),
            vec![("threshold_amount", "x")],
            "threshold_amount",
            "an amount such as",
        ),
        (
            format!("{organization}/projects/new"),
            vec![("name", "a\u{7}b")],
            "name",
            "without control characters",
        ),
        (
            format!("{project}/edit"),
            vec![("geography", "mars")],
            "geography",
            "region of the configuration: eu",
        ),
        (
            format!("{project}/spend-limit"),
            vec![("threshold_amount", "many")],
            "threshold_amount",
            "an amount such as",
        ),
        (
            format!("{project}/spend-alerts/new"),
            vec![("threshold_amount", "")],
            "threshold_amount",
            needed,
        ),
        (
            format!("{project}/spend-alerts/{{alert}}"),
            vec![("threshold_amount", "-1")],
            "threshold_amount",
            "from 0 to",
        ),
        (
            format!("{project}/models"),
            vec![("model_ids", "small")],
            "mode",
            "choose what is to happen",
        ),
        (
            format!("{project}/models"),
            vec![("mode", "allow_list"), ("model_ids", "gone")],
            "model_ids",
            "no model or alias `gone`",
        ),
        (
            format!("{project}/keys/{{key}}/models"),
            vec![("mode", "maybe")],
            "mode",
            "allow_list or deny_list",
        ),
        (
            format!("{project}/limits/{{model}}"),
            vec![("max_requests_per_1_minute", "4")],
            "max_requests_per_1_minute",
            "limit of 3",
        ),
        (
            format!("{project}/limits/{{model}}"),
            vec![("max_requests_per_1_minute", "0")],
            "max_requests_per_1_minute",
            "from 1 to",
        ),
        (
            format!("{project}/limits/{{model}}"),
            vec![("max_tokens_per_1_minute", "many")],
            "max_tokens_per_1_minute",
            "a whole number",
        ),
        (format!("{project}/keys/new"), vec![("name", "")], "name", "1 to 256 characters"),
        (
            format!("{project}/keys/new"),
            vec![("name", "k"), ("expires_in_seconds", "0")],
            "expires_in_seconds",
            "from 1 to",
        ),
        (
            format!("{project}/keys/{{key}}/rotate"),
            vec![("grace_seconds", "soon")],
            "grace_seconds",
            "a whole number",
        ),
    ] {
        let form = visitor.fill(&objects.address(&route), &values).await;
        let answer = visitor.submit(&form).await;
        assert_eq!(answer.status, 400, "{route} {values:?}: {}", answer.body);
        let error = format!("id=\"field-{field}-error\">");
        let (_, shown) =
            answer.body.split_once(&error).unwrap_or_else(|| panic!("{route}: {}", answer.body));
        let shown = shown.split("</p>").next().unwrap();
        assert!(shown.contains(reason), "{route} {values:?}: {shown}");
        answer.assert_has("role=\"alert\"");
        answer.assert_has("aria-invalid=\"true\"");
        answer.assert_has(&format!("field-{field}-error\""));
        answer.assert_has("<title>Error: ");
        let again = HtmlForm::find(&answer.body, &form.action).unwrap();
        for (name, value) in &values {
            let is_offered = again.get(name) == value.trim();
            // A choice that the form does not offer cannot be shown again.
            let is_choice = matches!(
                *name,
                "tier" | "geography" | "mode" | "expires_in_seconds" | "grace_seconds"
            );
            let is_gone = *name == "model_ids" && *value == "gone";
            assert!(is_offered || is_choice || is_gone, "{route}: {name} is {:?}", again.get(name));
        }
        assert_eq!(
            (again.get("form"), again.get("version")),
            (form.get("form"), form.get("version"))
        );
    }
    assert_eq!(rows(node).await, before);
}

async fn refusals_of_a_form_as_a_whole(node: &Node) {
    let objects = Objects::new(node).await;
    let visitor = Visitor::new(node, TOKEN).await;
    let project = |below: &str| {
        objects.address(&format!("/dashboard/organizations/{{id}}/projects/{{project}}/{below}"))
    };
    // There is no limit that could be removed, and none that could be set.
    for (path, reason) in [
        (project("spend-limit"), "There is no spend limit."),
        (project("limits/{model}"), "Name at least one limit to set."),
    ] {
        let answer = visitor.submit(&visitor.open(&path).await).await;
        assert!(matches!(answer.status, 400 | 404), "{path}: {}", answer.status);
        answer.assert_has(reason);
    }
    // A limit that is set cannot be removed, and one that stays is not sent.
    let limits = project("limits/{model}");
    let form = visitor.fill(&limits, &[("max_requests_per_1_minute", "2")]).await;
    assert!(visitor.submit(&form).await.is_done());
    let form = visitor.open(&limits).await;
    assert_eq!(form.get("max_requests_per_1_minute"), "2");
    let form = visitor.fill(&limits, &[("max_requests_per_1_minute", "")]).await;
    let answer = visitor.submit(&form).await;
    assert_eq!(answer.status, 400);
    answer.assert_has("cannot be removed");
    let form = visitor.fill(&limits, &[("max_tokens_per_1_minute", "1,000")]).await;
    assert!(visitor.submit(&form).await.is_done());
    // A limit of money is removed by an empty field.
    let limit = project("spend-limit");
    let form = visitor.fill(&limit, &[("threshold_amount", "12.5")]).await;
    assert!(visitor.submit(&form).await.is_done());
    let form = visitor.open(&limit).await;
    assert_eq!(form.get("threshold_amount"), "12.50");
    let form = visitor.fill(&limit, &[("threshold_amount", "")]).await;
    assert!(visitor.submit(&form).await.is_done());
    assert_eq!(visitor.open(&limit).await.get("threshold_amount"), "");
    // Nothing of an archived project can be changed but that its keys are revoked.
    let archive = format!("POST /v1/organization/projects/{}/archive", objects.project);
    let open = visitor.fill(&project("keys/new"), &[("name", "late")]).await;
    node.ask(&archive, Value::Null).await;
    let answer = visitor.submit(&open).await;
    assert_eq!(answer.status, 400);
    answer.assert_has("is archived and cannot be changed");
    assert!(visitor.submit(&visitor.open(&project("keys/{key}/revoke")).await).await.is_done());
    // Unknown records, and texts that are no form.
    for path in [
        "/dashboard/organizations/org-none/edit",
        "/dashboard/organizations/org-default/projects/x/edit",
        "/dashboard/organizations/org-default/spend-alerts/x",
        &project("keys/key_none/revoke"),
        &project("limits/none"),
    ] {
        assert_eq!(visitor.get(path).await.status, 404, "{path}");
    }
    let huge = format!("name={}", "x".repeat(300_000));
    for body in [&*huge, "%"] {
        let answer = visitor.post("/dashboard/organizations/new", body).await;
        assert!(matches!(answer.status, 400 | 403), "{}", answer.status);
        answer.assert_has("Nothing was changed");
    }
}

async fn an_admin_key_changes_its_own_organization_only(node: &Node) {
    let objects = Objects::new(node).await;
    let name = || json!({ "name": "own" });
    let key = node.ask("POST /v1/organization/admin_api_keys", name()).await;
    let other = text(&node.ask("POST /v1/organizations", name()).await["id"]);
    let (status, foreign) =
        node.call_as("POST /v1/organization/projects", TOKEN, Some(&other), name()).await;
    assert_eq!(status, 200, "{foreign}");
    let everything = Visitor::new(node, TOKEN).await;
    let own = Visitor::new(node, key["value"].as_str().unwrap()).await;
    let others = |path: &str| {
        let project = foreign["id"].as_str().unwrap();
        let path = path.replace("org-default", &other).replace(&objects.project, project);
        path.replace(&objects.ending, project)
    };
    let before = rows(node).await;
    let mut done = 0;
    for route in forms() {
        let (path, values) = (objects.address(&route), filled(&route).0);
        let only_token = ["organizations/new", "{id}/edit", "payments/new"];
        if only_token.iter().any(|end| route.ends_with(end)) {
            assert_eq!(own.get(&path).await.status, 403, "{route}");
            // Not even with a form of the admin token's.
            let form = everything.fill(&path, &values).await;
            assert_eq!(own.submit(&form).await.status, 403, "{route}");
            continue;
        }
        // Nothing tells whether another organization has such a record.
        let foreign = others(&path);
        let (hidden, unknown) =
            (own.get(&foreign).await, own.get(&foreign.replace(&other, "org-unknown")).await);
        assert_eq!((hidden.status, unknown.status), (404, 404), "{route}");
        assert_eq!(hidden.body.replace(&other, "org-unknown"), unknown.body, "{route}");
        // A project of another organization below its own is none either.
        if route.contains("{project}") {
            let mixed = foreign.replace(&other, "org-default");
            assert_eq!(own.get(&mixed).await.status, 404, "{route}");
        }
        let form = own.fill(&path, &values).await;
        let answer = own.submit(&form).await;
        assert!(answer.is_done(), "{route}: {} {}", answer.status, answer.body);
        done += 1;
    }
    assert_eq!(rows(node).await, before + done);
    let query =
        format!("GET /v1/organization/audit_logs?actor_ids[]={}&limit=100", text(&key["id"]));
    let logged = node.ask(&query, Value::Null).await;
    assert_eq!(logged["data"].as_array().unwrap().len() as i64, done + 1, "and the sign-in");
    // The session ends with the key, in the middle of a form, too.
    let form =
        own.fill("/dashboard/organizations/org-default/projects/new", &[("name", "late")]).await;
    let revoke = format!("DELETE /v1/organization/admin_api_keys/{}", text(&key["id"]));
    node.ask(&revoke, Value::Null).await;
    let answer = own.submit(&form).await;
    assert!(answer.location().starts_with("/dashboard/sign-in"), "{}", answer.status);
}

async fn forms_with_basic_authentication_need_a_token_too(node: &Node) {
    use base64::Engine;
    let encoded = base64::engine::general_purpose::STANDARD.encode(format!("any:{TOKEN}"));
    let basic = format!("Basic {encoded}");
    let headers = [("authorization", &*basic)];
    let session = Visitor::new(node, TOKEN).await;
    let visitor = Visitor { cookie: String::new(), ..Visitor::new(node, TOKEN).await };
    let path = "/dashboard/organizations/org-default/projects/new";
    let page = visitor.send("GET", path, &headers, "").await;
    let mut form = HtmlForm::find(&page.body, path).unwrap();
    form.set("name", "by basic");
    let before = rows(node).await;
    // A browser sends the password with forms of other sites, too.
    let answer = visitor.send("POST", path, &headers, "name=forged").await;
    assert_eq!(answer.status, 403);
    let foreign = session.fill(path, &[("name", "forged")]).await;
    assert_eq!(visitor.send("POST", path, &headers, &foreign.body()).await.status, 403);
    assert_eq!(rows(node).await, before);
    let answer = visitor.send("POST", path, &headers, &form.body()).await;
    assert!(answer.is_done(), "{}", answer.body);
    let listed = node.ask("GET /v1/organization/audit_logs?limit=1", Value::Null).await;
    assert_eq!(listed["data"][0]["actor"]["type"], "api_key", "there is no session");
}

async fn entered_texts_never_become_markup(node: &Node) {
    let objects = Objects::new(node).await;
    let visitor = Visitor::new(node, TOKEN).await;
    let hostile = "\"><script>alert(1)</script>&amp;'";
    for route in forms() {
        let path = objects.address(&route);
        let mut form = visitor.open(&path).await;
        let names: Vec<String> = form.names.clone();
        for name in names.iter().filter(|name| *name != "form") {
            form.set(name, hostile);
        }
        let answer = visitor.submit(&form).await;
        assert!(!answer.body.contains("<script"), "{route}: {}", answer.body);
        let target = answer.location().to_owned();
        if !target.is_empty() {
            assert!(!visitor.get(&target).await.body.contains("<script"), "{route}");
        }
    }
    let page =
        format!("/dashboard/organizations/org-default/audit?action={}", "%22%3E%3Cscript%3E");
    assert!(!visitor.get(&page).await.body.contains("<script"));
}
