//! Writes the body of a Chat Completions request. Members that change least come first and the messages last.

use std::borrow::Cow;

use super::parameters::{
    custom_tools, write_format, write_thinking, write_tool_choice, write_tools, write_tuning,
};
use crate::conversation::{Answered, Conversation, Heard, Parts, Said, Turn};
use crate::envelope::Payload;
use crate::error::Error;
use crate::json::{Elements, object, quoted};
use crate::kind::Wire;
use crate::names::{short_call_id, wire_call_id};
use crate::offer::{Offer, arguments};
use crate::request::{Content, Request, Role, Source};
use crate::shared::instruction;
use crate::target::{ChatCallIds, ChatLimit, ChatOptions, ChatReasoning, Encoded, Target};
use crate::warning::Warnings;

/// Writes a request.
///
/// # Errors
/// When a member has no equal and changes the answer's meaning.
pub(crate) fn write_request(request: &Request<'_>, target: &Target) -> Result<Encoded, Error> {
    let target = &target.for_request(request);
    let options = &target.chat;
    let mut warnings = Warnings::default();
    let conversation = Conversation::read(&request.input, Wire::Chat, target, &mut warnings)?;
    let offer = Offer::read(request, Wire::Chat, options.has_strict, &mut warnings)?;
    if offer.web_search.is_some() && !options.has_web_search {
        return Err(Error::unsupported("tools", Wire::Chat, "the server has no web search"));
    }
    let mut body = String::with_capacity(4096);
    let mut failure = Ok(());
    object(&mut body, |body| {
        body.text("model", &target.model);
        write_tools(request, &offer, options, body);
        failure = write_tool_choice(request, &offer, options, &mut warnings, body)
            .and_then(|()| write_format(request, options, body));
        write_thinking(request, options, &mut warnings, body);
        if let Some(limit) = request.max_output_tokens {
            let name = match options.limit {
                ChatLimit::MaxTokens => "max_tokens",
                ChatLimit::MaxCompletionTokens => "max_completion_tokens",
            };
            body.number(name, limit);
        }
        if !request.stop.is_empty() {
            body.texts("stop", &request.stop);
        }
        write_tuning(request, options, &mut warnings, body);
        body.bool("stream", request.stream);
        if request.stream && options.has_stream_usage {
            body.object("stream_options", |stream| stream.bool("include_usage", true));
        }
        body.array("messages", |list| {
            let mut writer =
                Writer { options, custom: custom_tools(request, options), failure: Ok(()) };
            writer.messages(request, &conversation, list);
            failure = std::mem::replace(&mut failure, Ok(())).and(writer.failure);
        });
        if options.is_openai {
            body.opt_text("prompt_cache_key", request.prompt_cache_key.as_deref());
            body.opt_text("safety_identifier", request.user.as_deref());
            body.opt_raw("metadata", request.metadata);
        }
    });
    failure?;
    let path = "/chat/completions".into();
    Ok(Encoded { path, headers: Vec::new(), body, warnings, tools: offer.table })
}

struct Writer<'w> {
    options: &'w ChatOptions,
    /// Names of tools that take free text on this wire, too.
    custom: Vec<&'w str>,
    failure: Result<(), Error>,
}

