//! Writes the body of a Messages request. Members that change least come first, and the messages last, so that a
//! longer history begins with the bytes of a shorter one: only marks of the cache move.

use super::marks::{Marks, write_mark};
use super::parameters::{write_output_config, write_thinking, write_tool_choice, write_tools};
use crate::conversation::{Answered, Conversation, Heard, Parts, Said, Turn};
use crate::envelope::Payload;
use crate::error::Error;
use crate::json::{Elements, Members, object};
use crate::kind::Wire;
use crate::offer::{Offer, arguments};
use crate::request::{Content, Request, Source};
use crate::target::{Encoded, Platform, Target};
use crate::warning::Warnings;

/// The limit of the output where neither the request nor the model's entry has one, in tokens.
const DEFAULT_MAX_TOKENS: u64 = 8192;

/// Media types of images that the API takes.
const IMAGES: [&str; 4] = ["image/jpeg", "image/png", "image/gif", "image/webp"];

/// Writes a request.
///
/// # Errors
/// When a member has no equal and changes the answer's meaning.
pub(crate) fn write_request(request: &Request<'_>, target: &Target) -> Result<Encoded, Error> {
    let target = &target.for_request(request);
    let options = &target.messages;
    let mut warnings = Warnings::default();
    let conversation = Conversation::read(&request.input, Wire::Messages, target, &mut warnings)?;
    let offer = Offer::read(request, Wire::Messages, options.has_strict, &mut warnings)?;
    warn(request, target, &mut warnings);
    let max_tokens = request.max_output_tokens.or(target.max_output).unwrap_or(DEFAULT_MAX_TOKENS);
    let mut body = String::with_capacity(4096);
    let mut failure = Ok(());
    let marks = Marks::new(&conversation, request.input.len(), target);
    object(&mut body, |body| {
        write_head(target, body);
        body.number("max_tokens", max_tokens);
        let has_system = write_system(request, &conversation, marks.first(), body);
        let mark = marks.first().filter(|_| !has_system);
        failure = write_tools(&offer, target, mark, &mut warnings, body)
            .and_then(|()| write_tool_choice(request, &offer, body))
            .and_then(|()| write_output_config(request, target, body));
        let thinks = write_thinking(request, target, max_tokens, &mut warnings, body);
        if !request.stop.is_empty() {
            body.texts("stop_sequences", &request.stop);
        }
        if options.has_sampling && thinks {
            let reason = "the API takes none with thinking";
            for (name, value) in [("temperature", request.temperature), ("top_p", request.top_p)] {
                if value.is_some_and(|value| value.get().parse() != Ok(1.0)) {
                    warnings.add(name, reason);
                }
            }
        } else if options.has_sampling {
            body.opt_raw("temperature", request.temperature);
            body.opt_raw("top_p", request.top_p);
        }
        match request.service_tier.as_deref() {
            Some("auto" | "priority") => body.text("service_tier", "auto"),
            Some("default") => body.text("service_tier", "standard_only"),
            _ => {}
        }
        if let Some(user) = &request.user {
            body.object("metadata", |metadata| metadata.text("user_id", user));
        }
        // Bedrock has a path for each form of the answer.
        if target.platform != Platform::Bedrock {
            body.bool("stream", request.stream);
        }
        body.array("messages", |list| {
            let mut writer = Writer { target, warnings: &mut warnings, failure: Ok(()) };
            writer.messages(&conversation, &marks, list);
            failure = std::mem::replace(&mut failure, Ok(())).and(writer.failure);
        });
    });
    failure?;
    let mut headers = Vec::new();
    if target.platform == Platform::Direct {
        headers.push(("anthropic-version", options.version.clone()));
    }
    if !options.betas.is_empty() && target.platform != Platform::Bedrock {
        headers.push(("anthropic-beta", options.betas.join(",")));
    }
    let path = target.platform.messages_path(&target.model, request.stream);
    Ok(Encoded { path, headers, body, warnings, tools: offer.table })
}

/// The members that come first. A cloud has the model in the path, and the version in the body.
fn write_head(target: &Target, body: &mut Members<'_>) {
    match target.platform.messages_version() {
        None => body.text("model", &target.model),
        Some(version) => body.text("anthropic_version", version),
    }
    if target.platform == Platform::Bedrock && !target.messages.betas.is_empty() {
        body.texts("anthropic_beta", &target.messages.betas);
    }
}

