//! The dashboard in a real browser: with the keyboard alone, as presented to a screen reader, and
//! as displayed.

#[path = "../../../cli/tests/suite/browser/mod.rs"]
mod browser;

use std::path::Path;

use crate::common::fixture::{Fixture, TOKEN, Tenant};
use browser::Browser;

/// Presses Tab until the focused element has this name.
fn tab_to(browser: &mut Browser, name: &str) {
    let mut seen = Vec::new();
    for _ in 0..60 {
        browser.press("Tab");
        let focused = "(() => { const e = document.activeElement;
            return (e.labels?.[0] ?? e).textContent.trim() || e.getAttribute('aria-label') })()";
        let focused = browser.evaluate(focused).as_str().unwrap_or_default().to_owned();
        if focused == name {
            let outline = "getComputedStyle(document.activeElement).outlineStyle";
            assert_ne!(browser.evaluate(outline), "none", "the focus on {name} is to be seen");
            return;
        }
        seen.push(focused);
    }
    panic!("no {name:?} among {seen:?}");
}

/// Waits until the page has given the focus to an element `e` that meets a condition.
fn wait_for_focus(browser: &mut Browser, condition: &str) {
    let focused = format!(
        "new Promise((resolve) => {{
            const look = () => {{
                const e = document.activeElement;
                if ({condition}) resolve(true);
            }};
            document.addEventListener('focusin', look);
            look();
        }})"
    );
    assert_eq!(browser.evaluate(&focused), true);
}

fn sign_in(browser: &mut Browser, fixture: &Fixture) {
    browser.open(&format!("http://{}/dashboard", fixture.address));
    tab_to(browser, "Admin token or admin key");
    browser.type_text(TOKEN);
    browser.follow(|browser| browser.press("Enter"));
    assert_eq!(browser.evaluate("document.cookie"), "", "scripts cannot read it");
}

