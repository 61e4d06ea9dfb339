//! Writes the body of a `generateContent` request. The model and the choice of a stream are in the path.

use crate::conversation::{Answered, Conversation, Heard, Parts, Said, Turn};
use crate::envelope::Payload;
use crate::error::{Code, Error};
use crate::json::{Elements, Members, object};
use crate::kind::Wire;
use crate::names::wire_name;
use crate::offer::{Offer, arguments};
use crate::request::{Content, Format, Request, Source, ToolChoice};
use crate::shared::{budget_of, escape_path, instruction};
use crate::target::{Encoded, GeminiOptions, GeminiThinking, Platform, Target};
use crate::warning::Warnings;

/// Taken for the signature of a call that another model made.
pub(crate) const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// Writes a request.
///
/// # Errors
/// When a member has no equal and changes the answer's meaning.
pub(crate) fn write_request(request: &Request<'_>, target: &Target) -> Result<Encoded, Error> {
    let target = &target.for_request(request);
    let options = &target.gemini;
    let mut warnings = Warnings::default();
    let conversation = Conversation::read(&request.input, Wire::Gemini, target, &mut warnings)?;
    let offer = Offer::read(request, Wire::Gemini, false, &mut warnings)?;
    if offer.web_search.is_some() && !offer.functions.is_empty() && !options.is_third {
        let reason = "the model takes a search or functions, not both";
        return Err(Error::unsupported("tools", Wire::Gemini, reason));
    }
    warn(request, &mut warnings);
    let mut body = String::with_capacity(4096);
    let mut failure = Ok(());
    object(&mut body, |body| {
        let instructions = request.instructions.as_deref().into_iter();
        let texts: Vec<&str> = instructions.chain(conversation.system.iter().copied()).collect();
        if !texts.is_empty() {
            body.object("systemInstruction", |content| {
                content
                    .array("parts", |parts| texts.iter().for_each(|text| write_text(text, parts)));
            });
        }
        write_tools(&offer, &mut warnings, body);
        failure = write_tool_choice(request, &offer, body);
        write_config(request, options, &mut warnings, body);
        match request.service_tier.as_deref() {
            Some("flex") => body.text("serviceTier", "FLEX"),
            Some("priority" | "fast") => body.text("serviceTier", "PRIORITY"),
            Some("default") => body.text("serviceTier", "STANDARD"),
            _ => {}
        }
        body.array("contents", |list| {
            let mut writer = Writer { options, warnings: &mut warnings, failure: Ok(()) };
            writer.contents(&conversation, list);
            failure = std::mem::replace(&mut failure, Ok(())).and(writer.failure);
        });
    });
    failure?;
    let model = escape_path(target.model.strip_prefix("models/").unwrap_or(&target.model));
    let verb = if request.stream { "streamGenerateContent?alt=sse" } else { "generateContent" };
    let path = match target.platform {
        // The version is in the address, before the project.
        Platform::Vertex => format!("/models/{model}:{verb}"),
        Platform::Direct | Platform::Bedrock => {
            format!("/{}/models/{model}:{verb}", options.version)
        }
    };
    Ok(Encoded { path, headers: Vec::new(), body, warnings, tools: offer.table })
}

fn warn(request: &Request<'_>, warnings: &mut Warnings) {
    for (is_there, member, reason) in [
        (request.verbosity.is_some(), "text.verbosity", "the API has no verbosity"),
        (
            request.prompt_cache_key.is_some(),
            "prompt_cache_key",
            "the cache goes by the prefix alone",
        ),
        (request.metadata.is_some(), "metadata", "the API keeps no metadata"),
        (request.store == Some(true), "store", "the API keeps no responses"),
        (request.user.is_some(), "safety_identifier", "the API takes no identifiers"),
        (
            request.parallel_tool_calls == Some(false),
            "parallel_tool_calls",
            "the model may call several functions at once",
        ),
    ] {
        if is_there {
            warnings.add(member, reason);
        }
    }
}

fn write_tools(offer: &Offer<'_>, warnings: &mut Warnings, body: &mut Members<'_>) {
    if offer.is_empty() {
        return;
    }
    body.array("tools", |list| {
        if !offer.functions.is_empty() {
            list.object(|tool| {
                tool.array("functionDeclarations", |list| {
                    for function in &offer.functions {
                        list.object(|declaration| {
                            declaration.text("name", &function.name);
                            declaration.opt_text("description", function.description.as_deref());
                            declaration.raw("parametersJsonSchema", &function.parameters);
                        });
                    }
                });
            });
        }
        if let Some(search) = offer.web_search {
            if !search.allowed_domains.is_empty() || !search.blocked_domains.is_empty() {
                warnings.add("tools[].filters", "the search takes no filters");
            }
            if search.context_size.is_some()
                || search.user_location.is_some()
                || search.max_uses.is_some()
            {
                warnings.add("tools[].web_search", "the search takes no options");
            }
            list.object(|tool| tool.raw("googleSearch", "{}"));
        }
    });
}

