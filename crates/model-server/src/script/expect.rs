//! Expectations of a response about its request. A failed expectation reports the expected and the
//! actual value.

use std::collections::BTreeMap;

use hyper::HeaderMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::request::RequestBody;
use model::excerpt;

/// A failed expectation, for the script's author.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Mismatch(String);

/// Conditions on a request; all of them must hold.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Expect {
    /// Texts that occur in the body: in one of its strings, or in its JSON.
    #[serde(skip_serializing_if = "OneOrMany::is_empty")]
    pub contains: OneOrMany,
    #[serde(skip_serializing_if = "OneOrMany::is_empty")]
    pub not_contains: OneOrMany,
    /// Texts that occur in the last user message.
    #[serde(skip_serializing_if = "OneOrMany::is_empty")]
    pub user_text_contains: OneOrMany,
    /// Texts that occur in the tool outputs after the last user message.
    #[serde(skip_serializing_if = "OneOrMany::is_empty")]
    pub tool_output_contains: OneOrMany,
    /// JSON pointers into the body with the expected values, `null` for absent.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub equals: BTreeMap<String, Value>,
    /// Header names with a text that the value contains (only over HTTP: there are none
    /// in-process).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub header: BTreeMap<String, String>,
}

/// One text or a list of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl Default for OneOrMany {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl OneOrMany {
    fn is_empty(&self) -> bool {
        self.texts().is_empty()
    }

    fn texts(&self) -> &[String] {
        match self {
            Self::One(text) => std::slice::from_ref(text),
            Self::Many(texts) => texts,
        }
    }
}

impl Expect {
    /// Checks `request`, whose bytes are `body`; the error is for the script's author.
    pub(super) fn check(
        &self,
        request: &RequestBody<'_>,
        body: &[u8],
        headers: &HeaderMap,
    ) -> Result<(), Mismatch> {
        let json = String::from_utf8_lossy(body);
        let tree = self.needs_tree().then(|| serde_json::from_slice(body).unwrap_or(Value::Null));
        let tree = tree.unwrap_or_default();
        let occurs = |text: &String| json.contains(text.as_str()) || any_string(&tree, text);
        if let Some(text) = self.contains.texts().iter().find(|text| !occurs(text)) {
            return Err(Mismatch(format!(
                "contains: `{text}` is not in the request: {}",
                excerpt(&json)
            )));
        }
        if let Some(text) = self.not_contains.texts().iter().find(|text| occurs(text)) {
            return Err(Mismatch(format!("not_contains: `{text}` is in the request")));
        }
        within("user_text_contains", &self.user_text_contains, || request.last_user_message())?;
        within("tool_output_contains", &self.tool_output_contains, || request.tool_outputs())?;
        for (pointer, value) in &self.equals {
            let found = tree.pointer(pointer).unwrap_or(&Value::Null);
            if found != value {
                let found = excerpt(&found.to_string());
                return Err(Mismatch(format!("equals: `{pointer}` is {found}, expected {value}")));
            }
        }
        self.check_headers(headers)
    }

    fn needs_tree(&self) -> bool {
        !(self.contains.is_empty() && self.not_contains.is_empty() && self.equals.is_empty())
    }

    /// Messages omit the values of headers, which may be credentials.
    fn check_headers(&self, headers: &HeaderMap) -> Result<(), Mismatch> {
        for (name, part) in &self.header {
            let Some(value) = headers.get(name) else {
                return Err(Mismatch(format!("header: `{name}` was not sent")));
            };
            if !String::from_utf8_lossy(value.as_bytes()).contains(part.as_str()) {
                return Err(Mismatch(format!(
                    "header: the value of `{name}` does not contain `{part}`"
                )));
            }
        }
        Ok(())
    }
}

fn within(name: &str, parts: &OneOrMany, text: impl FnOnce() -> String) -> Result<(), Mismatch> {
    if parts.is_empty() {
        return Ok(());
    }
    let text = text();
    match parts.texts().iter().find(|part| !text.contains(part.as_str())) {
        Some(part) => Err(Mismatch(format!("{name}: `{part}` is not in: {}", excerpt(&text)))),
        None => Ok(()),
    }
}

fn any_string(value: &Value, part: &str) -> bool {
    match value {
        Value::String(text) => text.contains(part),
        Value::Array(values) => values.iter().any(|value| any_string(value, part)),
        Value::Object(members) => members.values().any(|value| any_string(value, part)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn failed_conditions_state_the_reason() {
        let body = json!({"model": "m", "input": [
            {"role": "user", "content": "say \"hi\""},
            {"type": "function_call_output", "output": "exit 0"}]})
        .to_string();
        let request = RequestBody::parse(body.as_bytes()).unwrap();
        let mut headers = HeaderMap::new();
        headers.insert("authorization", "Bearer secret".parse().unwrap());
        let check = |expect: Value, problem: Option<&str>| {
            let expect: Expect = serde_json::from_value(expect).unwrap();
            let result = expect.check(&request, body.as_bytes(), &headers);
            match (&result, problem) {
                (Ok(()), None) => {}
                (Err(Mismatch(text)), Some(part)) => assert!(text.contains(part), "{text}"),
                _ => panic!("{expect:?}: {result:?}"),
            }
        };
        check(json!({}), None);
        check(json!({"contains": "say \"hi\""}), None);
        check(json!({"contains": ["\"model\":\"m\"", "hi"]}), None);
        check(json!({"contains": ["hi", "ho"]}), Some("contains: `ho`"));
        check(json!({"not_contains": "exit 0"}), Some("not_contains: `exit 0`"));
        check(json!({"user_text_contains": "hi"}), None);
        check(json!({"user_text_contains": "exit"}), Some("say \"hi\""));
        check(json!({"tool_output_contains": "exit 0"}), None);
        check(json!({"tool_output_contains": "exit 1"}), Some("exit 0"));
        check(json!({"equals": {"/model": "m", "/input/9": null}}), None);
        check(json!({"equals": {"/model": "n"}}), Some("`/model` is \"m\", expected \"n\""));
        check(json!({"header": {"authorization": "Bearer "}}), None);
        check(json!({"header": {"x-y": ""}}), Some("`x-y` was not sent"));
        let expect: Expect =
            serde_json::from_value(json!({"header": {"authorization": "Basic"}})).unwrap();
        let Mismatch(error) = expect.check(&request, body.as_bytes(), &headers).unwrap_err();
        assert!(!error.contains("secret"), "{error}");
    }
}
