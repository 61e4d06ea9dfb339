//! Signing in with a form, and signing out. The form is accepted only from this site, as browsers
//! state the origin of a form; signing out also needs the token of the form.

use axum::extract::{Request, State};
use axum::http::Uri;
use axum::response::{AppendHeaders, Html, IntoResponse, Redirect, Response};
use hyper::StatusCode;
use hyper::header::SET_COOKIE;
use maud::html;
use serde::Deserialize;

use super::access::{self, COOKIE_NAME, Client};
use super::context::Shared;
use super::form_body;
use super::form_token::FormKey;
use super::origin::{is_https, is_own};
use super::page::{self, Failure, Frame, QueryResult};
use super::session::{LIFETIME, Session};
use gateway_policy::dates::seconds;

/// Largest form, in bytes.
const MAX_FORM: usize = 8192;

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Next {
    next: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Leaving {
    form: String,
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
    let request = Request::from_parts(parts, body);
    let filled: Filled = form_body::read(&context, request, MAX_FORM).await?;
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
    let (parts, body) = request.into_parts();
    let headers = parts.headers.clone();
    is_own(&headers)?;
    let is_https = is_https(&parts);
    let token = access::configured(&context)?;
    let client = Client::of(&parts);
    let request = Request::from_parts(parts, body);
    let leaving: Leaving = form_body::read(&context, request, MAX_FORM).await?;
    if let Some(session) = access::session(&context, &headers, &token).await? {
        let now = seconds(context.services.clock.now());
        let key = FormKey::new(&token, &session.id);
        key.open(&leaving.form, page::SIGN_OUT, now).ok_or(Failure::Forged)?;
        client.note(&context.services, "logout.succeeded", &session.credential).await?;
        context.signed_out.end(&session);
    }
    let cookie = cookie("", 0, is_https);
    let target = Redirect::to("/dashboard/sign-in");
    Ok((AppendHeaders([(SET_COOKIE, cookie)]), target).into_response())
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
}
