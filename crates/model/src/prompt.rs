//! The body of a request to the Responses API. History consists of encoded JSON, which is copied
//! without being parsed.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use wire::CacheHints;

use crate::json;

/// One request to a model. Fragments of "ready JSON" are copied verbatim: they must be valid JSON,
/// or the provider refuses the request.
#[derive(Debug, Clone, Default)]
pub struct Prompt {
    pub model: Arc<str>,
    /// Plain text; left out when empty.
    pub instructions: Arc<str>,
    /// Responses input items, each ready JSON.
    pub input: Vec<Arc<str>>,
    /// Ready JSON array of tool definitions; empty or `[]` offers none.
    pub tools: Arc<str>,
    pub parallel_tool_calls: bool,
    pub reasoning: Option<Reasoning>,
    /// `low`, `medium` or `high`.
    pub verbosity: Option<Arc<str>>,
    /// Ready JSON Schema that the final message must follow.
    pub output_schema: Option<Arc<str>>,
    /// Sent as `prompt_cache_key`: the thread's id, so that its prefix stays cached.
    pub cache_key: Option<Arc<str>>,
    pub service_tier: Option<Arc<str>>,
    /// Requests encrypted reasoning, which a later request can carry without server-side state.
    pub include_encrypted_reasoning: bool,
    /// The parts that later requests repeat, for the marks that some wires have for the prompt cache.
    pub cache: CacheHints,
    /// The longest output that is asked for, on wires other than Responses.
    pub output: OutputLimits,
    /// On Chat Completions, each message of the model has a member for its reasoning: the server demands it.
    pub reasoning_member: bool,
    /// Members that the provider does not know: `tool_choice`, `parallel_tool_calls`, `store`, `include`,
    /// `prompt_cache_key` and `text.format.strict` can be left out.
    pub left_out: Vec<String>,
}

/// The JSON text of a schema as it is sent, and whether with `strict: true`.
type StrictSchema<'a> = (Cow<'a, str>, bool);

/// Tokens of output that a request asks for at most.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OutputLimits {
    /// The longest output of the model, for wires that require a limit.
    pub longest: Option<u64>,
    /// The limit that the user stated for the model, for all other wires too.
    pub stated: Option<u64>,
}

/// The parts of a prompt that the body of the Responses API has no members for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Hints {
    pub(crate) cache: CacheHints,
    pub(crate) output: OutputLimits,
    pub(crate) reasoning_member: bool,
}

/// Reasoning options; the provider's defaults apply to absent members.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reasoning {
    /// `none`, `minimal`, `low`, `medium`, `high` or `xhigh`.
    pub effort: Option<Arc<str>>,
    /// `auto`, `concise` or `detailed`.
    pub summary: Option<Arc<str>>,
}

impl Prompt {
    pub(crate) fn hints(&self) -> Hints {
        Hints { cache: self.cache, output: self.output, reasoning_member: self.reasoning_member }
    }

