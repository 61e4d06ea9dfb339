//! The parts that all pages share: the frame around their content, and the error pages. The
//! templates escape everything that is written into a page.

use std::sync::Arc;

use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use axum::http::Uri;
use axum::response::{Html, IntoResponse, Redirect, Response};
use hyper::StatusCode;
use hyper::header::{self, HeaderValue};
use maud::{DOCTYPE, Markup, html};

use super::access::Access;
use super::api::Refusal;
use super::text::query_value;

/// A page's query, which may be unreadable.
pub(super) type QueryResult<T> = Result<Query<T>, QueryRejection>;

/// The value of a query.
///
/// # Errors
/// The query is malformed.
pub(super) fn read_query<T>(query: QueryResult<T>) -> Result<T, Failure> {
    query.map(|Query(asked)| asked).map_err(|_| Failure::Query)
}

/// The address of the form that ends a session.
pub(super) const SIGN_OUT: &str = "/dashboard/sign-out";

/// Refresh interval of pages, in seconds.
const REFRESH: u32 = 10;

/// A page's frame.
pub(super) struct Frame<'a> {
    /// The title of the window.
    pub(super) title: &'a str,
    /// `None`: the reader is not signed in.
    pub(super) access: Option<&'a Access>,
    /// The page's address, if it can refresh itself, and whether it does.
    pub(super) refresh: Option<(&'a Uri, bool)>,
}

impl Frame<'_> {
    /// The whole page around `content`.
    pub(super) fn around(&self, content: &Markup) -> Html<String> {
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    @if let Some((_, true)) = self.refresh {
                        meta http-equiv="refresh" content=(REFRESH);
                    }
                    title { (self.title) " – Gateway" }
                    link rel="stylesheet" href="/dashboard/style.css";
                    link rel="icon" href="/dashboard/icon.svg" type="image/svg+xml";
                }
                body {
                    a.skip href="#content" { "Skip to the content" }
                    (self.header())
                    main #content tabindex="-1" { (content) }
                    footer {
                        @if self.access.is_some() { p { "All times are UTC. Money is US dollars." } }
                    }
                }
            }
        };
        Html(page.into_string())
    }

    fn header(&self) -> Markup {
        html! {
            header.top {
                a.brand href="/dashboard" {
                    svg aria-hidden="true" viewBox="0 0 16 16" width="20" height="20" {
                        path d="M3 13V8M8 13V3M13 13V6" {}
                    }
                    "Gateway"
                }
                @if let Some(access) = self.access {
                    nav aria-label="Main" {
                        @if access.only().is_none() {
                            (self.entry("/dashboard", "Organizations"))
                            (self.entry("/dashboard/deprecations", "Deprecations"))
                        }
                    }
                    (self.refreshing())
                    @if access.session.is_some() {
                        form method="post" action=(SIGN_OUT) {
                            input type="hidden" name="form" value=(access.sign_out);
                            button type="submit" { "Sign out" }
                        }
                    }
                }
            }
        }
    }

    /// An entry of the main navigation; its name is the title of the page.
    fn entry(&self, path: &str, name: &str) -> Markup {
        let current = (self.title == name).then_some("page");
        html! { a href=(path) aria-current=[current] { (name) } }
    }

    fn refreshing(&self) -> Markup {
        let Some((address, on)) = self.refresh else { return html! {} };
        let others = address.query().unwrap_or_default().split('&');
        let others = others.filter(|pair| {
            !pair.is_empty() && !pair.starts_with("refresh=") && !pair.starts_with("done=")
        });
        let mut pairs: Vec<&str> = others.collect();
        if !on {
            pairs.push("refresh=on");
        }
        let target = format!("{}?{}", address.path(), pairs.join("&"));
        html! {
            a.refresh href=(target) {
                @if on { "Stop refreshing" } @else { "Refresh every " (REFRESH) " s" }
            }
        }
    }
}

/// Returns whether the query requests automatic refresh.
pub(super) fn refreshes(address: &Uri) -> bool {
    address.query().is_some_and(|query| query.split('&').any(|pair| pair == "refresh=on"))
}

/// The part of a response that is only for the operator; it is logged.
#[derive(Clone, Debug)]
pub(super) struct LogLine(pub(super) Arc<str>);

/// Why a page cannot be shown.
#[derive(Debug)]
pub(super) enum Failure {
    /// Sign-in is required, then a redirect to this path.
    SignedOut { next: String },
    /// Basic authentication with a wrong secret.
    WrongPassword,
    /// Too many wrong secrets.
    TooManyAttempts { seconds: u64 },
    /// No admin token is configured.
    Closed,
    /// The named resource does not exist.
    NotFound(String),
    /// The query is malformed.
    Query,
    /// The path does not support this method.
    Method,
    /// The form was sent from another site.
    OtherSite,
    /// The form has no token that is valid for it and its reader.
    Forged,
    /// The form is too large, or not one.
    Form,
    /// The act needs the admin token.
    Forbidden,
    /// The form was not received in time.
    Slow,
    /// The store is unreachable or too slow.
    Unavailable,
    /// The store rejected a statement. The cause goes to the log only, because any reader may see
    /// the page.
    Fault(String),
}