fn warn(request: &Request<'_>, target: &Target, warnings: &mut Warnings) {
    let sampling = !target.messages.has_sampling;
    let has_tier =
        matches!(request.service_tier.as_deref(), None | Some("auto" | "priority" | "default"));
    for (is_there, member, reason) in [
        (sampling && request.temperature.is_some(), "temperature", "the API has no temperature"),
        (sampling && request.top_p.is_some(), "top_p", "the API has no `top_p`"),
        (request.verbosity.is_some(), "text.verbosity", "the API has no verbosity"),
        (
            request.prompt_cache_key.is_some(),
            "prompt_cache_key",
            "the cache goes by the prefix alone",
        ),
        (request.metadata.is_some(), "metadata", "the API keeps no metadata"),
        (request.store == Some(true), "store", "the API keeps no responses"),
        (!has_tier, "service_tier", "the API has no tier by this name"),
    ] {
        if is_there {
            warnings.add(member, reason);
        }
    }
}

/// Writes the instructions, and returns whether there are any.
fn write_system(
    request: &Request<'_>,
    conversation: &Conversation<'_>,
    mark: Option<&str>,
    body: &mut Members<'_>,
) -> bool {
    let instructions = request.instructions.as_deref().into_iter();
    let texts: Vec<&str> = instructions.chain(conversation.system.iter().copied()).collect();
    let Some(last) = texts.len().checked_sub(1) else { return false };
    body.array("system", |list| {
        for (index, text) in texts.iter().enumerate() {
            list.object(|block| {
                block.text("type", "text");
                block.text("text", text);
                if index == last {
                    write_mark(mark, block);
                }
            });
        }
    });
    true
}

struct Writer<'w> {
    target: &'w Target,
    warnings: &'w mut Warnings,
    failure: Result<(), Error>,
}

impl Writer<'_> {
    fn messages(
        &mut self,
        conversation: &Conversation<'_>,
        marks: &Marks,
        list: &mut Elements<'_>,
    ) {
        let turns = &conversation.turns;
        if matches!(turns.first(), None | Some(Turn { parts: Parts::Assistant(_), .. })) {
            write_note("(The conversation begins here.)", list);
        }
        for (index, turn) in turns.iter().enumerate() {
            match &turn.parts {
                Parts::User(parts) => self.user(parts, &|part| marks.of(index, part), list),
                Parts::Assistant(parts) => assistant(parts, list),
            }
        }
        // A model goes on with its own message only after a pause of a server's tool.
        if let Some(Turn { parts: Parts::Assistant(parts), .. }) = turns.last()
            && !matches!(parts.last(), Some(Said::Reasoning(Payload::Blocks(blocks))) if is_server_tool(blocks))
        {
            self.warnings
                .add("input[]", "the API takes no beginning of an answer; a note follows it");
            write_note("Continue.", list);
        }
    }

    /// `mark`: that of the part at a position.
    fn user(
        &mut self,
        parts: &[Heard<'_>],
        mark: &dyn Fn(usize) -> Option<&'static str>,
        list: &mut Elements<'_>,
    ) {
        // Instructions are messages of their own where the API takes them.
        let has_role = self.target.messages.has_system_messages;
        let mut rest = parts;
        while !rest.is_empty() {
            let is_system = |part: &Heard<'_>| has_role && matches!(part, Heard::Instruction(_));
            let first = is_system(&rest[0]);
            let length = rest.iter().take_while(|part| is_system(part) == first).count();
            let (group, after) = rest.split_at(length);
            let position = parts.len() - rest.len();
            rest = after;
            list.object(|message| {
                message.text("role", if first { "system" } else { "user" });
                message.array("content", |blocks| {
                    for (index, part) in group.iter().enumerate() {
                        self.heard(part, mark(position + index), first, blocks);
                    }
                });
            });
        }
    }

    fn heard(
        &mut self,
        part: &Heard<'_>,
        mark: Option<&str>,
        is_system: bool,
        blocks: &mut Elements<'_>,
    ) {
        match part {
            Heard::Output(answered) => {
                blocks.object(|block| self.tool_result(answered, mark, block));
            }
            Heard::Message(parts) | Heard::Instruction(parts) => {
                let is_wrapped = !is_system && matches!(part, Heard::Instruction(_));
                for (index, content) in parts.iter().enumerate() {
                    let mark = mark.filter(|_| index + 1 == parts.len());
                    match content {
                        Content::Text(text) if is_wrapped => blocks.object(|block| {
                            block.text("type", "text");
                            block.text("text", &crate::shared::instruction(text));
                            write_mark(mark, block);
                        }),
                        content => self.content(content, mark, blocks),
                    }
                }
            }
            Heard::GeneratedImage(base64) => blocks.object(|block| {
                write_image("image/png", base64, block);
                write_mark(mark, block);
            }),
        }
    }

    fn tool_result(
        &mut self,
        answered: &Answered<'_>,
        mark: Option<&str>,
        block: &mut Members<'_>,
    ) {
        block.text("type", "tool_result");
        block.text("tool_use_id", &answered.id);
        match answered.output.map(|output| output.content.as_slice()) {
            None | Some([]) => block.text("content", Answered::MISSING),
            Some([Content::Text(text)]) => {
                let is_empty = text.is_empty();
                block.text("content", if is_empty { Answered::MISSING } else { text });
            }
            Some(parts) => block.array("content", |list| {
                for part in parts
                    .iter()
                    .filter(|part| !matches!(part, Content::Text(text) if text.is_empty()))
                {
                    self.content(part, None, list);
                }
            }),
        }
        if answered.output.is_some_and(|output| output.is_error) {
            block.bool("is_error", true);
        }
        write_mark(mark, block);
    }

    fn content(&mut self, content: &Content<'_>, mark: Option<&str>, blocks: &mut Elements<'_>) {
        blocks.object(|block| {
            match content {
                Content::Text(text) | Content::Refusal(text) => {
                    block.text("type", "text");
                    block.text("text", text);
                }
                Content::Image { source, detail } => {
                    if detail.as_deref().is_some_and(|detail| detail != "auto") {
                        self.warnings
                            .add("input[].content[].detail", "the API has no detail of images");
                    }
                    self.image(source, block);
                }
                Content::File { source, name } => self.document(source, name.as_deref(), block),
                Content::Audio { .. } => self.fail("input_audio", "the API takes no sound"),
            }
            write_mark(mark, block);
        });
    }

    fn image(&mut self, source: &Source<'_>, block: &mut Members<'_>) {
        match source {
            Source::Data { media_type, base64 } if IMAGES.contains(&media_type.as_ref()) => {
                write_image(media_type, base64, block);
            }
            Source::Data { media_type, .. } => {
                self.fail(
                    "input_image",
                    &format!("the API takes no images of the type `{media_type}`"),
                );
            }
            Source::Url(url) => write_source("image", "url", "url", url, block),
            Source::Id(id) => write_source("image", "file", "file_id", id, block),
        }
    }

    fn document(&mut self, source: &Source<'_>, name: Option<&str>, block: &mut Members<'_>) {
        match source {
            Source::Data { media_type, base64 } if media_type == "application/pdf" => {
                block.text("type", "document");
                block.object("source", |source| {
                    source.text("type", "base64");
                    source.text("media_type", media_type);
                    source.text("data", base64);
                });
            }
            Source::Data { media_type, base64 } if media_type.starts_with("text/") => {
                let Some(text) = crate::shared::decoded_text(base64) else {
                    return self.fail("input_file", "a file of text is no UTF-8");
                };
                block.text("type", "document");
                block.object("source", |source| {
                    source.text("type", "text");
                    source.text("media_type", "text/plain");
                    source.text("data", &text);
                });
            }
            Source::Data { media_type, .. } => {
                self.fail(
                    "input_file",
                    &format!("the API takes no files of the type `{media_type}`"),
                );
            }
            Source::Url(url) => write_source("document", "url", "url", url, block),
            Source::Id(id) => write_source("document", "file", "file_id", id, block),
        }
        block.opt_text("title", name);
    }

    fn fail(&mut self, member: &str, reason: &str) {
        if self.failure.is_ok() {
            self.failure = Err(Error::unsupported(member, Wire::Messages, reason));
        }
    }
}

