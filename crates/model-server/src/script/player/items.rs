//! The events of each kind of step: an item's beginning, its deltas and its end, as the hosted API
//! sends them. The player determines their timing.

use model::json::quoted;
use serde_json::{Value, json};

use super::{End, Piece, Player, cut_text};
use crate::script::{
    CustomToolCall, ErrorStep, FunctionCall, ImageGeneration, Message, Reasoning, ToolSearchCall,
    WebSearch,
};

impl Player {
    pub(super) fn message(&mut self, message: &Message) {
        let (index, id) = self.item("msg");
        let repeat = message.repeat.unwrap_or(1);
        let chunks = if message.chunks.is_empty() {
            cut_text(&self.fill_in(&message.text), message.chunk_chars)
        } else {
            message.chunks.iter().map(|chunk| self.fill_in(chunk)).collect()
        };
        let text = chunks.concat().repeat(repeat);
        let item = |status: &str, content: Value| {
            let mut item = json!({"id": id, "type": "message", "status": status,
                "role": "assistant", "content": content});
            if let Some(phase) = &message.phase {
                item["phase"] = phase.as_str().into();
            }
            item
        };
        let part = |text: &str| json!({"type": "output_text", "text": text, "annotations": []});
        let place =
            format!("\"item_id\":{},\"output_index\":{index},\"content_index\":0,", quoted(&id));
        // Official clients reject texts without these members.
        let text_place = format!("{place}\"logprobs\":[],");
        self.added(index, &item("in_progress", json!([])));
        self.event("response.content_part.added", format!("{place}\"part\":{}", part("")));
        self.deltas(
            "response.output_text.delta",
            text_place.clone(),
            chunks,
            repeat,
            message.chunk_delay_ms,
        );
        self.event("response.output_text.done", format!("{text_place}\"text\":{}", quoted(&text)));
        self.event("response.content_part.done", format!("{place}\"part\":{}", part(&text)));
        self.done(index, item("completed", json!([part(&text)])));
    }

    pub(super) fn reasoning(&mut self, reasoning: &Reasoning) {
        let (index, id) = self.item("rs");
        let quoted_id = quoted(&id);
        let part = |kind: &str, text: &str| json!({"type": kind, "text": text});
        let summary_part = |text: &str| part("summary_text", text);
        let content_part = |text: &str| part("reasoning_text", text);
        self.added(index, &json!({"id": id, "type": "reasoning", "summary": []}));
        for (at, text) in reasoning.content.iter().enumerate() {
            let place =
                format!("\"item_id\":{quoted_id},\"output_index\":{index},\"content_index\":{at},");
            let chunks = cut_text(text, reasoning.chunk_chars);
            self.event(
                "response.content_part.added",
                format!("{place}\"part\":{}", content_part("")),
            );
            self.deltas(
                "response.reasoning_text.delta",
                place.clone(),
                chunks,
                1,
                reasoning.chunk_delay_ms,
            );
            self.event("response.reasoning_text.done", format!("{place}\"text\":{}", quoted(text)));
            self.event(
                "response.content_part.done",
                format!("{place}\"part\":{}", content_part(text)),
            );
        }
        for (at, text) in reasoning.summary.iter().enumerate() {
            let place =
                format!("\"item_id\":{quoted_id},\"output_index\":{index},\"summary_index\":{at},");
            let chunks = cut_text(text, reasoning.chunk_chars);
            self.event(
                "response.reasoning_summary_part.added",
                format!("{place}\"part\":{}", summary_part("")),
            );
            self.deltas(
                "response.reasoning_summary_text.delta",
                place.clone(),
                chunks,
                1,
                reasoning.chunk_delay_ms,
            );
            self.event(
                "response.reasoning_summary_text.done",
                format!("{place}\"text\":{}", quoted(text)),
            );
            self.event(
                "response.reasoning_summary_part.done",
                format!("{place}\"part\":{}", summary_part(text)),
            );
        }
        let summary: Vec<Value> = reasoning.summary.iter().map(|text| summary_part(text)).collect();
        let mut item = json!({"id": id, "type": "reasoning", "summary": summary});
        if !reasoning.content.is_empty() {
            let texts = reasoning.content.iter();
            item["content"] = texts.map(|text| content_part(text)).collect();
        }
        item["encrypted_content"] = reasoning.encrypted_content.clone().into();
        self.done(index, item);
    }