async fn with_tenant() -> (Fixture, Tenant) {
    let fixture = Fixture::new().await;
    let tenant = fixture.tenant("Northwind Trading").await;
    fixture.fill(&tenant).await;
    (fixture, tenant)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_dashboard_is_usable_with_the_keyboard_alone() {
    let (fixture, tenant) = with_tenant().await;
    let mut browser = Browser::start();
    sign_in(&mut browser, &fixture);
    assert_eq!(browser.evaluate("document.querySelector('h1').textContent"), "Organizations");
    tab_to(&mut browser, "Name or id");
    browser.type_text("northwind");
    browser.follow(|browser| browser.press("Enter"));
    tab_to(&mut browser, "Northwind Trading");
    browser.follow(|browser| browser.press("Enter"));
    let path = format!("/dashboard/organizations/{}", tenant.organization.id);
    assert_eq!(browser.evaluate("location.pathname"), path.as_str());
    browser.press("Tab");
    browser.press("Enter");
    assert_eq!(browser.evaluate("document.activeElement.id"), "content", "the skip link skips");
    tab_to(&mut browser, "Northwind Trading production");
    browser.follow(|browser| browser.press("Enter"));
    browser.wait_for("td code", "sk-proj-********");
    tab_to(&mut browser, "Sign out");
    browser.follow(|browser| browser.press("Enter"));
    assert_eq!(browser.evaluate("location.pathname"), "/dashboard/sign-in");
    browser.check_errors();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_created_and_revoked_with_the_keyboard_alone() {
    let (fixture, tenant) = with_tenant().await;
    let mut browser = Browser::start();
    sign_in(&mut browser, &fixture);
    let project = format!(
        "/dashboard/organizations/{}/projects/{}",
        tenant.organization.id, tenant.project.id
    );
    browser.open(&format!("http://{}{project}", fixture.address));
    tab_to(&mut browser, "New key");
    browser.follow(|browser| browser.press("Enter"));
    // The first field has the focus.
    wait_for_focus(&mut browser, "e.id === 'field-name'");
    // The browser itself asks for a needed field; the gateway does where a name is of spaces.
    browser.type_text(" ");
    browser.follow(|browser| browser.press("Enter"));
    browser.wait_for("#field-name-error", "1 to 256 characters");
    // The wrong field has the focus.
    wait_for_focus(&mut browser, "e.id === 'field-name'");
    let described = "document.activeElement.getAttribute('aria-describedby')";
    assert_eq!(browser.evaluate(described), "field-name-hint field-name-error");
    browser.type_text("by keyboard");
    tab_to(&mut browser, "Create key");
    browser.follow(|browser| browser.press("Enter"));
    // The new key has the focus.
    wait_for_focus(&mut browser, "e.id === 'secret'");
    let key = browser.evaluate("document.activeElement.value");
    let key = key.as_str().unwrap().to_owned();
    assert!(fixture.gateway.directory().caller(&key).await.is_ok());
    assert_eq!(browser.evaluate("location.search"), "", "no address has the key");
    tab_to(&mut browser, "The key's page");
    browser.follow(|browser| browser.press("Enter"));
    assert_eq!(browser.evaluate("document.querySelector('h1').textContent"), "by keyboard");
    let shown = format!("document.documentElement.outerHTML.includes('{key}')");
    assert_eq!(browser.evaluate(&shown), false, "it is shown once");
    tab_to(&mut browser, "Revoke");
    browser.follow(|browser| browser.press("Enter"));
    assert!(fixture.gateway.directory().caller(&key).await.is_ok(), "it is asked first");
    tab_to(&mut browser, "Revoke key");
    browser.follow(|browser| browser.press("Enter"));
    assert_eq!(browser.evaluate("location.pathname"), project.as_str());
    let text = "The key is revoked. Requests with it are refused.";
    wait_for_focus(&mut browser, &format!("e.textContent === '{text}'"));
    assert!(fixture.gateway.directory().caller(&key).await.is_err());
    browser.check_errors();
}

/// The pages of an organization: the name of a picture, and the address.
fn pages(tenant: &Tenant, key: &str) -> Vec<(&'static str, String)> {
    let organization = format!("/dashboard/organizations/{}", tenant.organization.id);
    let project = format!("{organization}/projects/{}", tenant.project.id);
    vec![
        ("-list", "/dashboard".to_owned()),
        ("", organization.clone()),
        ("-project", project.clone()),
        ("-deprecations", "/dashboard/deprecations".to_owned()),
        ("-keys", format!("{organization}/keys?q=server")),
        ("-key", format!("{project}/keys/{key}")),
        ("-key-new", format!("{project}/keys/new")),
        ("-key-rotate", format!("{project}/keys/{key}/rotate")),
        ("-key-revoke", format!("{project}/keys/{key}/revoke")),
        ("-limits", format!("{project}/limits/atlas")),
        ("-project-edit", format!("{project}/edit")),
        ("-organization-edit", format!("{organization}/edit")),
        ("-spend-limit", format!("{organization}/spend-limit")),
        ("-payments", format!("{organization}/payments")),
        ("-payment-new", format!("{organization}/payments/new")),
        ("-audit", format!("{organization}/audit?action=spend_limit.updated&from=x")),
        ("-audit-all", format!("{organization}/audit")),
    ]
}

/// The id of the tenant's key.
async fn key_id(fixture: &Fixture, tenant: &Tenant) -> Box<str> {
    fixture.gateway.directory().caller(&tenant.key).await.unwrap().key.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_control_has_an_accessible_name() {
    let (fixture, tenant) = with_tenant().await;
    let mut browser = Browser::start();
    sign_in(&mut browser, &fixture);
    let organization = format!("/dashboard/organizations/{}", tenant.organization.id);
    let key = key_id(&fixture, &tenant).await;
    for (_, path) in pages(&tenant, &key) {
        browser.open(&format!("http://{}{path}", fixture.address));
        let accessible = browser.accessible();
        let named = |role: &'static str| accessible.iter().filter(move |(known, _)| known == role);
        for role in [
            "image",
            "img",
            "link",
            "button",
            "textbox",
            "searchbox",
            "table",
            "region",
            "combobox",
            "checkbox",
            "DisclosureTriangle",
            "DateTime",
        ] {
            let nameless = named(role).filter(|(_, name)| name.trim().is_empty()).count();
            assert_eq!(nameless, 0, "{path}: {role} without a name in {accessible:#?}");
        }
        for role in ["banner", "main", "navigation", "contentinfo"] {
            assert!(named(role).next().is_some(), "{path} has no {role}");
        }
        let unlabelled = "[...document.querySelectorAll('input:not([type=hidden]), select')]
            .filter((field) => !field.labels.length).map((field) => field.outerHTML)";
        assert_eq!(browser.evaluate(unlabelled), serde_json::json!([]), "{path}");
        let nameless = "[...document.querySelectorAll('fieldset')]
            .filter((set) => !set.firstElementChild.matches('legend')).length";
        assert_eq!(browser.evaluate(nameless), 0, "{path}");
        let heads = "[...document.querySelectorAll('th')].every((cell) => cell.scope)";
        assert_eq!(browser.evaluate(heads), true, "{path}");
        let levels = "[...document.querySelectorAll('h1, h2, h3')].map((h) => +h.tagName[1])";
        let levels: Vec<i32> = serde_json::from_value(browser.evaluate(levels)).unwrap();
        let in_order = levels.windows(2).all(|two| two[1] <= two[0] + 1);
        assert!(levels[0] == 1 && in_order, "{path}: {levels:?}");
        let ids = "[...document.querySelectorAll('[id]')].map((e) => e.id)";
        let mut ids: Vec<String> = serde_json::from_value(browser.evaluate(ids)).unwrap();
        let all = ids.len();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), all, "{path}: ids are there once");
    }
    browser.open(&format!("http://{}{organization}", fixture.address));
    let charts: Vec<_> = browser.accessible().into_iter().map(|(_, name)| name).collect();
    let has = |text: &str| assert!(charts.iter().any(|name| name.contains(text)), "{text}");
    has("Images a minute, canvas-2: 19 of 20 used, 1 left");
    has("from 17:00 to 16:00; most, ");
    browser.check_errors();
}

/// Contrast of all texts with their backgrounds, by the formula of WCAG 2.
const CONTRAST: &str = r"(() => {
    const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
    const rgb = (color) => {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = color;
        canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data];
    };
    const light = (color) => {
        const [r, g, b] = rgb(color).map((v) => v / 255)
            .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const background = (e) => {
        for (; e; e = e.parentElement) {
            const color = getComputedStyle(e).backgroundColor;
            if (rgb(color)[3] === 255) return color;
        }
        return 'canvas';
    };
    const low = [];
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const e = texts.currentNode.parentElement;
        if (!texts.currentNode.textContent.trim() || e.closest('svg')) continue;
        const [a, b] = [light(getComputedStyle(e).color), light(background(e))].sort((x, y) => y - x);
        const contrast = (a + 0.05) / (b + 0.05);
        if (contrast < 4.5) low.push([e.className || e.tagName, texts.currentNode.textContent, contrast]);
    }
    return low;
})()";

