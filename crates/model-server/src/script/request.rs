//! The parts of a request that the scripted model uses. Other members are not parsed, so that a
//! long history costs a scan, not a tree.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

/// A request body, with unparsed members where possible.
#[derive(Debug, Deserialize)]
pub(crate) struct RequestBody<'a> {
    #[serde(borrow, default)]
    pub(crate) model: Cow<'a, str>,
    #[serde(borrow, default)]
    prompt_cache_key: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tools: Option<&'a RawValue>,
}

/// A part of a request that may have a schema: a function, or the format of the answer.
#[derive(Deserialize)]
struct WithSchema<'a> {
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(default)]
    strict: Option<bool>,
    #[serde(borrow, default, alias = "parameters")]
    schema: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct TextOptions<'a> {
    #[serde(borrow, default)]
    format: Option<WithSchema<'a>>,
}

#[derive(Deserialize)]
struct InputItem<'a> {
    #[serde(borrow, rename = "type", default)]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    role: Option<Cow<'a, str>>,
    #[serde(default)]
    content: Value,
    #[serde(default)]
    output: Value,
}

impl<'a> RequestBody<'a> {
    pub(crate) fn parse(body: &'a [u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(body)
    }

    /// The conversation that the request belongs to.
    pub(crate) fn conversation(&self) -> &str {
        self.prompt_cache_key.as_deref().unwrap_or_default()
    }

    /// Why a provider refuses the request: a schema that it is to be strict about, and that is not strict.
    pub(crate) fn refused_schema(&self) -> Option<String> {
        let text =
            self.text.and_then(|text| serde_json::from_str::<TextOptions<'_>>(text.get()).ok());
        let tools = self.tools.and_then(|tools| serde_json::from_str(tools.get()).ok());
        let tools: Vec<WithSchema<'_>> = tools.unwrap_or_default();
        let mut strict = text.and_then(|text| text.format).into_iter().chain(tools);
        strict.find_map(|of| {
            let schema = of.schema.filter(|_| of.strict == Some(true))?;
            let schema = serde_json::from_str(schema.get()).ok()?;
            let why = json_schema::strict::violation(&schema)?;
            let name = of.name.as_deref().unwrap_or_default();
            Some(format!("invalid schema for `{name}` with `strict`: {why}"))
        })
    }

    /// Text of the last user message, all of its parts; empty without one.
    pub(crate) fn last_user_message(&self) -> String {
        if let Some(text) = self.input_text() {
            return text;
        }
        self.last_user_content().map(|content| text_of(&content)).unwrap_or_default()
    }

    /// The last text of the last user message; empty without one. Some wires merge messages of one role into one, and
    /// have what a developer says later in a user's message.
    pub(crate) fn last_user_text(&self) -> String {
        if let Some(text) = self.input_text() {
            return text;
        }
        match self.last_user_content() {
            Some(Value::Array(parts)) => {
                let mut texts = parts.iter().rev().filter_map(|part| part["text"].as_str());
                let is_users = |text: &&str| !text.starts_with("<system-reminder>");
                texts.find(is_users).unwrap_or_default().to_owned()
            }
            content => content.map(|content| text_of(&content)).unwrap_or_default(),
        }
    }

    fn last_user_content(&self) -> Option<Value> {
        let mut newest_first = self.items().into_iter().rev();
        let user = newest_first.find(|item| item.role.as_deref() == Some("user"));
        user.map(|item| item.content)
    }

    /// The member `reviewId` of a last user message that is a JSON object, as in a request to review
    /// an approval; empty when there is none.
    pub(crate) fn review_id(&self) -> String {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Review {
            review_id: String,
        }
        let review = serde_json::from_str::<Review>(&self.last_user_text());
        review.map(|review| review.review_id).unwrap_or_default()
    }

    /// Tool outputs after the last user message, joined by newlines.
    pub(crate) fn tool_outputs(&self) -> String {
        let after_user =
            self.items().into_iter().rev().take_while(|item| item.role.as_deref() != Some("user"));
        let mut outputs: Vec<String> = after_user
            .filter(|item| {
                matches!(
                    item.kind.as_deref(),
                    Some("function_call_output" | "custom_tool_call_output")
                )
            })
            .map(|item| text_of(&item.output))
            .collect();
        outputs.reverse();
        outputs.join("\n")
    }

    /// `input` as a plain string, which the API allows.
    fn input_text(&self) -> Option<String> {
        serde_json::from_str(self.input?.get()).ok()
    }

    /// The readable items; scripts ignore others.
    fn items(&self) -> Vec<InputItem<'a>> {
        let raw: Vec<&RawValue> =
            self.input.and_then(|input| serde_json::from_str(input.get()).ok()).unwrap_or_default();
        raw.into_iter().filter_map(|item| serde_json::from_str(item.get()).ok()).collect()
    }
}

