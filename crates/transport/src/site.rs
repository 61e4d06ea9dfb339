//! A site: fixed files that a listener serves in addition to its WebSocket, for the browsers of this machine. A
//! listener with a site answers to one address only, because a name that another site points to this
//! machine must not reach it.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{HOST, HeaderName, HeaderValue, UPGRADE};
use hyper::{Request, Response};

/// The files of a site, which are the same for all clients and need no token.
pub struct Site {
    /// Host and port of the only address that the listener answers to, as in `127.0.0.1:4510`.
    pub host: String,
    /// Headers of every file.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The file at a path, which begins with a slash.
    pub file: fn(&str) -> Option<SiteFile>,
}

/// A file of a [`Site`].
#[derive(Clone, Copy, Debug)]
pub struct SiteFile {
    /// The media type.
    pub content_type: &'static str,
    /// The contents.
    pub body: &'static [u8],
}

/// The path that answers whether a token is valid. A page does not learn why its WebSocket was refused.
pub(crate) const TOKEN_CHECK: &str = "/token";

impl Site {
    /// The file that a request asks for, if it is no upgrade to a WebSocket.
    pub(crate) fn find<B>(&self, request: &Request<B>) -> Option<SiteFile> {
        let is_upgrade = request.headers().contains_key(UPGRADE);
        if is_upgrade { None } else { (self.file)(request.uri().path()) }
    }

    /// Returns whether a request names the site's address, and no other.
    pub(crate) fn is_named<B>(&self, request: &Request<B>) -> bool {
        let host = request.headers().get(HOST);
        let target = request.uri().authority();
        host.is_some_and(|host| host.as_bytes() == self.host.as_bytes())
            && target.is_none_or(|target| target.as_str() == self.host)
    }

    /// The response with a file.
    pub(crate) fn response(&self, file: SiteFile) -> Response<Full<Bytes>> {
        let kind = HeaderValue::from_static(file.content_type);
        let mut response = crate::handshake::page(kind, Bytes::from_static(file.body));
        for (name, value) in &self.headers {
            response.headers_mut().insert(name.clone(), value.clone());
        }
        response
    }
}