    pub(super) fn function_call(&mut self, call: &FunctionCall) {
        let (index, id) = self.item("fc");
        let call_id = call.call_id.clone().unwrap_or_else(|| self.call_id(index));
        let arguments = match &call.arguments {
            Value::String(text) => text.clone(),
            Value::Null => "{}".to_owned(),
            other => other.to_string(),
        };
        let item = |status: &str, arguments: &str| {
            json!({"id": id, "type": "function_call", "status": status, "call_id": call_id,
                "name": call.name, "arguments": arguments})
        };
        let place = format!("\"item_id\":{},\"output_index\":{index},", quoted(&id));
        self.added(index, &item("in_progress", ""));
        let chunks = cut_text(&arguments, None);
        let delay = call.chunk_delay_ms;
        self.deltas("response.function_call_arguments.delta", place.clone(), chunks, 1, delay);
        let members = format!("{place}\"arguments\":{}", quoted(&arguments));
        self.event("response.function_call_arguments.done", members);
        self.done(index, item("completed", &arguments));
    }

    pub(super) fn custom_tool_call(&mut self, call: &CustomToolCall) {
        let (index, id) = self.item("ctc");
        let call_id = call.call_id.clone().unwrap_or_else(|| self.call_id(index));
        let item = |status: &str, input: &str| {
            json!({"id": id, "type": "custom_tool_call", "status": status, "call_id": call_id,
                "name": call.name, "input": input})
        };
        let place = format!("\"item_id\":{},\"output_index\":{index},", quoted(&id));
        self.added(index, &item("in_progress", ""));
        let chunks = cut_text(&call.input, None);
        let delay = call.chunk_delay_ms;
        self.deltas("response.custom_tool_call_input.delta", place.clone(), chunks, 1, delay);
        let members = format!("{place}\"input\":{}", quoted(&call.input));
        self.event("response.custom_tool_call_input.done", members);
        self.done(index, item("completed", &call.input));
    }

    pub(super) fn tool_search_call(&mut self, call: &ToolSearchCall) {
        let (index, id) = self.item("tsc");
        let call_id = call.call_id.clone().unwrap_or_else(|| self.call_id(index));
        let item = |status: &str| {
            json!({"id": id, "type": "tool_search_call", "status": status, "call_id": call_id,
                "execution": "client", "arguments": call.arguments})
        };
        self.added(index, &item("in_progress"));
        self.done(index, item("completed"));
    }

    pub(super) fn web_search(&mut self, search: &WebSearch) {
        let (index, id) = self.item("ws");
        let query = json!({"type": "search", "query": search.query});
        let action = search.action.clone().unwrap_or(query);
        let item = |status: &str| json!({"id": id, "type": "web_search_call", "status": status, "action": action});
        self.added(index, &item("in_progress"));
        self.done(index, item(if search.failed { "failed" } else { "completed" }));
    }

    pub(super) fn image_generation(&mut self, image: &ImageGeneration) {
        let (index, id) = self.item("ig");
        let begun = json!({"id": id, "type": "image_generation_call", "status": "in_progress",
            "result": null});
        self.added(index, &begun);
        let place = format!("\"item_id\":{},\"output_index\":{index}", quoted(&id));
        self.event("response.image_generation_call.in_progress", place.clone());
        self.event("response.image_generation_call.generating", place.clone());
        if !image.failed {
            self.event("response.image_generation_call.completed", place);
        }
        let status = if image.failed { "failed" } else { "completed" };
        let mut whole = begun;
        whole["status"] = status.into();
        whole["result"] = json!(image.result);
        if let Some(prompt) = &image.revised_prompt {
            whole["revised_prompt"] = prompt.as_str().into();
        }
        self.done(index, whole);
    }

    pub(super) fn error(&mut self, error: &ErrorStep) {
        self.ended = true;
        let end = match &error.incomplete {
            Some(reason) => End::Incomplete(reason.clone()),
            None => End::Failed(json!({"code": error.code, "message": error.message})),
        };
        self.queue.push_back(Piece::Ended(end));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::script::{Scripted, request::RequestBody};

    /// The official clients refuse a delta to a part that did not begin.
    #[test]
    fn parts_of_reasoning_begin_before_their_deltas_and_end_after_them() {
        let steps = json!([{"reasoning": {"summary": ["why"], "content": ["raw"]}}]);
        let scripted: Scripted = serde_json::from_value(json!({"steps": steps})).unwrap();
        let body = br#"{"model":"m","input":"hello"}"#;
        let request = RequestBody::parse(body).unwrap();
        let text = Player::new(Arc::new(scripted), &request, body.len(), 7).text();
        let kinds: Vec<&str> =
            text.lines().filter_map(|line| line.strip_prefix("event: response.")).collect();
        let expected = [
            "created",
            "output_item.added",
            "content_part.added",
            "reasoning_text.delta",
            "reasoning_text.done",
            "content_part.done",
            "reasoning_summary_part.added",
            "reasoning_summary_text.delta",
            "reasoning_summary_text.done",
            "reasoning_summary_part.done",
            "output_item.done",
            "completed",
        ];
        assert_eq!(kinds, expected);
    }
}
