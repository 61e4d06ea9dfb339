//! Questions of MCP servers and of the agent as `elicitation/create`, and the answers to them.

use protocol::{ToolRequestUserInputParams, ToolRequestUserInputQuestion};
use serde_json::{Map, Value, json};

use crate::schema::permission::ElicitationResponse;

/// A form of an MCP server in the shape that clients read: titles of values stand next to the values.
pub(crate) fn schema(mut schema: Value) -> Value {
    let Some(members) = schema.as_object_mut() else { return schema };
    members.shift_remove("$schema");
    let properties = members.get_mut("properties").and_then(Value::as_object_mut);
    for property in properties.into_iter().flat_map(|all| all.values_mut()) {
        let Some(property) = property.as_object_mut() else { continue };
        let Some(Value::Array(titles)) = property.shift_remove("enumNames") else { continue };
        let Some(Value::Array(values)) = property.shift_remove("enum") else { continue };
        let options = values
            .iter()
            .enumerate()
            .map(|(at, value)| json!({ "const": value, "title": titles.get(at).unwrap_or(value) }));
        property.insert("oneOf".to_owned(), options.collect());
    }
    schema
}

/// The answer to an MCP server's question.
pub(crate) fn answer(response: &ElicitationResponse) -> Value {
    match response.action.as_str() {
        "accept" => json!({
            "action": "accept",
            "content": response.content.clone().unwrap_or_else(|| json!({})),
        }),
        "decline" => json!({ "action": "decline" }),
        // Unknown actions are no consent.
        _ => json!({ "action": "cancel" }),
    }
}

/// The agent's questions as a message and a form.
///
/// # Errors
/// They cannot be asked in a form, and why.
pub(crate) fn questions(params: &ToolRequestUserInputParams) -> Result<(String, Value), String> {
    if params.questions.iter().any(|question| question.is_secret) {
        return Err("a form must not ask for a secret".to_owned());
    }
    let mut message = "The agent asks:".to_owned();
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for question in &params.questions {
        message.push_str(&format!("\n\n{}", visible::text(&question.question)));
        properties.insert(question.id.clone(), field(question, &mut message));
        required.push(Value::from(question.id.as_str()));
    }
    Ok((message, json!({ "type": "object", "properties": properties, "required": required })))
}

fn field(question: &ToolRequestUserInputQuestion, message: &mut String) -> Value {
    let mut field = json!({
        "type": "string",
        "title": visible::text(&question.header),
        "description": visible::text(&question.question),
    });
    let options = question.options.as_deref().unwrap_or_default();
    if options.is_empty() {
        return field;
    }
    if question.is_other {
        // Any text is an answer, so that the options are proposals.
        for option in options {
            let (label, about) = (visible::text(&option.label), visible::text(&option.description));
            message.push_str(&format!("\n- {label}: {about}"));
        }
        return field;
    }
    let choice = |option: &protocol::ToolRequestUserInputOption| {
        let title = visible::text(&option.label);
        json!({
            "const": option.label,
            "title": title,
            "description": visible::text(&option.description),
        })
    };
    field["oneOf"] = options.iter().map(choice).collect();
    field
}

/// The answers for the agent; without consent there are none.
pub(crate) fn answers(
    params: &ToolRequestUserInputParams,
    response: &ElicitationResponse,
) -> Value {
    let content = response.content.as_ref().filter(|_| response.action == "accept");
    let given = |question: &ToolRequestUserInputQuestion| {
        let text = content?.get(&question.id)?.as_str()?;
        Some((question.id.clone(), json!({ "answers": [text] })))
    };
    let answers: Map<String, Value> = params.questions.iter().filter_map(given).collect();
    json!({ "answers": answers })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(value: Value) -> ElicitationResponse {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_form_keeps_its_fields() {
        let form = json!({ "$schema": "x", "type": "object", "properties": {
            "a": { "type": "string", "enum": ["1", "2"], "enumNames": ["One"] },
            "b": { "type": "boolean" },
        } });
        let expect = json!({ "type": "object", "properties": {
            "a": { "type": "string", "oneOf": [
                { "const": "1", "title": "One" }, { "const": "2", "title": "2" } ] },
            "b": { "type": "boolean" },
        } });
        assert_eq!(schema(form), expect);
    }

    #[test]
    fn only_an_explicit_consent_accepts() {
        let check = |given: Value, expect: Value| assert_eq!(answer(&response(given)), expect);
        let content = json!({ "a": 1 });
        check(
            json!({ "action": "accept", "content": content }),
            json!({ "action": "accept", "content": content }),
        );
        check(json!({ "action": "accept" }), json!({ "action": "accept", "content": {} }));
        check(json!({ "action": "decline", "content": content }), json!({ "action": "decline" }));
        check(json!({ "action": "_other" }), json!({ "action": "cancel" }));
    }

    #[test]
    fn questions_of_the_agent() {
        let question = |id: &str, is_other: bool, is_secret: bool| {
            json!({ "id": id, "header": "H", "question": "Which?", "isOther": is_other,
                "isSecret": is_secret, "options": [{ "label": "L", "description": "D" }] })
        };
        let params = |questions: Value| -> ToolRequestUserInputParams {
            let params =
                json!({ "threadId": "t", "turnId": "u", "itemId": "i", "questions": questions });
            serde_json::from_value(params).unwrap()
        };
        let asked = params(json!([question("a", false, false), question("b", true, false)]));
        let (message, form) = questions(&asked).unwrap();
        assert!(message.ends_with("Which?\n- L: D"), "{message}");
        assert_eq!(form["properties"]["a"]["oneOf"][0]["const"], "L");
        assert_eq!(form["properties"]["b"].get("oneOf"), None);
        assert_eq!(form["required"], json!(["a", "b"]));
        let given = response(json!({ "action": "accept", "content": { "a": "L", "b": 5 } }));
        assert_eq!(answers(&asked, &given), json!({ "answers": { "a": { "answers": ["L"] } } }));
        let declined = response(json!({ "action": "decline", "content": { "a": "L" } }));
        assert_eq!(answers(&asked, &declined), json!({ "answers": {} }));
        assert!(questions(&params(json!([question("a", false, true)]))).is_err());
    }
}
