//! The web client: the files of its page, as they stand in `assets/`, and the headers that they are served
//! with. The page is a client of the protocol as any other; nothing here knows what it does.

use hyper::header::{self, HeaderName, HeaderValue, InvalidHeaderValue};
use transport::{Site, SiteFile};

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

macro_rules! files {
    ($($path:literal $kind:ident $name:literal,)*) => {
        /// Every file of the page, by its path.
        pub const FILES: &[(&str, SiteFile)] = &[
            $(($path, SiteFile {
                content_type: $kind,
                body: include_bytes!(concat!("../assets/", $name)),
            }),)*
        ];
    };
}

files! {
    "/" HTML "index.html",
    "/style.css" STYLE "style.css",
    "/content.css" STYLE "content.css",
    "/actions.js" SCRIPT "actions.js",
    "/agents.js" SCRIPT "agents.js",
    "/app.js" SCRIPT "app.js",
    "/attachments.js" SCRIPT "attachments.js",
    "/complete.js" SCRIPT "complete.js",
    "/composer.js" SCRIPT "composer.js",
    "/connection.js" SCRIPT "connection.js",
    "/dialog.js" SCRIPT "dialog.js",
    "/diff.js" SCRIPT "diff.js",
    "/dom.js" SCRIPT "dom.js",
    "/export.js" SCRIPT "export.js",
    "/facts.js" SCRIPT "facts.js",
    "/fields.js" SCRIPT "fields.js",
    "/files.js" SCRIPT "files.js",
    "/folders.js" SCRIPT "folders.js",
    "/found.js" SCRIPT "found.js",
    "/goal.js" SCRIPT "goal.js",
    "/highlight.js" SCRIPT "highlight.js",
    "/history.js" SCRIPT "history.js",
    "/items.js" SCRIPT "items.js",
    "/markdown.js" SCRIPT "markdown.js",
    "/menu.js" SCRIPT "menu.js",
    "/notify.js" SCRIPT "notify.js",
    "/panel.js" SCRIPT "panel.js",
    "/processes.js" SCRIPT "processes.js",
    "/queue.js" SCRIPT "queue.js",
    "/requests.js" SCRIPT "requests.js",
    "/settings.js" SCRIPT "settings.js",
    "/setup.js" SCRIPT "setup.js",
    "/sources.js" SCRIPT "sources.js",
    "/text.js" SCRIPT "text.js",
    "/thread.js" SCRIPT "thread.js",
    "/threads.js" SCRIPT "threads.js",
    "/token.js" SCRIPT "token.js",
    "/undo.js" SCRIPT "undo.js",
    "/usage.js" SCRIPT "usage.js",
}

/// The site for a listener at `host`, as in `127.0.0.1:4510`.
///
/// # Errors
/// When `host` cannot stand in a header.
pub fn site(host: String) -> Result<Site, InvalidHeaderValue> {
    let headers = headers(&host)?;
    Ok(Site { host, headers, file })
}

fn file(path: &str) -> Option<SiteFile> {
    FILES.iter().find(|(at, _)| *at == path).map(|(_, file)| *file)
}

/// No inline script, nothing from elsewhere, no way to turn a text into markup, and no frame of another site
/// around the page.
fn headers(host: &str) -> Result<Vec<(HeaderName, HeaderValue)>, InvalidHeaderValue> {
    // Not every browser takes `'self'` to include WebSockets.
    let policy = format!(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; \
         connect-src 'self' ws://{host}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
         require-trusted-types-for 'script'; trusted-types 'none'"
    );
    let fixed = |name, value| (name, HeaderValue::from_static(value));
    Ok(vec![
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_str(&policy)?),
        fixed(header::X_FRAME_OPTIONS, "DENY"),
        fixed(header::REFERRER_POLICY, "no-referrer"),
        fixed(HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        fixed(HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        fixed(
            HeaderName::from_static("permissions-policy"),
            "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
        ),
    ])
}
