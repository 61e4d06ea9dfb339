//! Each form leaves one row in the audit log, happens once, is sent by its reader only, and does not
//! overwrite what somebody else has changed; pages change nothing.

use hyper::Method;
use serde_json::{Value, json};

use super::visitor::{Visitor, contents, rows};
use super::{Objects, filled, forms};
use crate::common::both_stores::on_both_stores;
use crate::common::node::{Node, TOKEN, text};

on_both_stores!(
    each_form_leaves_one_row_and_is_done_once,
    forms_that_are_sent_twice_at_once_are_done_once,
    a_form_over_somebody_else_s_change_is_not_saved,
    forms_of_two_readers_at_once_are_saved_once,
    forms_need_the_token_of_their_reader,
    no_page_changes_anything,
    a_form_of_which_no_answer_arrived_can_be_sent_again,
    forms_without_a_row_in_the_audit_log_change_nothing,
);

async fn newest(node: &Node) -> Value {
    let listed = "GET /v1/organization/audit_logs?limit=1";
    node.ask(listed, Value::Null).await["data"][0].clone()
}

async fn each_form_leaves_one_row_and_is_done_once(node: &Node) {
    let objects = Objects::new(node).await;
    let visitor = Visitor::new(node, TOKEN).await;
    for route in forms() {
        let (values, kind) = filled(&route);
        let form = visitor.fill(&objects.address(&route), &values).await;
        let before = rows(node).await;
        let answer = visitor.submit(&form).await;
        assert!(answer.is_done(), "{route}: {} {}", answer.status, answer.body);
        assert_eq!(answer.header("cache-control"), "no-store", "{route}");
        assert_eq!(rows(node).await, before + 1, "{route}");
        if kind == "organization.created" {
            assert!(answer.location().starts_with("/dashboard/organizations/org-"));
        } else {
            let row = newest(node).await;
            assert_eq!(row["type"], kind, "{route}");
            let actor = &row["actor"];
            assert_eq!(
                (&actor["type"], &actor["api_key"]["id"]),
                (&json!("session"), &json!("admin_token"))
            );
            assert_ne!(row["before"], row["after"], "{route}");
        }
        if answer.status == 303 {
            let page = visitor.get(answer.location()).await;
            assert_eq!(page.status, 200, "{route}: {}", answer.location());
            page.assert_has("class=\"notice good\" role=\"status\"");
        }
        // A browser that reloads the answer sends the form again.
        let again = visitor.submit(&form).await;
        assert!(!again.is_done(), "{route}: {} {}", again.status, again.location());
        assert!(!again.body.contains("id=\"secret\""), "{route}: the key is shown once");
        assert_eq!(rows(node).await, before + 1, "{route}");
    }
}

async fn forms_that_are_sent_twice_at_once_are_done_once(node: &Node) {
    let objects = Objects::new(node).await;
    let visitor = Visitor::new(node, TOKEN).await;
    for route in forms() {
        let form = visitor.fill(&objects.address(&route), &filled(&route).0).await;
        let before = rows(node).await;
        let (one, other) = tokio::join!(visitor.submit(&form), visitor.submit(&form));
        let done = [&one, &other].iter().filter(|answer| answer.is_done()).count();
        assert_eq!(
            (done, rows(node).await),
            (1, before + 1),
            "{route}: {} {}",
            one.body,
            other.body
        );
    }
}

async fn a_form_over_somebody_else_s_change_is_not_saved(node: &Node) {
    let objects = Objects::new(node).await;
    let (mine, theirs) = (Visitor::new(node, TOKEN).await, Visitor::new(node, TOKEN).await);
    for route in forms() {
        let (path, (values, _)) = (objects.address(&route), filled(&route));
        let form = mine.fill(&path, &values).await;
        let other = theirs.fill(&path, &values).await;
        let creates = form.names.iter().all(|name| name != "version");
        assert_eq!(
            creates,
            route.ends_with("/new"),
            "{route}: changes have the version of a record"
        );
        assert!(theirs.submit(&other).await.is_done(), "{route}");
        let before = rows(node).await;
        let answer = mine.submit(&form).await;
        if creates {
            assert!(answer.is_done(), "{route}");
            continue;
        }
        assert!(matches!(answer.status, 400 | 404 | 409), "{route}: {}", answer.status);
        assert_eq!(rows(node).await, before, "{route}");
        if answer.status == 409 {
            answer.assert_has("role=\"alert\"");
            answer.assert_has("Somebody else has changed this");
        }
    }
    // What was entered stays, with the present value next to it, and can be saved then.
    let path = objects.address("/dashboard/organizations/{id}/projects/{project}/edit");
    let form = mine.fill(&path, &[("name", "mine")]).await;
    let api = format!("/v1/organization/projects/{}", objects.project);
    node.ask(&format!("POST {api}"), json!({ "name": "theirs & <b>" })).await;
    let answer = mine.submit(&form).await;
    assert_eq!(answer.status, 409);
    answer.assert_has("Present value: theirs &amp; &lt;b&gt;");
    let again = crate::common::html_form::HtmlForm::find(&answer.body, &path).unwrap();
    assert_eq!((again.get("name"), again.get("form")), ("mine", form.get("form")));
    assert!(mine.submit(&again).await.is_done());
    assert_eq!(node.ask(&format!("GET {api}"), Value::Null).await["name"], "mine");
}