/// Text of a content member: a string, or the `text` of its parts joined by newlines.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts: Vec<&str> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn strict_schemas_are_checked_as_providers_do() {
        let open = json!({"type": "object", "properties": {}});
        let closed = json!({"type": "object", "properties": {}, "additionalProperties": false});
        let tool = |strict: bool, schema: &Value| {
            json!({"tools": [{"type": "web_search"}, {"type": "function", "name": "f", "strict": strict,
                "parameters": schema}]})
        };
        let format = |strict: bool, schema: &Value| {
            json!({"text": {"verbosity": "low", "format": {"type": "json_schema", "name": "f",
                "strict": strict, "schema": schema}}})
        };
        for body in [tool(true, &open), format(true, &open)] {
            let body = body.to_string();
            let why = RequestBody::parse(body.as_bytes()).unwrap().refused_schema().unwrap();
            assert!(why.contains("`f`") && why.contains("additionalProperties"), "{why}");
        }
        for body in
            [tool(true, &closed), tool(false, &open), format(true, &closed), format(false, &open)]
        {
            let body = body.to_string();
            assert_eq!(
                RequestBody::parse(body.as_bytes()).unwrap().refused_schema(),
                None,
                "{body}"
            );
        }
    }

    #[test]
    fn the_last_matching_text_is_found() {
        let check = |input: Value, user: &str, tools: &str| {
            let body = json!({"model": "m", "input": input}).to_string();
            let body = RequestBody::parse(body.as_bytes()).unwrap();
            assert_eq!(body.last_user_text(), user);
            assert_eq!(body.tool_outputs(), tools);
        };
        let user = |text: &str| {
            json!({"type": "message", "role": "user",
                "content": [{"type": "input_text", "text": text}]})
        };
        let output = |text: &str| json!({"type": "function_call_output", "output": text});
        check(json!("plain"), "plain", "");
        check(json!([user("a"), user("b"), {"role": "assistant"}]), "b", "");
        check(json!([output("old"), user("a"), output("x"), output("y")]), "a", "x\ny");
        let parts = json!({"type": "custom_tool_call_output", "output": [{"text": "p"}]});
        check(json!([parts, {"role": "user", "content": "s"}, parts]), "s", "p");
        // As Messages and Gemini merge them.
        let merged = json!([{"type": "input_text", "text": "<environment_context>"}, {"text": "said"},
            {"text": "<system-reminder>\nnote\n</system-reminder>"}, {"type": "input_image"}]);
        check(json!([{"role": "user", "content": merged}]), "said", "");
        check(json!([1, "x"]), "", "");
        check(json!(null), "", "");
        let review = json!({ "input": [user(r#"{"reviewId":"r1","data":{}}"#)] }).to_string();
        assert_eq!(RequestBody::parse(review.as_bytes()).unwrap().review_id(), "r1");
        let plain = json!({ "input": "reviewId" }).to_string();
        assert_eq!(RequestBody::parse(plain.as_bytes()).unwrap().review_id(), "");
    }
}