fn write_tool_choice(
    request: &Request<'_>,
    offer: &Offer<'_>,
    body: &mut Members<'_>,
) -> Result<(), Error> {
    let (mode, name) = match request.tool_choice.as_ref().unwrap_or(&ToolChoice::Auto) {
        ToolChoice::Auto | ToolChoice::Allowed(_, false) => return Ok(()),
        ToolChoice::None => ("NONE", None),
        ToolChoice::Required | ToolChoice::Allowed(_, true) => ("ANY", None),
        ToolChoice::Tool(name, _) => ("ANY", Some(wire_name(None, name))),
        ToolChoice::WebSearch => {
            let reason = "a search cannot be demanded";
            return Err(Error::unsupported("tool_choice", Wire::Gemini, reason));
        }
    };
    if offer.functions.is_empty() {
        if mode == "NONE" {
            return Ok(());
        }
        let message = "`tool_choice` demands a tool, but `tools` has none.";
        return Err(Error::member("tool_choice", Code::InvalidValue, message));
    }
    body.object("toolConfig", |config| {
        config.object("functionCallingConfig", |config| {
            config.text("mode", mode);
            if let Some(name) = &name {
                config.texts("allowedFunctionNames", &[name]);
            }
        });
    });
    Ok(())
}

fn write_config(
    request: &Request<'_>,
    options: &GeminiOptions,
    warnings: &mut Warnings,
    body: &mut Members<'_>,
) {
    let mut config = String::new();
    object(&mut config, |config| {
        if let Some(limit) = request.max_output_tokens {
            config.number("maxOutputTokens", limit);
        }
        if !request.stop.is_empty() {
            config.texts("stopSequences", &request.stop);
        }
        config.opt_raw("temperature", request.temperature);
        config.opt_raw("topP", request.top_p);
        match &request.format {
            None => {}
            Some(Format::JsonObject) => config.text("responseMimeType", "application/json"),
            Some(Format::JsonSchema { schema, .. }) => {
                config.text("responseMimeType", "application/json");
                config.raw("responseJsonSchema", schema.get());
            }
        }
        write_thinking(request, options, warnings, config);
    });
    if config != "{}" {
        body.raw("generationConfig", &config);
    }
}

fn write_thinking(
    request: &Request<'_>,
    options: &GeminiOptions,
    warnings: &mut Warnings,
    config: &mut Members<'_>,
) {
    let effort = request.effort.as_deref();
    if effort.is_none() && request.summary.is_none() {
        return;
    }
    if options.thinking == GeminiThinking::None {
        return warnings.add("reasoning", "the model has no switch for thinking");
    }
    config.object("thinkingConfig", |thinking| {
        if request.summary.is_some() {
            thinking.bool("includeThoughts", true);
        }
        match (options.thinking, effort) {
            (_, None) | (GeminiThinking::None, _) => {}
            (GeminiThinking::Budget, Some("none")) => thinking.number("thinkingBudget", 0),
            (GeminiThinking::Budget, Some(effort)) => {
                // Thoughts count against the limit: half of it stays for the answer.
                let share = request.max_output_tokens.map_or(u64::MAX, |limit| limit / 2);
                thinking.number("thinkingBudget", budget_of(effort).min(share));
            }
            (GeminiThinking::Level, Some(effort)) => {
                let level = match effort {
                    "none" => {
                        warnings.add("reasoning.effort", "the model always thinks a little");
                        "MINIMAL"
                    }
                    "minimal" => "MINIMAL",
                    "low" => "LOW",
                    "high" => "HIGH",
                    "xhigh" | "max" => "XHIGH",
                    _ => "MEDIUM",
                };
                thinking.text("thinkingLevel", level);
            }
        }
    });
}

struct Writer<'w> {
    options: &'w GeminiOptions,
    warnings: &'w mut Warnings,
    failure: Result<(), Error>,
}

