//! The rules of the Gemini API: roles, responses for each function call, signatures of thoughts, declarations.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::fault::{Fault, Path, Problem};
use super::gemini_shape as shapes;
use super::shape::Walk;
use crate::signature;

/// Taken for the signature of a call that another model made.
const NO_SIGNATURES: [&str; 2] =
    ["skip_thought_signature_validator", "context_engineering_is_the_way_to_go"];

/// The members of a part, one of which it has.
const DATA: [&str; 7] = [
    "text",
    "inlineData",
    "fileData",
    "functionCall",
    "functionResponse",
    "executableCode",
    "codeExecutionResult",
];

/// Members whose own members are names of the caller, or JSON Schema.
const FOREIGN: [&str; 8] = [
    "args",
    "response",
    "parameters",
    "parametersJsonSchema",
    "parameters_json_schema",
    "responseSchema",
    "responseJsonSchema",
    "labels",
];

/// A body with its members in camel case: the API takes both.
pub(crate) fn in_camel_case(value: Value) -> Value {
    match value {
        Value::Array(values) => values.into_iter().map(in_camel_case).collect(),
        Value::Object(members) => {
            let renamed = members.into_iter().map(|(name, value)| {
                let is_foreign = FOREIGN.contains(&name.as_str());
                let value = if is_foreign { value } else { in_camel_case(value) };
                (camel_case(&name), value)
            });
            Value::Object(renamed.collect::<Map<_, _>>())
        }
        other => other,
    }
}

/// `functionCall` for `function_call`.
fn camel_case(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut is_next = false;
    for c in name.chars() {
        match c {
            '_' => is_next = true,
            c if is_next => {
                out.push(c.to_ascii_uppercase());
                is_next = false;
            }
            c => out.push(c),
        }
    }
    out
}

/// Checks a request whose members are in camel case.
pub(super) fn check(body: &Value, model: &str) -> Result<(), Fault> {
    Walk::default().shape(body, &shapes::BODY)?;
    check_tools(body)?;
    check_config(&body["generationConfig"])?;
    check_contents(body["contents"].as_array().map(Vec::as_slice).unwrap_or_default(), model)
}

fn check_tools(body: &Value) -> Result<(), Fault> {
    let mut names: Vec<&str> = Vec::new();
    for (index, tool) in body["tools"].as_array().into_iter().flatten().enumerate() {
        let at = Path::of("tools").index(index).name("functionDeclarations");
        let functions = tool["functionDeclarations"].as_array().into_iter().flatten();
        for (index, function) in functions.enumerate() {
            let at = at.index(index);
            let name = function["name"].as_str().unwrap_or_default();
            if !is_function_name(name) {
                let message = "Invalid function name. Must start with a letter or an underscore. Must be alphanumeric \
                               (a-z, A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes (-), with a maximum \
                               length of 64.";
                return Err(Fault::rule(at.name("name"), message));
            }
            if names.contains(&name) {
                let message = format!("Duplicate function declaration found: {name}");
                return Err(Fault::rule(at.name("name"), message));
            }
            if !function["parameters"].is_null() && !function["parametersJsonSchema"].is_null() {
                let message = "parameters and parametersJsonSchema must not both be set";
                return Err(Fault::rule(at, message));
            }
            names.push(name);
        }
    }
    let config = &body["toolConfig"]["functionCallingConfig"];
    let at = Path::of("toolConfig").name("functionCallingConfig");
    let allowed = config["allowedFunctionNames"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !allowed.is_empty() && !matches!(config["mode"].as_str(), Some("ANY" | "VALIDATED")) {
        let message = "allowed_function_names should only be set when function_calling_config mode is ANY or VALIDATED";
        return Err(Fault::rule(at.name("allowedFunctionNames"), message));
    }
    for (index, name) in allowed.iter().enumerate() {
        if !names.iter().any(|known| name == known) {
            let message =
                format!("allowed_function_names has {name}, which is no declared function");
            return Err(Fault::rule(at.name("allowedFunctionNames").index(index), message));
        }
    }
    if config["mode"] == "ANY" && names.is_empty() {
        let message = "Function calling config is set without function_declarations.";
        return Err(Fault::rule(at.name("mode"), message));
    }
    Ok(())
}

fn is_function_name(name: &str) -> bool {
    let is_first = |c: char| c.is_ascii_alphabetic() || c == '_';
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "_.:-".contains(c);
    name.starts_with(is_first) && name.len() <= 64 && name.chars().all(is_allowed)
}

fn check_config(config: &Value) -> Result<(), Fault> {
    let at = Path::of("generationConfig");
    for name in ["maxOutputTokens", "candidateCount"] {
        if config[name] == 0 {
            return Err(Fault::rule(at.name(name), format!("{name} must be positive.")));
        }
    }
    let has_schema = ["responseSchema", "responseJsonSchema"].map(|name| !config[name].is_null());
    if has_schema == [true, true] {
        let message = "response_schema and response_json_schema must not both be set";
        return Err(Fault::rule(at.name("responseSchema"), message));
    }
    if has_schema.contains(&true)
        && !matches!(config["responseMimeType"].as_str(), Some("application/json" | "text/x.enum"))
    {
        let message = "response_schema is only allowed with response_mime_type: application/json";
        return Err(Fault::rule(at.name("responseMimeType"), message));
    }
    let thinking = &config["thinkingConfig"];
    if !thinking["thinkingBudget"].is_null() && !thinking["thinkingLevel"].is_null() {
        let message = "You can only set only one of thinking budget and thinking level.";
        return Err(Fault::rule(at.name("thinkingConfig"), message));
    }
    Ok(())
}

/// A call that waits for its response.
struct Open<'v> {
    id: Option<&'v str>,
    name: &'v str,
}

