//! The dashboard over HTTP: every page, its readers, and that external texts never become markup.

use crate::common::fixture::{Answer, Fixture, TOKEN, Tenant};
use crate::common::html_form::HtmlForm;
use crate::common::servers::{Postgres, Redis};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

const HOSTILE: &str = "<script>alert('x')</script> & \"Söhne\"";

fn basic(secret: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("anybody:{secret}")))
}

async fn get_page(fixture: &Fixture, path: &str, secret: &str) -> Answer {
    fixture.get(path, &[("authorization", &basic(secret))]).await
}

async fn sign_in(fixture: &Fixture, secret: &str) -> String {
    let answer = fixture.post("/dashboard/sign-in", &[], &format!("secret={secret}")).await;
    assert_eq!((answer.status, answer.header("location")), (303, Some("/dashboard")));
    let cookie = answer.header("set-cookie").unwrap();
    for part in ["; HttpOnly", "; SameSite=Strict", "; Path=/dashboard;"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(!cookie.contains(secret) && !cookie.contains("Secure"));
    cookie.split(';').next().unwrap().to_owned()
}

fn organization(tenant: &Tenant) -> String {
    format!("/dashboard/organizations/{}", tenant.organization.id)
}

fn project(tenant: &Tenant) -> String {
    format!("{}/projects/{}", organization(tenant), tenant.project.id)
}

#[track_caller]
fn assert_contains(answer: &Answer, expected: &[&str]) {
    for expected in expected {
        assert!(answer.body.contains(expected), "{expected} is not in\n{}", answer.body);
    }
}

#[tokio::test]
async fn every_page_loads_and_hostile_names_are_escaped() {
    let fixture = Fixture::new().await;
    let tenant = fixture.tenant(HOSTILE).await;
    fixture.key(&tenant.project.id, HOSTILE).await;
    fixture.fill(&tenant).await;
    let pages = [
        "/dashboard".to_owned(),
        format!("/dashboard?q={}", "%3Cscript%3E"),
        "/dashboard/deprecations".to_owned(),
        organization(&tenant),
        project(&tenant),
    ];
    for path in &pages {
        let answer = get_page(&fixture, path, TOKEN).await;
        assert_eq!(answer.status, 200, "{path}");
        assert!(!answer.body.contains("<script"), "{path}: {}", answer.body);
        assert_contains(
            &answer,
            &["&lt;script&gt;alert('x')&lt;/script&gt; &amp; &quot;Söhne&quot;"],
        );
        assert_contains(&answer, &["<main id=\"content\"", "Skip to the content", "<h1>"]);
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none';") && !policy.contains("unsafe"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        assert_eq!(answer.header("x-frame-options"), Some("DENY"));
        assert!(!answer.body.contains("style="), "the policy lets no inline style through");
    }
    for (path, kind) in [("style.css", "text/css"), ("icon.svg", "image/svg+xml")] {
        let answer = fixture.get(&format!("/dashboard/{path}"), &[]).await;
        assert_eq!((answer.status, answer.header("content-type")), (200, Some(kind)));
    }
}

#[tokio::test]
async fn an_organization_s_page_has_its_limits_its_money_and_its_usage() {
    let fixture = Fixture::new().await;
    let tenant = fixture.tenant("Northwind").await;
    fixture.fill(&tenant).await;
    let page = get_page(&fixture, &organization(&tenant), TOKEN).await;
    assert_contains(
        &page,
        &[
            // One limit of a model, of a group, and of each other kind.
            "Requests a minute, atlas-2026-08-01: 192 of 600 used, 408 left",
            "Long-context tokens a minute, atlas-2026-08-01: 260,000 of 300,000 used, 40,000 left",
            "Tokens a minute, atlas-family: 895,000 of 1,200,000 used",
            "Images a minute, canvas-2: 19 of 20 used, 1 left",
            "Audio minutes a minute, scribe-1: 19 of 30 used",
            "Shared by <code>atlas-2026-02-10</code>, <code>atlas-2026-08-01</code>",
            "atlas-2026-08-01: 1,850,000 of 5,000,000 tokens queued",
            "Monthly limit of Tier 2: $",
            "Hard limit: $",
            "Tier 2</strong> · $65 paid in all · $35 more paid leads to Tier 3.",
            "the soft limit of $",
            "<span class=\"tag high\">passed</span>",
            "By tokens: atlas-2026-08-01, ",
            "By cost: atlas-2026-08-01, ",
            "ends on 2027-02-26 and was used by one project in the last 30 days.",
            "Last 24 hours",
            "Last 30 days",
        ],
    );
    let page = get_page(&fixture, &project(&tenant), TOKEN).await;
    assert_contains(
        &page,
        &[
            "Requests a minute, atlas-2026-08-01: 192 of 200 used, 8 left",
            "Hard limit: $",
            "sk-proj-********",
            "Production server",
            "in force",
        ],
    );
    assert!(!page.body.contains(&tenant.key));
    let page = get_page(&fixture, "/dashboard/deprecations", TOKEN).await;
    assert_contains(
        &page,
        &["atlas-2026-02-10", "2027-02-26", "Northwind", "the last on 2026-11-19 16:04"],
    );
}

#[tokio::test]
async fn organizations_are_searched_by_name_and_id_and_paged() {
    let fixture = Fixture::new().await;
    for number in 0..60 {
        fixture.tenant(&format!("Team {number:02} 100%_{number:02}")).await;
    }
    let tenant = fixture.tenant("Ünïque").await;
    for query in ["%C3%9Cn%C3%AFQUE", &tenant.organization.id.to_uppercase()] {
        let page = get_page(&fixture, &format!("/dashboard?q={query}"), TOKEN).await;
        assert_eq!(page.body.matches("<th scope=\"row\">").count(), 1, "{query}");
    }
    let page = get_page(&fixture, "/dashboard?q=100%25_07", TOKEN).await;
    assert_eq!(page.body.matches("<th scope=\"row\">").count(), 1, "no wildcards");
    assert_contains(
        &get_page(&fixture, "/dashboard?q=nobody", TOKEN).await,
        &["No name or id contains “nobody”"],
    );

    let mut seen = Vec::new();
    let mut path = "/dashboard".to_owned();
    let mut pages = 0;
    loop {
        let page = get_page(&fixture, &path, TOKEN).await;
        let ids = page.body.split("<code class=\"id\">").skip(1);
        seen.extend(ids.map(|rest| rest.split('<').next().unwrap().to_owned()));
        pages += 1;
        assert_eq!(page.body.contains("rel=\"prev\""), pages > 1);
        let Some((_, rest)) = page.body.split_once("rel=\"next\" href=\"") else { break };
        path = rest.split('"').next().unwrap().replace("&amp;", "&");
    }
    seen.dedup();
    assert_eq!((pages, seen.len()), (3, 62));
}

#[tokio::test]
async fn an_admin_key_sees_only_its_own_organization() {
    let fixture = Fixture::new().await;
    let (mine, other) = (fixture.tenant("Mine").await, fixture.tenant("Other").await);
    let cookie = sign_in(&fixture, &mine.admin).await;
    let basic = basic(&mine.admin);
    for credential in [("cookie", cookie.as_str()), ("authorization", &basic)] {
        let credential = &[credential];
        let home = fixture.get("/dashboard", credential).await;
        assert_eq!((home.status, home.header("location")), (303, Some(&*organization(&mine))));
        assert_contains(&fixture.get(&organization(&mine), credential).await, &["Mine"]);
        assert_contains(&fixture.get(&project(&mine), credential).await, &["Mine production"]);
        assert_eq!(fixture.get("/dashboard/deprecations", credential).await.status, 303);
        let mixed = format!("{}/projects/{}", organization(&mine), other.project.id);
        for path in [organization(&other), project(&other), mixed] {
            let answer = fixture.get(&path, credential).await;
            assert_eq!(answer.status, 404, "{path}");
            assert!(!answer.body.contains("Other"), "{path}");
        }
        let unknown = fixture.get("/dashboard/organizations/org-unknown", credential).await;
        let hidden = fixture.get(&organization(&other), credential).await;
        let same = unknown.body.replace("org-unknown", &other.organization.id);
        assert_eq!(hidden.body, same, "whether it exists is not revealed");
    }
    // Revoking a key ends its sessions immediately.
    let database = fixture.gateway.database();
    let id = &mine.organization.id;
    gateway_store::records::admin_keys::revoke(database, id, &mine.admin_id, fixture.gateway.act())
        .await
        .unwrap()
        .unwrap();
    let answer = fixture.get(&organization(&mine), &[("cookie", &cookie)]).await;
    assert_eq!(answer.status, 303);
    // A project's key grants nothing.
    assert_eq!(get_page(&fixture, "/dashboard", &other.key).await.status, 401);
}

#[tokio::test]
async fn sessions_start_persist_and_end() {
    let fixture = Fixture::new().await;
    let answer = fixture.get("/dashboard/deprecations?a=b", &[]).await;
    let next = "/dashboard/sign-in?next=%2Fdashboard%2Fdeprecations%3Fa%3Db";
    assert_eq!((answer.status, answer.header("location")), (303, Some(next)));
    assert_contains(
        &fixture.get(next, &[]).await,
        &["name=\"next\" value=\"/dashboard/deprecations?a=b\""],
    );
    let filled = format!("secret={TOKEN}&next=%2Fdashboard%2Fdeprecations%3Fa%3Db");
    let answer = fixture.post("/dashboard/sign-in", &[], &filled).await;
    assert_eq!(answer.header("location"), Some("/dashboard/deprecations?a=b"));
    let filled = format!("secret={TOKEN}&next=https%3A%2F%2Fevil.example%2F");
    let answer = fixture.post("/dashboard/sign-in", &[], &filled).await;
    assert_eq!(answer.header("location"), Some("/dashboard"));
    let origin = ("origin", "https://gateway");
    let answer = fixture.post("/dashboard/sign-in", &[origin], &filled).await;
    assert!(answer.header("set-cookie").unwrap().ends_with("; Secure"));

    let cookie = sign_in(&fixture, TOKEN).await;
    let mine = [("cookie", &*cookie)];
    assert_eq!(fixture.get("/dashboard", &mine).await.status, 200);
    let tossed = format!("gateway_dashboard=x; other=1; {cookie}");
    assert_eq!(fixture.get("/dashboard", &[("cookie", &tossed)]).await.status, 200);
    let elsewhere = [("cookie", &*cookie), ("sec-fetch-site", "cross-site")];
    assert_eq!(fixture.post("/dashboard/sign-out", &elsewhere, "").await.status, 403);
    assert_eq!(fixture.post("/dashboard/sign-in", &elsewhere, &filled).await.status, 403);
    assert_eq!(fixture.post("/dashboard/sign-out", &mine, "").await.status, 403, "no token");
    let page = fixture.get("/dashboard", &mine).await.body;
    let form = HtmlForm::find(&page, "/dashboard/sign-out").unwrap().body();
    let answer = fixture.post("/dashboard/sign-out", &mine, &form).await;
    assert_eq!(answer.header("location"), Some("/dashboard/sign-in"));
    assert!(answer.header("set-cookie").unwrap().contains("Max-Age=0"));
    assert_eq!(fixture.get("/dashboard", &mine).await.status, 303, "it is over on the server too");

    let cookie = sign_in(&fixture, TOKEN).await;
    fixture.advance(8 * 3_600_000_000 - 1_000_000);
    assert_eq!(fixture.get("/dashboard", &[("cookie", &cookie)]).await.status, 200);
    fixture.advance(1_000_000);
    assert_eq!(fixture.get("/dashboard", &[("cookie", &cookie)]).await.status, 303);
}

#[tokio::test]
async fn wrong_secrets_are_refused_and_after_twenty_not_compared() {
    let fixture = Fixture::new().await;
    let cookie = sign_in(&fixture, TOKEN).await;
    for round in 0..20 {
        if round % 2 == 0 {
            let answer = get_page(&fixture, "/dashboard", &format!("{TOKEN}x")).await;
            assert_eq!(answer.status, 401);
            assert!(answer.header("www-authenticate").unwrap().starts_with("Basic "));
        } else {
            let answer =
                fixture.post("/dashboard/sign-in", &[], "secret=no&next=%2Fdashboard").await;
            assert_eq!(answer.status, 403);
            assert_contains(&answer, &["role=\"alert\"", "Not accepted.", "value=\"/dashboard\""]);
        }
    }
    let answer = get_page(&fixture, "/dashboard", TOKEN).await;
    assert_eq!((answer.status, answer.header("retry-after")), (429, Some("3")));
    assert_eq!(fixture.get("/dashboard", &[("cookie", &cookie)]).await.status, 200, "it is open");
    fixture.advance(3_000_000);
    assert_eq!(get_page(&fixture, "/dashboard", TOKEN).await.status, 200);
}

#[tokio::test]
async fn without_a_token_the_dashboard_explains_how_to_set_one() {
    let fixture = Fixture::with("", None).await;
    for path in ["/dashboard", "/dashboard/sign-in", "/dashboard/organizations/org-default"] {
        let answer = get_page(&fixture, path, "").await;
        assert_eq!(answer.status, 503, "{path}");
        assert_contains(&answer, &["The dashboard is disabled", "token_file"]);
    }
}

#[tokio::test]
async fn error_pages_state_the_error() {
    let fixture = Fixture::new().await;
    let check = async |path: &str, status: u16, words: &str| {
        let answer = get_page(&fixture, path, TOKEN).await;
        assert_eq!(answer.status, status, "{path}");
        assert_contains(&answer, &[words]);
        assert!(answer.header("content-security-policy").is_some(), "{path}");
    };
    check("/dashboard/nowhere", 404, "no such page").await;
    check("/dashboard/organizations/%3Cb%3E", 404, "no organization &lt;b&gt;").await;
    check("/dashboard/organizations/org-default/projects/x", 404, "no project x").await;
    check("/dashboard?q=a&q=b", 400, "Invalid address").await;
    check("/dashboard/organizations/%ff", 400, "").await;
    for query in ["models_after=zzz&groups_after=zzz&projects_after=zzz", "refresh=on", "x=%00"] {
        check(&format!("/dashboard/organizations/org-default?{query}"), 200, "Default").await;
    }
    let refreshing = get_page(&fixture, "/dashboard?refresh=on&q=x", TOKEN).await;
    assert_contains(&refreshing, &["http-equiv=\"refresh\"", "href=\"/dashboard?q=x\""]);
    let answer = fixture.post("/dashboard", &[("authorization", &basic(TOKEN))], "").await;
    assert_eq!(answer.status, 405);
    let long = format!("secret={}", "x".repeat(10_000));
    assert_eq!(fixture.post("/dashboard/sign-in", &[], &long).await.status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_dashboard_works_on_postgres_and_redis_and_reports_unavailable_limits() {
    let (postgres, mut redis) = (Postgres::start(), Redis::start());
    let more = format!("[admin]\ntoken_file = \"token\"\n[limits]\nurl = \"{}\"\n", redis.url());
    let fixture = Fixture::with(&more, Some(&postgres.url())).await;
    let tenant = fixture.tenant(HOSTILE).await;
    fixture.record(&tenant).await;
    assert_contains(
        &get_page(&fixture, "/dashboard?q=%3CSCRIPT%3E", TOKEN).await,
        &["&lt;script&gt;"],
    );
    assert_contains(
        &get_page(&fixture, "/dashboard/deprecations", TOKEN).await,
        &["&lt;script&gt;"],
    );
    let limit = "Requests a minute, atlas-2026-08-01: 0 of 600 used";
    let page = get_page(&fixture, &organization(&tenant), TOKEN).await;
    assert_contains(&page, &[limit, "By cost: atlas-2026-08-01, $"]);
    redis.kill();
    let page = get_page(&fixture, &organization(&tenant), TOKEN).await;
    assert_eq!(page.status, 200);
    assert_contains(
        &page,
        &["The store of the limits does not answer", "By cost: atlas-2026-08-01, $"],
    );
    drop(postgres);
    let page = get_page(&fixture, &organization(&tenant), TOKEN).await;
    assert_eq!(page.status, 503);
    assert_contains(&page, &["The store does not answer"]);
}