impl Writer<'_> {
    fn contents(&mut self, conversation: &Conversation<'_>, list: &mut Elements<'_>) {
        let turns = &conversation.turns;
        if matches!(turns.first(), None | Some(Turn { parts: Parts::Assistant(_), .. })) {
            list.object(|content| {
                content.text("role", "user");
                content
                    .array("parts", |parts| write_text("(The conversation begins here.)", parts));
            });
        }
        for Turn { parts, .. } in turns {
            list.object(|content| match parts {
                Parts::User(heard) => {
                    content.text("role", "user");
                    content.array("parts", |parts| self.user(heard, parts));
                }
                Parts::Assistant(said) => {
                    content.text("role", "model");
                    content.array("parts", |parts| self.model(said, parts));
                }
            });
        }
    }

    fn user(&mut self, heard: &[Heard<'_>], parts: &mut Elements<'_>) {
        // Images of outputs that cannot stand in them follow all outputs.
        let mut images = Vec::new();
        for part in heard {
            if let Heard::Output(answered) = part {
                self.response(answered, &mut images, parts);
            }
        }
        images.into_iter().for_each(|image| self.content(image, parts));
        for part in heard {
            match part {
                Heard::Output(_) => {}
                Heard::Message(content) => {
                    content.iter().for_each(|part| self.content(part, parts));
                }
                Heard::Instruction(content) => {
                    for part in content {
                        match part {
                            Content::Text(text) => write_text(&instruction(text), parts),
                            part => self.content(part, parts),
                        }
                    }
                }
                Heard::GeneratedImage(base64) => write_inline("image/png", base64, parts),
            }
        }
    }

    fn response<'r>(
        &mut self,
        answered: &Answered<'r>,
        images: &mut Vec<&'r Content<'r>>,
        parts: &mut Elements<'_>,
    ) {
        let content = answered.output.map(|output| output.content.as_slice()).unwrap_or_default();
        let mut text = String::new();
        let mut inline = Vec::new();
        for part in content {
            match part {
                Content::Text(part) | Content::Refusal(part) => {
                    if !text.is_empty() {
                        text.push('\n');
                    }
                    text.push_str(part);
                }
                Content::Image { source: Source::Data { media_type, base64 }, .. }
                    if self.options.is_third =>
                {
                    inline.push((media_type, base64));
                }
                other => images.push(other),
            }
        }
        if content.is_empty() {
            text.push_str(Answered::MISSING);
        }
        let is_error = answered.output.is_some_and(|output| output.is_error);
        parts.object(|part| {
            part.object("functionResponse", |response| {
                if self.options.has_call_ids {
                    response.text("id", &answered.id);
                }
                response.text("name", &answered.name);
                response.object("response", |object| {
                    object.text(if is_error { "error" } else { "output" }, &text);
                });
                if !inline.is_empty() {
                    response.array("parts", |list| {
                        inline.iter().for_each(|(kind, base64)| write_inline(kind, base64, list));
                    });
                }
            });
        });
    }

    fn content(&mut self, content: &Content<'_>, parts: &mut Elements<'_>) {
        if let Content::Image { detail: Some(detail), .. } = content
            && detail != "auto"
        {
            self.warnings.add("input[].content[].detail", "the API has no detail of images");
        }
        match content {
            Content::Text(text) | Content::Refusal(text) => write_text(text, parts),
            Content::Image { source, .. } | Content::File { source, .. } => match source {
                Source::Data { media_type, base64 } => write_inline(media_type, base64, parts),
                Source::Url(uri) | Source::Id(uri) => parts.object(|part| {
                    part.object("fileData", |file| file.text("fileUri", uri));
                }),
            },
            Content::Audio { data, format } => {
                let kind = if format == "mp3" { "audio/mp3" } else { "audio/wav" };
                write_inline(kind, data, parts);
            }
        }
    }

    fn model(&mut self, said: &[Said<'_>], parts: &mut Elements<'_>) {
        let mut signature: Option<&str> = None;
        let mut is_first = true;
        for part in said {
            match part {
                Said::Text(text) => write_text(text, parts),
                Said::Reasoning(Payload::CallSignature(text)) => {
                    if let Some(unused) = signature.replace(text) {
                        write_signature(unused, parts);
                    }
                }
                Said::Reasoning(Payload::TextSignature(text)) => write_signature(text, parts),
                Said::Reasoning(_) => {}
                Said::Call { id, name, input, is_text } => {
                    let own = signature.take();
                    let signature =
                        own.or((is_first && self.options.is_third).then_some(NO_SIGNATURE));
                    is_first = false;
                    parts.object(|part| {
                        part.object("functionCall", |call| {
                            if self.options.has_call_ids {
                                call.text("id", id);
                            }
                            call.text("name", name);
                            call.raw("args", &arguments(input, *is_text));
                        });
                        part.opt_text("thoughtSignature", signature);
                    });
                }
            }
        }
        if let Some(unused) = signature {
            self.warnings.add("input[]", "a signature without its call is sent with an empty text");
            write_signature(unused, parts);
        }
    }
}

fn write_text(text: &str, parts: &mut Elements<'_>) {
    parts.object(|part| part.text("text", text));
}

fn write_signature(signature: &str, parts: &mut Elements<'_>) {
    parts.object(|part| {
        part.text("text", "");
        part.text("thoughtSignature", signature);
    });
}

fn write_inline(media_type: &str, base64: &str, parts: &mut Elements<'_>) {
    parts.object(|part| {
        part.object("inlineData", |data| {
            data.text("mimeType", media_type);
            data.text("data", base64);
        });
    });
}