async fn forms_of_two_readers_at_once_are_saved_once(node: &Node) {
    let objects = Objects::new(node).await;
    let (mine, theirs) = (Visitor::new(node, TOKEN).await, Visitor::new(node, TOKEN).await);
    for route in forms().into_iter().filter(|route| !route.ends_with("/new")) {
        let models =
            if route.ends_with("{model}") { &["big", "small", "other-1"][..] } else { &["big"] };
        for model in models {
            let path = objects.address(&route.replace("{model}", model));
            let values = filled(&route).0;
            let (one, other) = (mine.fill(&path, &values).await, theirs.fill(&path, &values).await);
            let before = rows(node).await;
            let (one, other) = tokio::join!(mine.submit(&one), theirs.submit(&other));
            let done = [&one, &other].iter().filter(|answer| answer.is_done()).count();
            let answers = format!("{path}: {} {}", one.status, other.status);
            assert_eq!((done, rows(node).await), (1, before + 1), "{answers}");
        }
    }
}

async fn forms_need_the_token_of_their_reader(node: &Node) {
    let objects = Objects::new(node).await;
    let (mine, theirs) = (Visitor::new(node, TOKEN).await, Visitor::new(node, TOKEN).await);
    let posts = gateway_admin::dashboard_routes().into_iter();
    let posts = posts.filter(|(method, _)| *method == Method::POST).map(|(_, path)| path);
    let posts: Vec<String> = posts.collect();
    assert!(posts.len() > 22);
    // The form of another address, whose token is valid there.
    let elsewhere = mine.open("/dashboard/organizations/new").await;
    let before = contents(node).await;
    for route in posts {
        let path = objects.address(&route);
        let cross = [("sec-fetch-site", "cross-site")];
        let foreign = [("origin", "http://evil.example")];
        if route.ends_with("/sign-in") {
            for headers in [&cross, &foreign] {
                let answer = mine.send("POST", &path, headers, &format!("secret={TOKEN}")).await;
                assert_eq!((answer.status, answer.header("set-cookie")), (403, ""), "{route}");
            }
            continue;
        }
        let (mut form, other) = match route.ends_with("/sign-out") {
            true => {
                let find = |page: &str| {
                    crate::common::html_form::HtmlForm::find(page, "/sign-out").unwrap()
                };
                let page = mine.get("/dashboard").await.body;
                (find(&page), find(&theirs.get("/dashboard").await.body))
            }
            false => {
                let values = filled(&route).0;
                (mine.fill(&path, &values).await, theirs.fill(&path, &values).await)
            }
        };
        let right = form.body();
        for headers in [&cross, &foreign] {
            let answer = mine.send("POST", &path, headers, &right).await;
            assert_eq!(answer.status, 403, "{route} {headers:?}");
        }
        let mut tokens = vec![String::new(), "x".to_owned(), other.get("form").to_owned()];
        if !route.ends_with("organizations/new") {
            tokens.push(elsewhere.get("form").to_owned());
        }
        for token in tokens {
            form.set("form", &token);
            let answer = mine.submit(&form).await;
            assert_eq!(answer.status, 403, "{route} with the token {token}");
            answer.assert_has("Nothing was changed");
        }
        let stranger = Visitor { cookie: String::new(), ..Visitor::new(node, TOKEN).await };
        let answer = stranger.post(&path, &right).await;
        assert_eq!(answer.status, 303, "{route}");
        assert!(answer.location().starts_with("/dashboard/sign-in"), "{route}");
    }
    // Sign-ins and failed ones leave rows; nothing else does.
    let signed_in = |row: &&String| !row.contains("login.");
    let after = contents(node).await;
    let (before, after): (Vec<_>, Vec<_>) =
        (before.iter().filter(signed_in).collect(), after.iter().filter(signed_in).collect());
    assert_eq!(after, before);
    assert_eq!(mine.get("/dashboard").await.status, 200, "nobody has signed out");
}