fn check_contents(contents: &[Value], model: &str) -> Result<(), Fault> {
    if contents.is_empty() {
        return Err(Fault::new(Path::of("contents"), Problem::Missing));
    }
    let mut open: Vec<Open<'_>> = Vec::new();
    let current = contents.iter().rposition(is_users_word).unwrap_or_default();
    let mut role_before = "";
    for (index, content) in contents.iter().enumerate() {
        let at = Path::of("contents").index(index);
        let role = content["role"].as_str().unwrap_or("user");
        if !matches!(role, "user" | "model" | "function") {
            return Err(Fault::rule(at.name("role"), "Please use a valid role: user, model."));
        }
        let parts = content["parts"].as_array().map(Vec::as_slice).unwrap_or_default();
        if parts.is_empty() {
            let message = "contents.parts must not be empty.";
            return Err(Fault::rule(at.name("parts"), message));
        }
        check_parts(parts, role, &at.name("parts"))?;
        let is_model = role == "model";
        let calls = of(parts, "functionCall");
        let responses = of(parts, "functionResponse");
        if !open.is_empty() || !responses.is_empty() {
            check_responses(&mut open, &responses, &at)?;
        }
        if !calls.is_empty() && (role_before == "model" || index == 0) {
            let message = "Please ensure that function call turn comes immediately after a user turn or after a \
                           function response turn.";
            return Err(Fault::rule(at, message));
        }
        if is_model {
            check_signatures(parts, &at.name("parts"), model, index > current)?;
        }
        open = calls
            .iter()
            .map(|(_, call)| Open {
                id: call["id"].as_str(),
                name: call["name"].as_str().unwrap_or_default(),
            })
            .collect();
        role_before = if is_model { "model" } else { "user" };
    }
    if role_before == "model" {
        let message = "Please ensure that single turn requests end with a user role or the role field is empty.";
        return Err(Fault::rule(
            Path::of("contents").index(contents.len() - 1).name("role"),
            message,
        ));
    }
    Ok(())
}

/// The user speaks, and does not only answer calls: a turn begins.
fn is_users_word(content: &Value) -> bool {
    let parts = content["parts"].as_array().map(Vec::as_slice).unwrap_or_default();
    content["role"] != "model" && of(parts, "functionResponse").is_empty()
}

fn of<'v>(parts: &'v [Value], name: &str) -> Vec<(usize, &'v Value)> {
    let with = parts.iter().enumerate().map(|(index, part)| (index, &part[name]));
    with.filter(|(_, value)| !value.is_null()).collect()
}

fn check_parts(parts: &[Value], role: &str, at: &Path) -> Result<(), Fault> {
    for (index, part) in parts.iter().enumerate() {
        let at = at.index(index);
        let given = DATA.iter().filter(|name| !part[**name].is_null()).count();
        if given != 1 {
            let message = "required oneof field 'data' must have one initialized field";
            return Err(Fault::rule(at.name("data"), message));
        }
        let is_misplaced = (role == "model" && !part["functionResponse"].is_null())
            || (role != "model" && !part["functionCall"].is_null());
        if is_misplaced {
            let message =
                "function calls are parts of the role model, function responses of the role user";
            return Err(Fault::rule(at, message));
        }
        if let Some(data) = part["inlineData"]["data"].as_str()
            && STANDARD.decode(data.replace('-', "+").replace('_', "/")).is_err()
        {
            let message = "Base64 decoding failed";
            return Err(Fault::rule(at.name("inlineData").name("data"), message));
        }
    }
    Ok(())
}

/// The responses answer the calls of the content before them, each once.
fn check_responses(
    open: &mut Vec<Open<'_>>,
    responses: &[(usize, &Value)],
    at: &Path,
) -> Result<(), Fault> {
    if open.len() != responses.len() {
        let message = "Please ensure that the number of function response parts is equal to the number of function \
                       call parts of the function call turn.";
        return Err(Fault::rule(at.clone(), message));
    }
    for (index, response) in responses {
        let (id, name) = (response["id"].as_str(), response["name"].as_str().unwrap_or_default());
        let found = open.iter().position(|call| match (id, call.id) {
            (Some(id), Some(of)) => id == of && call.name == name,
            _ => call.name == name,
        });
        let Some(found) = found else {
            let at = at.name("parts").index(*index).name("functionResponse");
            let message = format!(
                "function response of `{name}` answers no function call of the turn before it"
            );
            return Err(Fault::rule(at, message));
        };
        open.remove(found);
    }
    Ok(())
}

/// In the current turn, the first call of a content has a signature; any signature is one of this server.
fn check_signatures(
    parts: &[Value],
    at: &Path,
    model: &str,
    is_current: bool,
) -> Result<(), Fault> {
    let is_older = model.contains("gemini-1") || model.contains("gemini-2");
    let first = parts.iter().position(|part| !part["functionCall"].is_null());
    for (index, part) in parts.iter().enumerate() {
        let at = at.index(index);
        match part["thoughtSignature"].as_str() {
            None if is_current && !is_older && Some(index) == first => {
                let name = part["functionCall"]["name"].as_str().unwrap_or_default();
                let message = format!(
                    "Function call is missing a thought_signature in functionCall parts. This is required for tools to \
                     work correctly, and missing thought_signature may lead to degraded model performance. Additional \
                     data, function call `{name}`, position {}.",
                    index + 1
                );
                return Err(Fault::rule(at, message));
            }
            None => {}
            Some(signature) if NO_SIGNATURES.contains(&signature) => {}
            Some(signature) if signature::is_of_thought(model, signature) => {}
            Some(_) => {
                return Err(Fault::rule(
                    at.name("thoughtSignature"),
                    "Thought signature is not valid.",
                ));
            }
        }
    }
    Ok(())
}
