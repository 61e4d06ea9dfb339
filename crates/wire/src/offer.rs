//! The tools of a request as functions, for wires without free-form tools and namespaces.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::error::{Code, Error};
use crate::json;
use crate::kind::Wire;
use crate::names::{ToolTable, wire_name};
use crate::request::{Function, Request, Tool, ToolChoice, WebSearch};
use crate::warning::Warnings;

/// The tools that a request offers.
#[derive(Debug, Default)]
pub(crate) struct Offer<'r> {
    pub(crate) functions: Vec<Offered<'r>>,
    pub(crate) web_search: Option<&'r WebSearch<'r>>,
    pub(crate) table: ToolTable,
    /// The server takes `strict`.
    has_strict: bool,
}

/// A function on offer.
#[derive(Debug)]
pub(crate) struct Offered<'r> {
    pub(crate) name: Cow<'r, str>,
    pub(crate) description: Option<Cow<'r, str>>,
    /// JSON Schema.
    pub(crate) parameters: Cow<'r, str>,
    pub(crate) is_strict: bool,
}

impl<'r> Offer<'r> {
    /// Reads the tools of a request for `wire`. With a choice of some tools, the others are not on offer.
    pub(crate) fn read(
        request: &'r Request<'r>,
        wire: Wire,
        has_strict: bool,
        warnings: &mut Warnings,
    ) -> Result<Self, Error> {
        let table = ToolTable::of_request(request);
        if let Some(name) = table.duplicate() {
            let message = format!("Two tools have the name `{name}` on {wire}.");
            return Err(Error::member("tools", Code::InvalidValue, message));
        }
        let mut offer = Self { table, has_strict, ..Self::default() };
        for (index, tool) in request.tools.iter().enumerate() {
            match tool {
                Tool::Function(function) => offer.add(None, function, warnings),
                Tool::Namespace { name, tools, description } => {
                    if description.is_some() {
                        warnings.add("tools[].description", "a namespace is flattened");
                    }
                    tools.iter().for_each(|function| offer.add(Some(name), function, warnings));
                }
                Tool::Custom { name, description, format } => {
                    let (description, parameters) =
                        free_text(description.as_deref(), format.map(RawValue::get));
                    offer.functions.push(Offered {
                        name: wire_name(None, name),
                        description: Some(description.into()),
                        parameters: parameters.into(),
                        is_strict: true,
                    });
                }
                Tool::ToolSearch { description, parameters } => offer.functions.push(Offered {
                    name: "tool_search".into(),
                    description: description.as_deref().map(Cow::Borrowed),
                    parameters: parameters.map_or(NO_PARAMETERS, RawValue::get).into(),
                    is_strict: false,
                }),
                Tool::WebSearch(search) => offer.web_search = Some(search),
                Tool::Hosted { kind } => {
                    let member = format!("tools[{index}]");
                    let reason = format!("`{kind}` is a tool of the Responses provider");
                    return Err(Error::unsupported(&member, wire, &reason));
                }
            }
        }
        if let Some(ToolChoice::Allowed(names, _)) = &request.tool_choice {
            let allowed: Vec<_> = names.iter().map(|name| wire_name(None, name)).collect();
            offer.functions.retain(|function| allowed.contains(&function.name));
        }
        Ok(offer)
    }

    fn add(
        &mut self,
        namespace: Option<&str>,
        function: &'r Function<'r>,
        warnings: &mut Warnings,
    ) {
        if function.is_deferred {
            warnings.add("tools[].defer_loading", "the tool is offered at once");
        }
        if function.strict == Some(true) && !self.has_strict {
            warnings.add("tools[].strict", "the server does not hold arguments to their schema");
        }
        self.functions.push(Offered {
            name: wire_name(namespace, &function.name),
            description: function.description.as_deref().map(Cow::Borrowed),
            parameters: function.parameters.as_deref().map_or(NO_PARAMETERS, RawValue::get).into(),
            is_strict: function.strict.unwrap_or_default(),
        });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.functions.is_empty() && self.web_search.is_none()
    }
}

const NO_PARAMETERS: &str = "{\"type\":\"object\",\"properties\":{}}";

/// Description and schema of a free-form tool as a function with the one string `input`.
fn free_text(description: Option<&str>, format: Option<&str>) -> (String, String) {
    let mut text = description.unwrap_or_default().to_owned();
    let at = json::At::Root;
    let grammar = format.and_then(|format| {
        let mut format = json::Object::read_str(format, &at).ok()?;
        let syntax = format.opt_text(&at, "syntax").ok().flatten();
        Some((syntax, format.opt_text(&at, "definition").ok()??))
    });
    if let Some((syntax, definition)) = grammar {
        let syntax = syntax.as_deref().unwrap_or("lark");
        text.push_str(&format!("\n\n`input` must match this {syntax} grammar:\n{definition}"));
    }
    let parameters = "{\"type\":\"object\",\"properties\":{\"input\":{\"type\":\"string\",\"description\":\"The \
                      whole input of the tool, as plain text.\"}},\"required\":[\"input\"],\
                      \"additionalProperties\":false}";
    (text, parameters.to_owned())
}

/// The arguments of a call as a JSON object: as they are, or under `input` or `arguments` where they are none.
pub(crate) fn arguments(input: &str, is_text: bool) -> Cow<'_, str> {
    let name = match (is_text, input.trim_ascii()) {
        (true, _) => "input",
        (false, "") => return Cow::Borrowed("{}"),
        (false, text) if json::is_object(text) => return Cow::Borrowed(input),
        (false, _) => "arguments",
    };
    let mut out = String::with_capacity(input.len() + 16);
    json::object(&mut out, |object| object.text(name, input));
    Cow::Owned(out)
}
