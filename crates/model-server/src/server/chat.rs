//! `POST …/chat/completions` and the older `POST …/completions`, served by the offline model.

use serde_json::{Value, json};

use super::{
    moderations,
    offline::{Call, Offline, number, text},
    reply::{Answered, Refused, Reply},
    responses::MAX_TOKENS,
    saying::{Said, chars, deltas, forced_function, last_user_text, say, tokens},
};

/// Largest `n`.
const MAX_CHOICES: u64 = 128;

/// The content of every choice of a completion.
struct Choice {
    said: Said,
    /// A function call, instead of a text.
    function: Option<Value>,
    count: u64,
}

impl Choice {
    fn finish_reason(&self) -> &'static str {
        match (&self.function, self.said.cut) {
            (Some(_), _) => "tool_calls",
            (None, true) => "length",
            (None, false) => "stop",
        }
    }

    fn usage(&self, input: usize) -> Value {
        let written = self.function.as_ref().map_or(self.said.text.chars().count(), |_| 2);
        let (input, output) = (tokens(input), tokens(written) * self.count);
        json!({"prompt_tokens": input, "completion_tokens": output,
            "total_tokens": input + output, "prompt_tokens_details": {"cached_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 0}})
    }
}

impl Offline {
    pub(super) fn chat(&self, call: &Call<'_>) -> Answered {
        let body = call.json()?;
        let model = text(&body, "model")?;
        let messages = &body["messages"];
        if messages.as_array().is_none_or(Vec::is_empty) {
            return Err(Refused::value("messages", "`messages` is a list with one entry or more."));
        }
        let function = forced_function(&body).map(|name| {
            json!({"id": self.id("call_"), "type": "function",
                "function": {"name": name, "arguments": "{}"}})
        });
        let said = say(&last_user_text(messages), &body["response_format"], most_tokens(&body)?)?;
        let count = number(&body, "n", MAX_CHOICES)?.unwrap_or(1);
        let choice = Choice { said, function, count };
        let usage = choice.usage(chars(messages));
        let base = json!({"id": self.id("chatcmpl-"), "created": self.now(), "model": model,
            "service_tier": body["service_tier"].as_str().unwrap_or("default"),
            "system_fingerprint": "offline"});
        if body["stream"] == true {
            let wanted = body["stream_options"]["include_usage"] == true;
            return Ok(chunks(&base, &choice, wanted.then_some(usage)));
        }
        let mut completion = base;
        completion["object"] = "chat.completion".into();
        completion["choices"] = (0..count).map(|index| chosen(index, &choice)).collect();
        completion["usage"] = usage;
        if body["moderation"].is_object() {
            completion["moderation"] = moderations::of_chat(&body["moderation"], messages);
        }
        Ok(Reply::Json(completion))
    }

    pub(super) fn completion(&self, call: &Call<'_>) -> Answered {
        let body = call.json()?;
        let model = text(&body, "model")?;
        let prompts: Vec<&str> = match &body["prompt"] {
            Value::String(prompt) => vec![prompt],
            Value::Array(prompts) => prompts.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        if prompts.is_empty() {
            return Err(Refused::value("prompt", "`prompt` is a text or a list of texts here."));
        }
        let (most, mut written, mut choices) = (most_tokens(&body)?, 0, Vec::new());
        for (index, prompt) in prompts.iter().enumerate() {
            let Said { text, cut } = say(prompt, &Value::Null, most)?;
            written += tokens(text.chars().count());
            let reason = if cut { "length" } else { "stop" };
            choices.push(json!({"index": index, "text": text, "logprobs": null,
                "finish_reason": reason}));
        }
        let input = tokens(chars(&body["prompt"]));
        let usage = json!({"prompt_tokens": input, "completion_tokens": written,
            "total_tokens": input + written});
        let completion = json!({"id": self.id("cmpl-"), "object": "text_completion",
            "created": self.now(), "model": model, "choices": choices, "usage": usage});
        Ok(match body["stream"] == true {
            true => Reply::events([completion], true),
            false => Reply::Json(completion),
        })
    }
}

fn most_tokens(body: &Value) -> Result<Option<u64>, Refused> {
    let newer = number(body, "max_completion_tokens", MAX_TOKENS)?;
    Ok(newer.or(number(body, "max_tokens", MAX_TOKENS)?))
}

fn chosen(index: u64, choice: &Choice) -> Value {
    let message = match &choice.function {
        Some(call) => json!({"role": "assistant", "content": null, "refusal": null,
            "annotations": [], "tool_calls": [call]}),
        None => json!({"role": "assistant", "content": choice.said.text, "refusal": null,
            "annotations": []}),
    };
    json!({"index": index, "message": message, "logprobs": null,
        "finish_reason": choice.finish_reason()})
}

/// The chunks of a stream; the last one carries `usage`, if given.
fn chunks(base: &Value, choice: &Choice, usage: Option<Value>) -> Reply {
    let chunk = |choices: Value, usage_member: Value| {
        let mut chunk = base.clone();
        chunk["object"] = "chat.completion.chunk".into();
        chunk["choices"] = choices;
        if usage.is_some() {
            chunk["usage"] = usage_member;
        }
        chunk
    };
    let of = |index: u64, delta: Value, reason: Value| {
        let choice = json!({"index": index, "delta": delta, "logprobs": null,
            "finish_reason": reason});
        chunk(json!([choice]), Value::Null)
    };
    let mut all = Vec::new();
    for index in 0..choice.count {
        let begin = json!({"role": "assistant", "content": "", "refusal": null});
        all.push(of(index, begin, Value::Null));
        if let Some(call) = &choice.function {
            let mut call = call.clone();
            call["index"] = 0.into();
            all.push(of(index, json!({"tool_calls": [call]}), Value::Null));
        } else {
            let deltas = deltas(&choice.said.text).into_iter();
            all.extend(deltas.map(|text| of(index, json!({"content": text}), Value::Null)));
        }
        all.push(of(index, json!({}), choice.finish_reason().into()));
    }
    if let Some(usage) = &usage {
        all.push(chunk(json!([]), usage.clone()));
    }
    Reply::events(all, true)
}
