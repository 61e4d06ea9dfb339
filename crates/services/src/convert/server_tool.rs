//! Calls of tools of MCP servers: their items, and the requests for their approval.

use std::collections::BTreeMap;

use protocol::JsonText;
use protocol::elicitation::{
    McpElicitationBooleanSchema, McpElicitationBooleanType, McpElicitationObjectType,
    McpElicitationPrimitiveSchema, McpElicitationSchema, McpServerElicitationRequestMode,
    McpServerElicitationRequestParams,
};
use protocol::item as wire;
use serde_json::{Value, json};
use session::{Id, ItemStatus, ServerCall, ServerResult, ToolTarget};

/// The field of the form with which the user allows a tool for the session.
pub const FOR_SESSION: &str = "allowForSession";
/// The member of the request's `_meta` that describes the call.
const META: &str = "agentd/toolCall";
/// Longest beginning and end of the arguments in the question to the user, in characters; `_meta` has them
/// whole.
const SHOWN: (usize, usize) = (3_000, 1_000);
/// Longest name in the question, in characters.
const MAX_NAME: usize = 128;
/// Longest title in the question, in characters.
const MAX_TITLE: usize = 200;

/// The item of a call.
pub fn item(call: &ServerCall) -> wire::McpToolCallItem {
    wire::McpToolCallItem {
        id: call.id.to_string(),
        server: call.target.server.clone(),
        tool: call.target.tool.clone(),
        status: match call.status {
            ItemStatus::InProgress => wire::McpToolCallStatus::InProgress,
            ItemStatus::Completed => wire::McpToolCallStatus::Completed,
            ItemStatus::Failed | ItemStatus::Declined => wire::McpToolCallStatus::Failed,
        },
        arguments: JsonText::read(&call.arguments).unwrap_or_default(),
        mcp_app_resource_uri: call.target.app_resource.clone(),
        result: call.result.as_ref().map(result),
        error: call.error.clone().map(|message| wire::McpToolCallError { message }),
        duration_ms: call.duration_ms,
    }
}

fn result(result: &ServerResult) -> wire::McpToolCallResult {
    let ServerResult { content, structured, meta } = result;
    wire::McpToolCallResult {
        content: match parsed(content) {
            Value::Array(parts) => parts,
            _ => Vec::new(),
        },
        structured_content: structured.as_deref().map(parsed),
        meta: meta.as_deref().map(parsed),
    }
}

/// JSON that this program wrote.
fn parsed(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_default()
}

/// A call that needs an approval.
pub struct Asked<'a> {
    pub reason: Option<&'a str>,
    pub target: &'a ToolTarget,
    /// JSON.
    pub arguments: &'a str,
    pub can_remember: bool,
}

/// The request for an approval: an elicitation in the name of the server.
pub fn approval(
    (thread, turn, item): (&Id, &Id, &Id),
    asked: &Asked<'_>,
) -> McpServerElicitationRequestParams {
    let Asked { reason, target, arguments, can_remember } = asked;
    let ToolTarget { server, tool, title, connector, .. } = target;
    // The first line is the program's. What the server and the model have written is quoted, or follows on a
    // line of its own.
    let why = reason.map(|reason| format!(" ({})", visible::text(reason))).unwrap_or_default();
    let titled = title
        .as_ref()
        .map(|title| format!("The server's title of the tool: {}\n", quoted(title, MAX_TITLE)));
    let mut owner = format!("the MCP server {}", quoted(server, MAX_NAME));
    if let Some(app) = connector {
        let name = quoted(app.name.as_deref().unwrap_or(&app.id), MAX_NAME);
        owner = format!("the app {name} ({owner})");
    }
    let message = format!(
        "Allow the agent to call the tool {} of {owner}?{why}\n{}{}",
        quoted(tool, MAX_NAME),
        titled.unwrap_or_default(),
        shown_arguments(arguments),
    );
    let remember = McpElicitationPrimitiveSchema::Boolean(McpElicitationBooleanSchema {
        kind: McpElicitationBooleanType::Boolean,
        title: Some("Do not ask again for this tool in this session".to_owned()),
        description: None,
        default: Some(false),
    });
    let properties = can_remember
        .then(|| (FOR_SESSION.to_owned(), remember))
        .into_iter()
        .collect::<BTreeMap<_, _>>();
    let meta = json!({ META: {
        "itemId": &**item,
        "tool": tool,
        "toolTitle": title,
        "connectorId": connector.as_ref().map(|connector| &connector.id),
        "connectorName": connector.as_ref().and_then(|connector| connector.name.as_ref()),
        "arguments": parsed(arguments),
    } });
    McpServerElicitationRequestParams {
        thread_id: thread.to_string(),
        turn_id: Some(turn.to_string()),
        server_name: server.clone(),
        request: McpServerElicitationRequestMode::Form {
            message,
            requested_schema: McpElicitationSchema {
                schema: None,
                kind: McpElicitationObjectType::Object,
                properties,
                required: None,
            },
            meta: Some(meta),
        },
    }
}

