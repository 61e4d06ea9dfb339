//! Signing in with a form, and signing out. The form is accepted only from this site, as browsers
//! state the origin of a form.

use axum::Form;
use axum::extract::{FromRequest, Request, State};
use axum::http::{HeaderMap, Uri};
use axum::response::{AppendHeaders, Html, IntoResponse, Redirect, Response};
use hyper::StatusCode;
use hyper::header::{HOST, HeaderName, ORIGIN, SET_COOKIE};
use hyper::http::request::Parts;
use maud::html;
use serde::Deserialize;

use super::access::{self, COOKIE_NAME, Client};
use super::context::{Context, Shared};
use super::page::{self, Failure, Frame, QueryResult};
use super::session::{LIFETIME, Session};
use crate::OverHttps;
use gateway_policy::dates::seconds;

/// Newer browsers state the origin of a request in this header.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// Largest form, in bytes.
const MAX_FORM: usize = 8192;

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Next {
    next: String,
}

#[derive(Deserialize)]
struct Filled {
    secret: String,
    #[serde(default)]
    next: String,
}

/// `GET /dashboard/sign-in`.
pub(super) async fn form(
    State(context): Shared,
    next: QueryResult<Next>,
) -> Result<Html<String>, Failure> {
    access::configured(&context)?;
    Ok(show(&page::read_query(next)?.next, false))
}

/// `POST /dashboard/sign-in`.
pub(super) async fn sign_in(State(context): Shared, request: Request) -> Result<Response, Failure> {
    let token = access::configured(&context)?;
    let (parts, body) = request.into_parts();
    is_own(&parts.headers)?;
    let client = Client::of(&parts);
    let is_https = is_https(&parts);
    let filled = read(&context, Request::from_parts(parts, body)).await?;
    let Some(credential) = access::check(&context, filled.secret.trim(), &client).await? else {
        return Ok((StatusCode::FORBIDDEN, show(&filled.next, true)).into_response());
    };
    client.note(&context.services, "login.succeeded", &credential).await?;
    let (clock, random) = (&context.services.clock, &*context.services.random);
    let session = Session::new(credential, seconds(clock.now()), random);
    let cookie = cookie(&session.seal(&token), LIFETIME, is_https);
    let target = own_path(&filled.next).unwrap_or("/dashboard");
    Ok((AppendHeaders([(SET_COOKIE, cookie)]), Redirect::to(target)).into_response())
}

/// `POST /dashboard/sign-out`.
pub(super) async fn sign_out(
    State(context): Shared,
    request: Request,
) -> Result<Response, Failure> {
    let (parts, _) = request.into_parts();
    let headers = &parts.headers;
    is_own(headers)?;
    let token = access::configured(&context)?;
    if let Some(session) = access::session(&context, headers, &token).await? {
        let client = Client::of(&parts);
        client.note(&context.services, "logout.succeeded", &session.credential).await?;
        context.signed_out.end(&session);
    }
    let cookie = cookie("", 0, is_https(&parts));
    let target = Redirect::to("/dashboard/sign-in");
    Ok((AppendHeaders([(SET_COOKIE, cookie)]), target).into_response())
}

async fn read(context: &Context, request: Request) -> Result<Filled, Failure> {
    let patience = context.services.settings.load().server.body_timeout;
    let (parts, body) = request.into_parts();
    let body = axum::body::Body::new(http_body_util::Limited::new(body, MAX_FORM));
    let filled = Form::from_request(Request::from_parts(parts, body), &());
    match tokio::time::timeout(patience, filled).await {
        Ok(Ok(Form(filled))) => Ok(filled),
        Ok(Err(_)) => Err(Failure::Query),
        Err(_) => Err(Failure::Slow),
    }
}

