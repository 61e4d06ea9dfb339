//! Signs requests with AWS Signature Version 4.

use std::time::SystemTime;

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign as sigv4};
use aws_sigv4::sign::v4;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{HeaderMap, Request};

use crate::account::AwsSigner;

/// Signs a request with `body`: its method, address, host, type and body. Other headers may change on the way.
///
/// # Errors
/// It has an address or a header that cannot be signed.
pub(crate) fn sign<B>(
    signer: &AwsSigner,
    request: &mut Request<B>,
    body: &[u8],
    now: SystemTime,
) -> Result<(), String> {
    let unusable = |error: &dyn std::fmt::Display| format!("the request cannot be signed: {error}");
    let keys = &signer.keys;
    let token = keys.session_token.as_ref().map(|token| token.expose().to_owned());
    let credentials = Credentials::new(&*keys.id, keys.secret.expose(), token, None, "agentd");
    let identity = credentials.into();
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region(&signer.region)
        .name(signer.service)
        .time(now)
        .settings(SigningSettings::default())
        .build()
        .map_err(|error| unusable(&error))?
        .into();
    let uri = request.uri().to_string();
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let headers = kind.map(|kind| ("content-type", kind)).into_iter();
    let method = request.method().as_str();
    let signable = SignableRequest::new(method, uri, headers, SignableBody::Bytes(body))
        .map_err(|error| unusable(&error))?;
    let (instructions, _) =
        sigv4(signable, &params).map_err(|error| unusable(&error))?.into_parts();
    let (signed, _) = instructions.into_parts();
    let mut added = HeaderMap::new();
    for header in &signed {
        let name =
            HeaderName::from_bytes(header.name().as_bytes()).map_err(|error| unusable(&error))?;
        let mut value = HeaderValue::from_str(header.value()).map_err(|error| unusable(&error))?;
        value.set_sensitive(true);
        added.insert(name, value);
    }
    request.headers_mut().extend(added);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use crate::account::AwsKeys;
    use http_client::Secret;

    /// 2015-08-30T12:36:00Z, the moment of Amazon's test suite.
    const MOMENT: Duration = Duration::from_secs(1_440_938_160);

    fn signature(method: &str, uri: &str, token: Option<&str>, body: &str) -> (String, HeaderMap) {
        let keys = AwsKeys {
            id: "AKIDEXAMPLE".into(),
            secret: Secret::new("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"),
            session_token: token.map(Secret::new),
        };
        let signer = AwsSigner { keys, region: "us-east-1".into(), service: "service" };
        let mut request = Request::builder().method(method).uri(uri).body(()).unwrap();
        sign(&signer, &mut request, body.as_bytes(), UNIX_EPOCH + MOMENT).unwrap();
        let headers = request.headers().clone();
        let signature = headers[header::AUTHORIZATION].to_str().unwrap();
        (signature.rsplit_once('=').unwrap().1.to_owned(), headers)
    }

    /// `get-vanilla`, `post-vanilla` and `get-vanilla-query-order-key-case` of Amazon's published test suite.
    #[test]
    fn signatures_of_the_published_test_suite() {
        for (method, uri, expect) in [
            (
                "GET",
                "https://example.amazonaws.com/",
                "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
            ),
            (
                "POST",
                "https://example.amazonaws.com/",
                "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
            ),
            (
                "GET",
                "https://example.amazonaws.com/?Param2=value2&Param1=value1",
                "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
            ),
        ] {
            assert_eq!(signature(method, uri, None, "").0, expect, "{method} {uri}");
        }
        // `get-vanilla-with-session-token`.
        let token = "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267";
        let (signature, _) = signature("GET", "https://example.amazonaws.com/", Some(token), "");
        assert_eq!(signature, "07ec1639c89043aa0e3e2de82b96708f198cceab042d4a97044c66dd9f74e7f8");
    }

    #[test]
    fn secrets_stay_out_of_debug_output() {
        let (_, headers) =
            signature("POST", "https://h/model/a%3A0/invoke", Some("session-1"), "{}");
        assert_eq!(headers["x-amz-security-token"], "session-1");
        assert_eq!(headers["x-amz-date"], "20150830T123600Z");
        assert!(!format!("{headers:?}").contains("session-1"));
        let keys = AwsKeys {
            id: "A".into(),
            secret: Secret::new("sec-1"),
            session_token: Some(Secret::new("ses-1")),
        };
        let debug = format!("{keys:?}");
        assert!(!debug.contains("sec-1") && !debug.contains("ses-1"), "{debug}");
    }
}
