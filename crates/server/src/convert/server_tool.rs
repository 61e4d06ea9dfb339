//! Calls of tools of MCP servers: their items, and the requests for their approval.

use std::collections::BTreeMap;

use protocol::elicitation::{
    McpElicitationBooleanSchema, McpElicitationBooleanType, McpElicitationObjectType,
    McpElicitationPrimitiveSchema, McpElicitationSchema, McpServerElicitationRequestMode,
    McpServerElicitationRequestParams,
};
use protocol::item as wire;
use serde_json::{Value, json};
use session::{Id, ItemStatus, ServerCall, ServerResult, ToolTarget};

/// The field of the form with which the user allows a tool for the session.
pub(crate) const FOR_SESSION: &str = "allowForSession";
/// What describes the call in the request's `_meta`.
const META: &str = "agentd/toolCall";
/// Longest arguments in the question to the user, in bytes; `_meta` has them whole.
const MAX_SHOWN: usize = 4_000;

/// The item of a call.
pub(crate) fn item(call: &ServerCall) -> wire::McpToolCallItem {
    wire::McpToolCallItem {
        id: call.id.to_string(),
        server: call.target.server.clone(),
        tool: call.target.tool.clone(),
        status: match call.status {
            ItemStatus::InProgress => wire::McpToolCallStatus::InProgress,
            ItemStatus::Completed => wire::McpToolCallStatus::Completed,
            ItemStatus::Failed | ItemStatus::Declined => wire::McpToolCallStatus::Failed,
        },
        arguments: parsed(&call.arguments),
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
pub(crate) struct Asked<'a> {
    pub(crate) reason: Option<&'a str>,
    pub(crate) target: &'a ToolTarget,
    /// JSON.
    pub(crate) arguments: &'a str,
    pub(crate) can_remember: bool,
}

/// The request for an approval: an elicitation in the name of the server.
pub(crate) fn approval(
    (thread, turn, item): (&Id, &Id, &Id),
    asked: &Asked<'_>,
) -> McpServerElicitationRequestParams {
    let Asked { reason, target, arguments, can_remember } = asked;
    let ToolTarget { server, tool, title, connector, .. } = target;
    let shown = |text: &str| visible::text(text).into_owned();
    let named = match title {
        Some(title) => format!("{} ({})", shown(tool), shown(title)),
        None => shown(tool),
    };
    let mut written = shown(arguments);
    if written.len() > MAX_SHOWN {
        written.truncate(written.floor_char_boundary(MAX_SHOWN));
        written.push('…');
    }
    let why = reason.map(|reason| format!(" ({})", shown(reason))).unwrap_or_default();
    let mut owner = format!("the MCP server {}", shown(server));
    if let Some(app) = connector {
        let name = shown(app.name.as_deref().unwrap_or(&app.id));
        owner = format!("the app {name} ({owner})");
    }
    let message =
        format!("Allow the agent to call the tool {named} of {owner}?{why}\nArguments: {written}");
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