impl Failure {
    /// 404 for an organization, whether unknown or inaccessible.
    pub(super) fn no_organization(id: &str) -> Self {
        Self::NotFound(format!("no organization {}", id.chars().take(80).collect::<String>()))
    }

    /// 404 for a record of an organization.
    pub(super) fn missing(kind: &str, id: &str) -> Self {
        Self::NotFound(format!("no {kind} {}", id.chars().take(80).collect::<String>()))
    }

    fn status(&self) -> StatusCode {
        match self {
            Self::SignedOut { .. } => StatusCode::SEE_OTHER,
            Self::WrongPassword => StatusCode::UNAUTHORIZED,
            Self::TooManyAttempts { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::Closed | Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::NotFound(_) => StatusCode::NOT_FOUND,
            Self::Query | Self::Form => StatusCode::BAD_REQUEST,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::OtherSite | Self::Forged | Self::Forbidden => StatusCode::FORBIDDEN,
            Self::Slow => StatusCode::REQUEST_TIMEOUT,
            Self::Fault(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn words(&self) -> (&'static str, Markup) {
        match self {
            Self::SignedOut { .. } | Self::WrongPassword => (
                "Not signed in",
                html! { "The password is not the admin token or a valid admin key." },
            ),
            Self::TooManyAttempts { seconds } => {
                ("Too many failed sign-ins", html! { "Please try again in " (seconds) " s." })
            }
            Self::Closed => ("The dashboard is disabled", closed()),
            Self::NotFound(what) => (
                "Not found",
                html! { "There is " (what) ". " a href="/dashboard" { "Back to the dashboard" } },
            ),
            Self::Query => (
                "Invalid address",
                html! { "Its query has an invalid or repeated parameter. "
                a href="/dashboard" { "Back to the dashboard" } },
            ),
            Self::Method => ("Method not allowed", html! { "This page supports GET only." }),
            Self::OtherSite => (
                "Refused",
                html! { "The form was sent from another site. Open the dashboard itself: "
                a href="/dashboard/sign-in" { "sign in" } "." },
            ),
            Self::Forged => (
                "The form has expired",
                html! { "Nothing was changed: the form is older than eight hours, or was opened in another \
                session. Go back, reload the page, and fill in the form again." },
            ),
            Self::Form => (
                "The form cannot be read",
                html! { "Nothing was changed: the form is too large, or incomplete. Go back and check it." },
            ),
            Self::Forbidden => (
                "Not permitted",
                html! { "An admin key administers its own organization only; this needs the gateway's \
                admin token. " a href="/dashboard" { "Back to the dashboard" } },
            ),
            Self::Slow => {
                ("Timed out", html! { "The form did not arrive in time. Please send it again." })
            }
            Self::Unavailable => (
                "The store does not answer",
                html! { "The gateway's store does not answer in time. Please try again in a moment; \
                if that does not help, check the gateway's log." },
            ),
            Self::Fault(_) => {
                ("The store reports an error", html! { "The gateway's log has the details." })
            }
        }
    }
}

fn closed() -> Markup {
    html! {
        "The dashboard requires an admin token, and none is configured. Write a token of at \
         least 16 characters to a file that only the gateway can read, and name the file in the \
         gateway's configuration:"
        pre { code {
            "umask 077; head -c 32 /dev/urandom | base64 > /etc/gateway/admin-token" "\n\n"
            "[admin]\ntoken_file = \"/etc/gateway/admin-token\""
        } }
        "Then reload the gateway's configuration (SIGHUP, or a restart)."
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        if let Self::SignedOut { next } = &self {
            let target = format!("/dashboard/sign-in?next={}", query_value(next));
            return Redirect::to(&target).into_response();
        }
        let (title, text) = self.words();
        let frame = Frame { title, access: None, refresh: None };
        let page = frame.around(&html! { div.narrow { h1 { (title) } div.prose { (text) } } });
        let mut response = (self.status(), page).into_response();
        let headers = response.headers_mut();
        if let Self::WrongPassword = self {
            let challenge = "Basic realm=\"gateway dashboard\", charset=\"UTF-8\"";
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        if let Self::TooManyAttempts { seconds } = self {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if let Self::Fault(why) = self {
            response.extensions_mut().insert(LogLine(why.into()));
        }
        response
    }
}

impl From<Refusal> for Failure {
    /// A refusal of the API on a page without a form.
    fn from(refusal: Refusal) -> Self {
        match refusal.status.as_u16() {
            404 => Self::NotFound("nothing of that name".to_owned()),
            403 => Self::Forbidden,
            503 => Self::Unavailable,
            500.. => Self::Fault(refusal.message),
            _ => Self::Query,
        }
    }
}

impl From<gateway_store::Error> for Failure {
    fn from(error: gateway_store::Error) -> Self {
        if error.is_unavailable() {
            return Self::Unavailable;
        }
        Self::Fault(error.to_string())
    }
}
