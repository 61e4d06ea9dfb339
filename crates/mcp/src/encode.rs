//! Messages as they are sent: the arguments of a call in the text that the caller gave.

use std::collections::BTreeMap;
use std::sync::Arc;

use rmcp::model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage};
use serde_json::value::{RawValue, to_raw_value};

/// The arguments of a call, in place of those of its parameters, which hold the same values but neither the
/// order of members nor all digits of numbers.
#[derive(Clone)]
pub(crate) struct ExactArguments(pub(crate) Arc<RawValue>);

/// A message as JSON.
pub(crate) fn encoded(message: &ClientJsonRpcMessage) -> serde_json::Result<Vec<u8>> {
    let exact = match message {
        JsonRpcMessage::Request(sent) => match &sent.request {
            ClientRequest::CallToolRequest(call) => call.extensions.get::<ExactArguments>(),
            _ => None,
        },
        _ => None,
    };
    let Some(ExactArguments(arguments)) = exact else { return serde_json::to_vec(message) };
    let text = serde_json::to_string(message)?;
    let mut members: BTreeMap<String, Box<RawValue>> = serde_json::from_str(&text)?;
    let params = members.get("params").map_or("{}", |params| params.get());
    let mut params: BTreeMap<&str, &RawValue> = serde_json::from_str(params)?;
    params.insert("arguments", arguments);
    let params = to_raw_value(&params)?;
    members.insert("params".to_owned(), params);
    serde_json::to_vec(&members)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use rmcp::model::{CallToolRequest, CallToolRequestParams, RequestId};

    use super::*;

    #[test]
    fn arguments_are_sent_as_they_were_given() {
        let mut params = CallToolRequestParams::new("t");
        params.arguments = Some(serde_json::from_str(r#"{"a":1,"z":1e29}"#).unwrap());
        let mut call = CallToolRequest::new(params);
        let given = r#"{"z":123456789012345678901234567890,"a":1}"#;
        let raw = RawValue::from_string(given.to_owned()).unwrap();
        call.extensions.insert(ExactArguments(raw.into()));
        let request = ClientRequest::CallToolRequest(call);
        let message = ClientJsonRpcMessage::request(request, RequestId::Number(1));
        let sent = String::from_utf8(encoded(&message).unwrap()).unwrap();
        let expected =
            r#""params":{"arguments":{"z":123456789012345678901234567890,"a":1},"name":"t"}"#;
        assert!(sent.contains(expected), "{sent}");
        assert!(sent.contains(r#""method":"tools/call""#) && sent.contains(r#""id":1"#), "{sent}");
    }
}