async fn no_page_changes_anything(node: &Node) {
    let objects = Objects::new(node).await;
    let visitor = Visitor::new(node, TOKEN).await;
    let before = contents(node).await;
    let pages = gateway_admin::dashboard_routes().into_iter();
    let pages = pages.filter(|(method, _)| *method == Method::GET).map(|(_, path)| path);
    let pages: Vec<String> = pages.collect();
    assert!(pages.len() > 30);
    for route in pages {
        let query = if route.ends_with("/export") { "?format=csv" } else { "" };
        let path = format!("{}{query}", objects.address(&route));
        let answer = visitor.get(&path).await;
        assert!(
            matches!(answer.status, 200 | 303 | 308),
            "{path}: {} {}",
            answer.status,
            answer.body
        );
        // With every parameter that a page may read, and with those of its form.
        for query in ["?done=created&q=a&after=a&refresh=on", "?name=x&threshold_amount=1&form=x"] {
            let answer = visitor.get(&format!("{}{query}", objects.address(&route))).await;
            assert!(answer.status < 500, "{path}: {}", answer.status);
        }
    }
    assert_eq!(contents(node).await, before);
}

async fn a_form_of_which_no_answer_arrived_can_be_sent_again(node: &Node) {
    let objects = Objects::new(node).await;
    let visitor = Visitor::new(node, TOKEN).await;
    let path = objects.address("/dashboard/organizations/{id}/payments/new");
    let mut form = visitor.fill(&path, &[("amount_cents", "a lot")]).await;
    // A refused form keeps its number: only an act uses it up.
    let answer = visitor.submit(&form).await;
    assert_eq!(answer.status, 400);
    form.set("amount_cents", "5");
    assert!(visitor.submit(&form).await.is_done());
    let answer = visitor.submit(&form).await;
    assert_eq!((answer.status, answer.location().ends_with("?done=repeated")), (303, true));
    visitor.get(answer.location()).await.assert_has("nothing was done twice");
    let paid = node.ask("GET /v1/organizations/org-default", Value::Null).await;
    assert_eq!(paid["paid_cents"], 500);
    // The number of a form is forgotten only after the form has expired.
    let later = node.sources.0.load(std::sync::atomic::Ordering::Relaxed);
    let prune = async |hours: u64| {
        let now = later + hours * 3_600_000_000;
        gateway_store::records::prune(&node.database, now).await.unwrap();
        let kept = contents(node).await;
        kept.iter().filter(|row| row.starts_with("facts") && row.contains("act:")).count()
    };
    assert_eq!((prune(8).await, prune(49).await), (1, 0));
}

async fn forms_without_a_row_in_the_audit_log_change_nothing(node: &Node) {
    let objects = Objects::new(node).await;
    let visitor = Visitor::new(node, TOKEN).await;
    let mut open = Vec::new();
    for route in forms() {
        open.push(visitor.fill(&objects.address(&route), &filled(&route).0).await);
    }
    let rename = |from: &str, to: &str| {
        let sql = format!("ALTER TABLE {from} RENAME TO {to}");
        gateway_store::database::Statement::composed(sql, vec![])
    };
    let before = contents(node).await;
    node.database.transact(vec![rename("audit_logs", "elsewhere")]).await.unwrap();
    for form in &open {
        let answer = visitor.submit(form).await;
        assert_eq!(answer.status, 500, "{}", form.action);
        assert!(!answer.body.contains("sk-"), "{}", form.action);
        assert!(!answer.body.contains("audit_logs"), "the cause is in the log: {}", answer.body);
    }
    node.database.transact(vec![rename("elsewhere", "audit_logs")]).await.unwrap();
    assert_eq!(contents(node).await, before);
    // The same forms succeed then.
    let project = text(&json!(objects.project));
    let form = open.iter().find(|form| form.action.ends_with(&format!("{project}/edit"))).unwrap();
    assert!(visitor.submit(form).await.is_done());
}