fn write_note(text: &str, list: &mut Elements<'_>) {
    list.object(|message| {
        message.text("role", "user");
        message.array("content", |blocks| {
            blocks.object(|block| {
                block.text("type", "text");
                block.text("text", text);
            });
        });
    });
}

fn write_image(media_type: &str, base64: &str, block: &mut Members<'_>) {
    block.text("type", "image");
    block.object("source", |source| {
        source.text("type", "base64");
        source.text("media_type", media_type);
        source.text("data", base64);
    });
}

fn write_source(block_kind: &str, kind: &str, member: &str, value: &str, block: &mut Members<'_>) {
    block.text("type", block_kind);
    block.object("source", |source| {
        source.text("type", kind);
        source.text(member, value);
    });
}

fn is_server_tool(blocks: &[String]) -> bool {
    blocks.iter().any(|block| block.contains("\"server_tool_use\""))
}

fn assistant(parts: &[Said<'_>], list: &mut Elements<'_>) {
    list.object(|message| {
        message.text("role", "assistant");
        message.array("content", |blocks| {
            for part in parts {
                match part {
                    Said::Text(text) => blocks.object(|block| {
                        block.text("type", "text");
                        block.text("text", text);
                    }),
                    Said::Reasoning(Payload::Blocks(raw)) => {
                        raw.iter().for_each(|block| blocks.raw(block));
                    }
                    Said::Reasoning(_) => {}
                    Said::Call { id, name, input, is_text } => blocks.object(|block| {
                        block.text("type", "tool_use");
                        block.text("id", id);
                        block.text("name", name);
                        block.raw("input", &arguments(input, *is_text));
                    }),
                }
            }
        });
    });
}
