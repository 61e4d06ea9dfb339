//! Opens the connection of a conversation: a WebSocket of its own, or a call over WebRTC that is offered to
//! the provider, with a WebSocket in addition.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::HeaderMap;
use hyper::header::{self, HeaderValue};
use model::{Failure, FailureKind, Provider, WebSocket};
use tokio::time::timeout;

use crate::conversation::{Conversation, Settings};
use crate::outgoing;

/// Longest message of a provider: far more than a minute of audio.
const MAX_MESSAGE: usize = 4 << 20;
/// Longest answer to an offer.
const MAX_ANSWER: usize = 256 << 10;
/// Longest id of a call.
const MAX_CALL_ID: usize = 256;
/// Longest time to end a call.
const HANG_UP_TIMEOUT: Duration = Duration::from_secs(5);
/// The delimiter of a form's parts; an offer and a session that contain it are refused.
const BOUNDARY: &str = "agentd-realtime-8d1f5c0a7b3e4629";

/// An open connection.
pub struct Connected {
    pub socket: WebSocket,
    pub conversation: Conversation,
    /// The call, if there is one.
    pub call: Option<Call>,
}

/// A call over WebRTC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The provider's id of it.
    pub id: String,
    /// The provider's answer to the offer.
    pub answer: String,
}

/// Opens a connection; with the SDP of an `offer`, a call. Tries once.
///
/// # Errors
/// The provider cannot be reached, refuses, or answers with something else.
pub async fn connect(
    client: &model::Client,
    provider: &Arc<Provider>,
    settings: Settings,
    offer: Option<&str>,
) -> Result<Connected, Failure> {
    let Some(offer) = offer else {
        let with_model = with_param(provider, "model", &settings.model);
        let socket = client.web_socket(&with_model, "/realtime", MAX_MESSAGE).await?;
        return Ok(Connected { socket, conversation: Conversation::new(settings), call: None });
    };
    let session = outgoing::session(&settings).to_string();
    let form = (HeaderValue::from_static(CONTENT_TYPE), form(offer, &session)?);
    let (headers, answer) = client.post(provider, "/realtime/calls", form, MAX_ANSWER).await?;
    let call = read_call(&headers, &answer)?;
    let with_call = with_param(provider, "call_id", &call.id);
    match client.web_socket(&with_call, "/realtime", MAX_MESSAGE).await {
        Ok(socket) => {
            Ok(Connected { socket, conversation: Conversation::in_call(), call: Some(call) })
        }
        Err(failure) => {
            hang_up(client, provider, &call).await;
            Err(failure)
        }
    }
}

/// Ends a call, within 5 s. A failure is written into the log: the provider ends an idle call by itself.
pub async fn hang_up(client: &model::Client, provider: &Arc<Provider>, call: &Call) {
    let path = format!("/realtime/calls/{}/hangup", call.id);
    let nothing = (HeaderValue::from_static("application/json"), Bytes::new());
    match timeout(HANG_UP_TIMEOUT, client.post(provider, &path, nothing, MAX_ANSWER)).await {
        Ok(Ok(_)) => {}
        Ok(Err(failure)) => tracing::warn!("a realtime call was not ended: {}", failure.message),
        Err(_) => tracing::warn!("a realtime call was not ended: the provider does not answer"),
    }
}

const CONTENT_TYPE: &str = "multipart/form-data; boundary=agentd-realtime-8d1f5c0a7b3e4629";

fn form(offer: &str, session: &str) -> Result<Bytes, Failure> {
    let mut form = String::new();
    for (name, kind, value) in
        [("sdp", "application/sdp", offer), ("session", "application/json", session)]
    {
        if value.contains(BOUNDARY) {
            let message = format!("the `{name}` contains `{BOUNDARY}`, which divides the form");
            return Err(Failure::new(FailureKind::BadRequest, message));
        }
        form.push_str(&format!(
            "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\
             Content-Type: {kind}\r\n\r\n{value}\r\n"
        ));
    }
    form.push_str(&format!("--{BOUNDARY}--\r\n"));
    Ok(form.into())
}

fn read_call(headers: &HeaderMap, answer: &[u8]) -> Result<Call, Failure> {
    let bad = |problem: &str| {
        let message = format!("the provider's answer to the offer of a call {problem}");
        Failure::new(FailureKind::HttpConnectionFailed, message)
    };
    let location = headers.get(header::LOCATION).and_then(|value| value.to_str().ok());
    let id = location.and_then(|location| location.rsplit('/').next()).unwrap_or_default();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if id.is_empty() || id.len() > MAX_CALL_ID || !id.chars().all(is_plain) {
        return Err(bad("has no `Location` that ends with the id of the call"));
    }
    let answer = std::str::from_utf8(answer).map_err(|_| bad("is not UTF-8"))?;
    if !answer.starts_with("v=0") {
        return Err(bad("is not a session description (it does not begin with `v=0`)"));
    }
    Ok(Call { id: id.to_owned(), answer: answer.to_owned() })
}

fn with_param(provider: &Arc<Provider>, name: &str, value: &str) -> Arc<Provider> {
    let mut provider = Provider::clone(provider);
    provider.query_params.insert(name.to_owned(), value.to_owned());
    Arc::new(provider)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_to_an_offer_names_the_call() {
        let check = |location: Option<&str>, answer: &[u8], expected: Result<&str, &str>| {
            let mut headers = HeaderMap::new();
            headers.extend(location.map(|text| (header::LOCATION, text.parse().unwrap())));
            match (read_call(&headers, answer), expected) {
                (Ok(call), Ok(id)) => assert_eq!(call.id, id),
                (Err(failure), Err(part)) => assert!(failure.message.contains(part), "{failure:?}"),
                (found, _) => panic!("{location:?}: {found:?}"),
            }
        };
        check(Some("/v1/realtime/calls/rtc_1-a"), b"v=0\r\n", Ok("rtc_1-a"));
        check(Some("rtc_1"), b"v=0", Ok("rtc_1"));
        check(None, b"v=0", Err("Location"));
        check(Some("/v1/realtime/calls/"), b"v=0", Err("Location"));
        check(Some("/v1/realtime/calls/a?b=c"), b"v=0", Err("Location"));
        check(Some("/calls/a"), b"{}", Err("v=0"));
        check(Some("/calls/a"), b"v=0\xff", Err("UTF-8"));
    }

    #[test]
    fn an_offer_cannot_add_parts_to_the_form() {
        assert!(CONTENT_TYPE.ends_with(BOUNDARY));
        assert!(form(&format!("v=0\r\n--{BOUNDARY}\r\n"), "{}").is_err());
        let form = String::from_utf8(form("v=0", "{}").unwrap().to_vec()).unwrap();
        assert_eq!(form.matches(BOUNDARY).count(), 3);
    }
}