fn show(next: &str, refused: bool) -> Html<String> {
    let frame = Frame { title: "Sign in", access: None, refresh: None };
    let described = refused.then_some("refused");
    frame.around(&html! {
        form.card.narrow method="post" action="/dashboard/sign-in" {
            h1 { "Sign in" }
            @if refused {
                p #refused .notice.bad role="alert" {
                    strong { "Not accepted. " }
                    "This is not the admin token or a valid admin key."
                }
            }
            label for="secret" { "Admin token or admin key" }
            input #secret type="password" name="secret" required autocomplete="current-password"
                aria-invalid=[refused.then_some("true")] aria-describedby=[described];
            p.hint {
                "The admin token gives access to all organizations, an admin key to its own. "
                "The session ends after eight hours."
            }
            input type="hidden" name="next" value=(own_path(next).unwrap_or_default());
            button.primary type="submit" { "Sign in" }
        }
    })
}

/// A path of the dashboard to redirect to; rejects texts that a browser would read as another site.
fn own_path(next: &str) -> Option<&str> {
    let path: Uri = next.parse().ok()?;
    let is_ours = path.path() == "/dashboard" || path.path().starts_with("/dashboard/");
    (path.authority().is_none() && is_ours && next.starts_with("/dashboard")).then_some(next)
}

/// Refuses forms of other sites. A request without an origin is accepted: it is not from a form in
/// a browser.
fn is_own(headers: &HeaderMap) -> Result<(), Failure> {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let is_own = match (text(FETCH_SITE), text(ORIGIN)) {
        (Some(site), _) => matches!(site, "same-origin" | "none"),
        (None, Some(origin)) => {
            let host = origin.split_once("://").map(|(_, host)| host);
            host.is_some() && host == text(HOST)
        }
        (None, None) => true,
    };
    is_own.then_some(()).ok_or(Failure::OtherSite)
}

/// Returns whether the browser shows an `https:` page of ours, or a trusted proxy says so: its cookie is then restricted
/// to https.
fn is_https(parts: &Parts) -> bool {
    let origin = parts.headers.get(ORIGIN);
    let is_page = origin.is_some_and(|origin| origin.as_bytes().starts_with(b"https://"));
    is_page || parts.extensions.get::<OverHttps>().is_some()
}

fn cookie(value: &str, seconds: i64, is_https: bool) -> String {
    let secure = if is_https { "; Secure" } else { "" };
    format!(
        "{COOKIE_NAME}={value}; Path=/dashboard; Max-Age={seconds}; HttpOnly; \
         SameSite=Strict{secure}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sign_ins_redirect_to_the_dashboard_only() {
        let check = |next, expected| assert_eq!(own_path(next), expected, "{next}");
        for own in ["/dashboard", "/dashboard/organizations/org-1?after=x", "/dashboard?q=a%20b"] {
            check(own, Some(own));
        }
        for other in [
            "",
            "//evil.example",
            "https://evil.example/dashboard",
            "//evil.example/dashboard/",
            "/v1/models",
            "/dashboards",
            "/\\evil.example",
            "javascript:alert(1)",
            "/dashboard\r\nSet-Cookie: a=b",
        ] {
            check(other, None);
        }
    }

    #[test]
    fn forms_are_accepted_from_the_same_origin_only() {
        let check = |pairs: &[(&'static str, &str)], expected: bool| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.insert(*name, value.parse().expect("a header"));
            }
            assert_eq!(is_own(&headers).is_ok(), expected, "{pairs:?}");
        };
        let host = ("host", "gateway:8080");
        check(&[host], true);
        check(&[host, ("sec-fetch-site", "same-origin")], true);
        check(&[host, ("sec-fetch-site", "cross-site")], false);
        check(&[host, ("sec-fetch-site", "same-site")], false);
        check(&[host, ("origin", "http://gateway:8080")], true);
        check(&[host, ("origin", "http://evil.example")], false);
        check(&[host, ("origin", "null")], false);
        // Behind a proxy the host differs, and a browser on https sends more headers.
        check(&[host, ("origin", "https://x"), ("sec-fetch-site", "same-origin")], true);
    }
}