    /// The JSON body. Members are always in the same order, the least changing ones first, so that
    /// the provider's prompt cache matches. Allocates once, with the body's size.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let schema = self.output_schema.as_deref().map(json_schema::strict::for_request);
        let mut body = Vec::with_capacity(self.encoded_capacity(schema.as_ref()));
        body.extend_from_slice(br#"{"model":"#);
        json::push_str(&mut body, &self.model);
        if !self.instructions.is_empty() {
            string_member(&mut body, "instructions", &self.instructions);
        }
        if !matches!(&*self.tools, "" | "[]") {
            raw_member(&mut body, "tools", &self.tools);
            if self.has("tool_choice") {
                raw_member(&mut body, "tool_choice", "\"auto\"");
            }
            if self.has("parallel_tool_calls") {
                let parallel = if self.parallel_tool_calls { "true" } else { "false" };
                raw_member(&mut body, "parallel_tool_calls", parallel);
            }
        }
        self.push_reasoning(&mut body);
        self.push_text(&mut body, schema.as_ref());
        if self.has("store") {
            raw_member(&mut body, "store", "false");
        }
        raw_member(&mut body, "stream", "true");
        if self.include_encrypted_reasoning && self.has("include") {
            raw_member(&mut body, "include", r#"["reasoning.encrypted_content"]"#);
        }
        if let Some(tier) = &self.service_tier {
            string_member(&mut body, "service_tier", tier);
        }
        self.push_input(&mut body);
        // After the input, so that the requests of an agent begin as those of its parent.
        if let Some(key) = self.cache_key.as_ref().filter(|_| self.has("prompt_cache_key")) {
            string_member(&mut body, "prompt_cache_key", key);
        }
        body.push(b'}');
        Bytes::from(body)
    }

    /// An upper bound of the encoded length: exact for the variable parts, generous for the rest.
    fn encoded_capacity(&self, schema: Option<&StrictSchema<'_>>) -> usize {
        const FIXED: usize = 512;
        let strings = [Some(&self.model), Some(&self.instructions), self.cache_key.as_ref()]
            .into_iter()
            .chain([self.service_tier.as_ref(), self.verbosity.as_ref()])
            .flatten()
            .map(|text| json::escaped_len(text))
            .sum::<usize>();
        let items = self.input.iter().map(|item| item.len() + 1).sum::<usize>();
        let schema = schema.map_or(0, |(text, _)| text.len());
        FIXED + strings + items + self.tools.len() + schema
    }

    fn has(&self, member: &str) -> bool {
        self.left_out.iter().all(|name| name != member)
    }

    fn push_reasoning(&self, body: &mut Vec<u8>) {
        let Some(reasoning) = &self.reasoning else { return };
        let members = [("effort", &reasoning.effort), ("summary", &reasoning.summary)];
        push_object(body, "reasoning", members);
    }

    fn push_text(&self, body: &mut Vec<u8>, schema: Option<&StrictSchema<'_>>) {
        let Some((schema, is_strict)) = schema else {
            return push_object(body, "text", [("verbosity", &self.verbosity)]);
        };
        body.extend_from_slice(br#","text":{"#);
        if let Some(verbosity) = &self.verbosity {
            body.extend_from_slice(br#""verbosity":"#);
            json::push_str(body, verbosity);
            body.push(b',');
        }
        body.extend_from_slice(br#""format":{"type":"json_schema","name":"output","#);
        if self.has("text.format.strict") {
            let strict = if *is_strict { "true" } else { "false" };
            body.extend_from_slice(format!(r#""strict":{strict},"#).as_bytes());
        }
        body.extend_from_slice(br#""schema":"#);
        body.extend_from_slice(schema.as_bytes());
        body.extend_from_slice(b"}}");
    }

    fn push_input(&self, body: &mut Vec<u8>) {
        body.extend_from_slice(br#","input":["#);
        for (at, item) in self.input.iter().enumerate() {
            if at > 0 {
                body.push(b',');
            }
            body.extend_from_slice(item.as_bytes());
        }
        body.push(b']');
    }
}

fn raw_member(body: &mut Vec<u8>, name: &str, json: &str) {
    body.extend_from_slice(b",\"");
    body.extend_from_slice(name.as_bytes());
    body.extend_from_slice(b"\":");
    body.extend_from_slice(json.as_bytes());
}

fn string_member(body: &mut Vec<u8>, name: &str, text: &str) {
    raw_member(body, name, "");
    json::push_str(body, text);
}

/// `,"name":{…}` with the members that are present; nothing if there are none.
fn push_object<const N: usize>(
    body: &mut Vec<u8>,
    name: &str,
    members: [(&str, &Option<Arc<str>>); N],
) {
    let mut open = false;
    for (member, value) in members {
        let Some(value) = value else { continue };
        if open {
            body.push(b',');
        } else {
            raw_member(body, name, "{");
            open = true;
        }
        json::push_str(body, member);
        body.push(b':');
        json::push_str(body, value);
    }
    if open {
        body.push(b'}');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn check(prompt: &Prompt, expect: &Value) {
        let body = prompt.encode();
        assert_eq!(&serde_json::from_slice::<Value>(&body).unwrap(), expect);
    }

    #[test]
    fn the_smallest_prompt_is_a_streamed_unstored_request() {
        let prompt = Prompt { model: "m".into(), ..Prompt::default() };
        check(&prompt, &json!({"model": "m", "store": false, "stream": true, "input": []}));
    }

    #[test]
    fn every_member_is_encoded_unless_the_provider_refused_it() {
        let mut prompt = Prompt {
            model: "gpt-5".into(),
            instructions: "Be \"brief\".\n".into(),
            input: vec![r#"{"a":1}"#.into(), r#"{"b":2}"#.into()],
            tools: r#"[{"type":"web_search"}]"#.into(),
            parallel_tool_calls: true,
            reasoning: Some(Reasoning { effort: Some("low".into()), summary: Some("auto".into()) }),
            verbosity: Some("low".into()),
            output_schema: Some(r#"{"type":"object"}"#.into()),
            cache_key: Some("thread".into()),
            service_tier: Some("flex".into()),
            include_encrypted_reasoning: true,
            left_out: Vec::new(),
            cache: CacheHints::default(),
            output: OutputLimits::default(),
            reasoning_member: false,
        };
        let format = json!({"type": "json_schema", "name": "output", "strict": false,
            "schema": {"type": "object"}});
        let expect = json!({"model": "gpt-5", "instructions": "Be \"brief\".\n",
            "tools": [{"type": "web_search"}], "tool_choice": "auto", "parallel_tool_calls": true,
            "reasoning": {"effort": "low", "summary": "auto"},
            "text": {"verbosity": "low", "format": format}, "store": false, "stream": true,
            "include": ["reasoning.encrypted_content"], "service_tier": "flex",
            "prompt_cache_key": "thread", "input": [{"a": 1}, {"b": 2}]});
        check(&prompt, &expect);
        let mut expect = expect;
        for name in ["tool_choice", "parallel_tool_calls", "store", "include", "prompt_cache_key"] {
            expect.as_object_mut().unwrap().shift_remove(name).unwrap();
            prompt.left_out.push(name.to_owned());
            check(&prompt, &expect);
        }
        prompt.left_out.push("text.format.strict".to_owned());
        let format = expect["text"]["format"].as_object_mut().unwrap();
        format.shift_remove("strict").unwrap();
        check(&prompt, &expect);
        let summary = Reasoning { effort: None, summary: Some("auto".into()) };
        let bare = Prompt { reasoning: Some(summary), ..Prompt::default() };
        check(
            &bare,
            &json!({"model": "", "reasoning": {"summary": "auto"}, "store": false,
            "stream": true, "input": []}),
        );
    }

    #[test]
    fn a_longer_history_keeps_the_shorter_one_as_its_prefix() {
        let short = Prompt { input: vec!["{\"a\":1}".into()], ..Prompt::default() };
        let mut long = short.clone();
        long.input.push("{\"b\":2}".into());
        let (short, long) = (short.encode(), long.encode());
        assert!(long.starts_with(&short[..short.len() - 2]));
    }

    proptest! {
        #[test]
        fn any_text_encodes_in_one_allocation_to_valid_json(
            instructions in any::<String>(), key in any::<String>(), verbosity in any::<String>(),
        ) {
            let prompt = Prompt {
                instructions: instructions.as_str().into(),
                cache_key: Some(key.as_str().into()),
                verbosity: Some(verbosity.as_str().into()),
                ..Prompt::default()
            };
            let body = prompt.encode();
            prop_assert!(body.len() <= prompt.encoded_capacity(None));
            let value: Value = serde_json::from_slice(&body).unwrap();
            prop_assert_eq!(value["prompt_cache_key"].as_str(), Some(key.as_str()));
        }
    }
}