#[tokio::test(flavor = "multi_thread")]
async fn pages_are_readable_in_dark_mode_and_on_a_phone() {
    let (fixture, tenant) = with_tenant().await;
    let mut browser = Browser::start();
    let folder = std::env::var_os("AGENTD_SCREENSHOTS");
    let shoot = |browser: &mut Browser, name: &str| {
        if let Some(folder) = &folder {
            browser.screenshot(&Path::new(folder).join(format!("gateway-dashboard{name}.png")));
        }
    };
    sign_in(&mut browser, &fixture);
    let key = key_id(&fixture, &tenant).await;
    let mut pages = pages(&tenant, &key);
    pages.push(("-sign-in", "/dashboard/sign-in".to_owned()));
    for (name, path) in pages {
        for (scheme, width, height) in
            [("light", 1280, 1440), ("dark", 1280, 1440), ("light", 390, 844), ("dark", 320, 700)]
        {
            browser.prefer(scheme);
            browser.resize(width, height);
            browser.open(&format!("http://{}{path}", fixture.address));
            let low = browser.evaluate(CONTRAST);
            assert_eq!(low, serde_json::json!([]), "{path} {scheme}");
            let wide = browser.evaluate("document.documentElement.scrollWidth - innerWidth");
            assert!(wide.as_i64().unwrap() <= 0, "{path} at {width}: {wide} too wide");
            if folder.is_some() {
                let whole = browser.evaluate("document.documentElement.scrollHeight");
                let whole = u32::try_from(whole.as_u64().unwrap()).unwrap();
                browser.resize(width, whole.clamp(height, 4000));
            }
            match (scheme, width) {
                ("light", 1280) => shoot(&mut browser, name),
                _ => shoot(&mut browser, &format!("{name}-{scheme}-{width}")),
            }
        }
    }
    browser.check_errors();
}