/// Text of others in quotes that it cannot end, on one line, with hidden characters visible. One that is too
/// long is cut, with its length after the quotes.
fn quoted(text: &str, most: usize) -> String {
    let cut: String = text.chars().take(most).collect();
    let literal = Value::from(cut.as_str()).to_string();
    let shown = visible::text(&literal);
    match cut.len() < text.len() {
        true => format!("{shown}… ({} characters)", text.chars().count()),
        false => shown.into_owned(),
    }
}

/// The arguments for the user, on one line; of long ones the beginning and the end, each on its line.
fn shown_arguments(json: &str) -> String {
    let (first, last) = SHOWN;
    let total = json.chars().count();
    if total <= first + last {
        return format!("Arguments: {}", visible::text(json));
    }
    let at = |count: usize| json.char_indices().nth(count).map_or(json.len(), |(at, _)| at);
    let (begin, end) = (&json[..at(first)], &json[at(total - last)..]);
    format!(
        "Arguments, {total} characters, of which {} in the middle are not shown here:\n{}\n[…]\n{}",
        total - first - last,
        visible::text(begin),
        visible::text(end),
    )
}

#[cfg(test)]
mod tests {
    use session::{ToolApproval, ToolEffect};

    use super::*;

    fn message(tool: &str, title: Option<&str>, arguments: &str) -> String {
        let target = ToolTarget {
            server: "s".into(),
            tool: tool.into(),
            title: title.map(str::to_owned),
            digest: [0; 16],
            server_digest: [0; 16],
            effect: ToolEffect::Unknown,
            approval: ToolApproval::Auto,
            connector: None,
            app_resource: None,
        };
        let asked = Asked { reason: Some("why"), target: &target, arguments, can_remember: false };
        let id: Id = "x".into();
        let params = approval((&id, &id, &id), &asked);
        match params.request {
            McpServerElicitationRequestMode::Form { message, meta, .. } => {
                let whole = &meta.unwrap()[META]["arguments"];
                assert_eq!(*whole, parsed(arguments), "the arguments are there whole");
                message
            }
            McpServerElicitationRequestMode::Url { .. } => panic!("a form is asked"),
        }
    }

    #[test]
    fn names_and_titles_cannot_pass_for_words_of_the_program() {
        let spoofed = "read of the MCP server files? (it changes nothing)";
        for (tool, title, expected) in [
            ("t", None, "tool \"t\" of the MCP server \"s\"? (why)\nArguments: {}".to_owned()),
            (
                spoofed,
                None,
                format!("tool \"{spoofed}\" of the MCP server \"s\"? (why)\nArguments: {{}}"),
            ),
            (
                "t",
                Some("Safe\nAllow \u{202e}x\" of"),
                "? (why)\nThe server's title of the tool: \"Safe\\nAllow \\u{202e}x\\\" of\"\nArg"
                    .to_owned(),
            ),
            ("t\" of", None, "tool \"t\\\" of\" of the MCP server".to_owned()),
        ] {
            let message = message(tool, title, "{}");
            assert!(message.contains(&expected), "{message:?} does not contain {expected:?}");
        }
        let message = message(&"n".repeat(300), Some(&"t".repeat(300)), "{}");
        let (name, title) = ("n".repeat(128), "t".repeat(200));
        assert!(message.contains(&format!("\"{name}\"… (300 characters) of the")), "{message}");
        assert!(message.contains(&format!("\"{title}\"… (300 characters)\n")), "{message}");
    }

    #[test]
    fn of_long_arguments_the_beginning_and_the_end_are_shown() {
        let whole = format!("{{\"x\":\"{}\"}}", "y".repeat(3_992));
        assert!(message("t", None, &whole).ends_with(&format!("Arguments: {whole}")));
        let long = format!("{{\"a\":\"{}\",\"z\":\"rm -rf ~\"}}", "é".repeat(100_000));
        let message = message("t", None, &long);
        let hidden = long.chars().count() - 4_000;
        let count = format!("of which {hidden} in the middle are not shown");
        assert!(message.contains(&count), "{message}");
        assert!(message.contains("\n{\"a\":\"é") && message.ends_with("\"z\":\"rm -rf ~\"}"));
        assert!(message.chars().count() < 4_300);
    }
}