impl Writer<'_> {
    fn messages(
        &mut self,
        request: &Request<'_>,
        conversation: &Conversation<'_>,
        list: &mut Elements<'_>,
    ) {
        let role = if self.options.has_developer { "developer" } else { "system" };
        let instructions = request.instructions.as_deref().into_iter();
        let texts: Vec<&str> = instructions.chain(conversation.system.iter().copied()).collect();
        if self.options.system_first_only && !texts.is_empty() {
            write_text_message(role, &texts.join("\n\n"), list);
        } else {
            texts.iter().for_each(|text| write_text_message(role, text, list));
        }
        for Turn { parts, .. } in &conversation.turns {
            match parts {
                Parts::User(parts) => self.user(parts, role, list),
                Parts::Assistant(parts) => self.assistant(parts, list),
            }
        }
    }

    fn call_id<'c>(&self, id: &'c str) -> Cow<'c, str> {
        match self.options.call_ids {
            ChatCallIds::Plain => Cow::Borrowed(id),
            ChatCallIds::Nine => short_call_id(id),
        }
    }

    fn user(&mut self, parts: &[Heard<'_>], role: &str, list: &mut Elements<'_>) {
        let is_output = |part: &&Heard<'_>| matches!(part, Heard::Output(_));
        // Images of outputs follow all outputs: a tool's message is text.
        let mut images = Vec::new();
        for part in parts {
            if let Heard::Output(answered) = part {
                self.output(answered, &mut images, list);
            }
        }
        let has_outputs = parts.iter().any(|part| is_output(&part));
        let has_others = !images.is_empty() || !parts.iter().all(|part| is_output(&part));
        if has_outputs && has_others && self.options.needs_assistant_after_tool {
            write_text_message("assistant", "Understood.", list);
        }
        if !images.is_empty() {
            self.content_message("user", &images, list);
        }
        for part in parts {
            match part {
                Heard::Output(_) => {}
                Heard::Message(content) => self.content_message("user", content, list),
                Heard::Instruction(content) if self.options.system_first_only => {
                    for part in content {
                        if let Content::Text(text) = part {
                            write_text_message("user", &instruction(text), list);
                        }
                    }
                }
                Heard::Instruction(content) => self.content_message(role, content, list),
                Heard::GeneratedImage(base64) => {
                    let source = Source::Data {
                        media_type: "image/png".into(),
                        base64: Cow::Borrowed(*base64),
                    };
                    self.content_message("user", &[&Content::Image { source, detail: None }], list);
                }
            }
        }
    }

    fn output<'r>(
        &mut self,
        answered: &Answered<'r>,
        images: &mut Vec<&'r Content<'r>>,
        list: &mut Elements<'_>,
    ) {
        let content = answered.output.map(|output| output.content.as_slice()).unwrap_or_default();
        let mut text = String::new();
        if answered.output.is_some_and(|output| output.is_error) {
            text.push_str(crate::shared::FAILED);
        }
        for part in content {
            match part {
                Content::Text(part) | Content::Refusal(part) => {
                    if !text.is_empty() && !part.is_empty() {
                        text.push('\n');
                    }
                    text.push_str(part);
                }
                other => images.push(other),
            }
        }
        if text.is_empty() {
            let has_images =
                !content.is_empty() && content.iter().any(|part| !matches!(part, Content::Text(_)));
            text.push_str(if has_images {
                "(the output follows as an image)"
            } else {
                Answered::MISSING
            });
        }
        list.object(|message| {
            message.text("role", "tool");
            message.text("tool_call_id", &self.call_id(&answered.id));
            if self.options.has_tool_name {
                message.text("name", &answered.name);
            }
            message.text("content", &text);
        });
    }

    /// A message; one of a single text has it as a string, which every server takes.
    fn content_message(&mut self, role: &str, parts: &[&Content<'_>], list: &mut Elements<'_>) {
        if let [Content::Text(text)] = parts {
            return write_text_message(role, text, list);
        }
        list.object(|message| {
            message.text("role", role);
            message.array("content", |list| {
                parts.iter().for_each(|part| self.content(part, list));
            });
        });
    }

    fn content(&mut self, part: &Content<'_>, list: &mut Elements<'_>) {
        match part {
            Content::Text(text) | Content::Refusal(text) => list.object(|part| {
                part.text("type", "text");
                part.text("text", text);
            }),
            Content::Image { source, detail } => {
                let url = match source {
                    Source::Data { media_type, base64 } => {
                        format!("data:{media_type};base64,{base64}")
                    }
                    Source::Url(url) => url.to_string(),
                    Source::Id(_) => {
                        return self.fail("input_image", "images cannot be sent by a file's id");
                    }
                };
                list.object(|part| {
                    part.text("type", "image_url");
                    part.object("image_url", |image| {
                        image.text("url", &url);
                        image.opt_text("detail", detail.as_deref());
                    });
                });
            }
            Content::File { source, name } => self.file(source, name.as_deref(), list),
            Content::Audio { data, format } => list.object(|part| {
                part.text("type", "input_audio");
                part.object("input_audio", |audio| {
                    audio.text("data", data);
                    audio.text("format", format);
                });
            }),
        }
    }

    fn file(&mut self, source: &Source<'_>, name: Option<&str>, list: &mut Elements<'_>) {
        // Text is text anywhere.
        if let Source::Data { media_type, base64 } = source
            && media_type.starts_with("text/")
            && let Some(text) = crate::shared::decoded_text(base64)
        {
            let title = name.map(|name| format!("{name}:\n")).unwrap_or_default();
            return list.object(|part| {
                part.text("type", "text");
                part.text("text", &format!("{title}{text}"));
            });
        }
        if !self.options.has_files {
            return self.fail("input_file", "the server takes no files");
        }
        let (member, value) = match source {
            Source::Data { media_type, base64 } => {
                ("file_data", format!("data:{media_type};base64,{base64}"))
            }
            Source::Id(id) => ("file_id", id.to_string()),
            Source::Url(_) => {
                return self.fail("input_file", "files cannot be sent by their address");
            }
        };
        list.object(|part| {
            part.text("type", "file");
            part.object("file", |file| {
                file.opt_text("filename", name);
                file.text(member, &value);
            });
        });
    }

    fn assistant(&mut self, parts: &[Said<'_>], list: &mut Elements<'_>) {
        let reasoning = self.reasoning(parts);
        let texts: Vec<&str> = parts
            .iter()
            .filter_map(|part| if let Said::Text(text) = part { Some(*text) } else { None })
            .collect();
        let has_calls = parts.iter().any(|part| matches!(part, Said::Call { .. }));
        if texts.is_empty() && !has_calls && reasoning.is_none() {
            return;
        }
        list.object(|message| {
            message.text("role", Role::Assistant.as_str());
            if let Some((name, json)) = &reasoning {
                message.raw(name, json);
            }
            match texts.as_slice() {
                [] if has_calls => message.raw("content", "null"),
                [] => message.text("content", ""),
                texts => message.text("content", &texts.join("\n\n")),
            }
            if has_calls {
                message.array("tool_calls", |calls| {
                    parts.iter().for_each(|part| self.call(part, parts, calls));
                });
            }
        });
    }

    /// The member of a message that carries its reasoning, with its JSON.
    fn reasoning(&mut self, parts: &[Said<'_>]) -> Option<(String, String)> {
        if self.options.reasoning == ChatReasoning::None {
            return None;
        }
        let mut members = parts.iter().filter_map(|part| match part {
            Said::Reasoning(Payload::Member { name, json }) => Some((name, json)),
            _ => None,
        });
        let first = members.next();
        let always = || {
            (self.options.reasoning == ChatReasoning::Always)
                // Kimi refuses an empty string.
                .then(|| ("reasoning_content".to_owned(), "\" \"".to_owned()))
        };
        let Some((name, json)) = first else { return always() };
        let mut joined = json.clone();
        for (_, json) in members.filter(|(other, _)| *other == name) {
            joined = join(&joined, json);
        }
        Some((name.clone(), joined))
    }

    fn call(&self, part: &Said<'_>, parts: &[Said<'_>], calls: &mut Elements<'_>) {
        let Said::Call { id, name, input, is_text } = part else { return };
        calls.object(|call| {
            call.text("id", &self.call_id(id));
            if *is_text && self.custom.contains(&name.as_ref()) {
                call.text("type", "custom");
                return call.object("custom", |custom| {
                    custom.text("name", name);
                    custom.text("input", input);
                });
            }
            call.text("type", "function");
            call.object("function", |function| {
                function.text("name", name);
                function.text("arguments", &arguments(input, *is_text));
            });
            for part in parts {
                if let Said::Reasoning(Payload::CallMember { call_id, name, json }) = part
                    && wire_call_id(call_id, 0) == *id
                {
                    call.raw(name, json);
                }
            }
        });
    }

    fn fail(&mut self, member: &str, reason: &str) {
        if self.failure.is_ok() {
            self.failure = Err(Error::unsupported(member, Wire::Chat, reason));
        }
    }
}

/// Two texts, or two arrays, as one.
fn join(first: &str, second: &str) -> String {
    let texts =
        serde_json::from_str::<String>(first).ok().zip(serde_json::from_str::<String>(second).ok());
    if let Some((first, second)) = texts {
        return quoted(&(first + &second));
    }
    match (first.strip_suffix(']'), second.strip_prefix('[')) {
        (Some(first), Some(second)) if first != "[" && second != "]" => format!("{first},{second}"),
        (Some("["), _) => second.to_owned(),
        _ => first.to_owned(),
    }
}

fn write_text_message(role: &str, text: &str, list: &mut Elements<'_>) {
    list.object(|message| {
        message.text("role", role);
        message.text("content", text);
    });
}
