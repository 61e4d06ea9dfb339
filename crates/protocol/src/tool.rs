//! Tools that the client provides, and questions for the user.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};

use crate::json_text::JsonText;
use crate::table::server_requests;
use crate::wire;

server_requests! {
    /// Runs a tool that the client provides.
    ItemToolCall = "item/tool/call",
        DynamicToolCallParams => DynamicToolCallResponse, Experimental;

    /// Asks the user one to three questions.
    ItemToolRequestUserInput = "item/tool/requestUserInput",
        ToolRequestUserInputParams => ToolRequestUserInputResponse, Experimental;
}

/// A tool that the client runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DynamicToolSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Begins the description of the tool. Shared by the tools of the namespace, because a client can give it as
    /// many as fit into a message.
    #[serde(skip)]
    pub namespace_description: Option<Arc<str>>,
    pub name: String,
    pub description: String,
    /// JSON Schema of the arguments.
    pub input_schema: JsonText,
    /// Offers the tool to the model only in search results.
    #[serde(
        default,
        deserialize_with = "wire::or_default",
        skip_serializing_if = "wire::is_false"
    )]
    pub defer_loading: bool,
}

/// A tool or a group of them as clients write it: flat, or as a variant `function` or `namespace`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolEntry {
    #[serde(rename = "type", default, deserialize_with = "wire::or_default")]
    kind: ToolEntryKind,
    #[serde(default)]
    namespace: Option<String>,
    name: String,
    #[serde(default)]
    description: Option<String>,
    /// Null is a schema too, which is refused with the others that are no objects.
    #[serde(default, deserialize_with = "wire::present")]
    input_schema: Option<JsonText>,
    #[serde(default, deserialize_with = "wire::or_default")]
    defer_loading: bool,
    #[serde(default)]
    tools: Option<Vec<ToolEntry>>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum ToolEntryKind {
    #[default]
    Function,
    Namespace,
}

impl ToolEntry {
    /// The tools of an entry.
    fn tools<E: serde::de::Error>(self) -> Result<Vec<DynamicToolSpec>, E> {
        if self.kind == ToolEntryKind::Function {
            return self.tool().map(|tool| vec![tool]);
        }
        let tools = self.tools.ok_or_else(|| E::missing_field("tools"))?;
        let about = self.description.filter(|text| !text.is_empty()).map(Arc::<str>::from);
        let in_namespace = |entry: Self| {
            if entry.kind == ToolEntryKind::Namespace {
                return Err(E::custom(format!(
                    "the namespace `{}` cannot have a namespace, `{}`",
                    self.name, entry.name
                )));
            }
            let (namespace, about) = (Some(self.name.clone()), about.clone());
            Ok(DynamicToolSpec { namespace, namespace_description: about, ..entry.tool()? })
        };
        tools.into_iter().map(in_namespace).collect()
    }

    fn tool<E: serde::de::Error>(self) -> Result<DynamicToolSpec, E> {
        Ok(DynamicToolSpec {
            namespace: self.namespace,
            namespace_description: None,
            name: self.name,
            description: self.description.ok_or_else(|| E::missing_field("description"))?,
            input_schema: self.input_schema.ok_or_else(|| E::missing_field("inputSchema"))?,
            defer_loading: self.defer_loading,
        })
    }
}

/// Decodes the tools that a client defines, in any of the forms of [`ToolEntry`].
pub(crate) fn specs<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<DynamicToolSpec>>, D::Error> {
    /// The tools of one entry; they are made while it is read, so that an error has its position.
    struct Tools(Vec<DynamicToolSpec>);

    impl<'de> Deserialize<'de> for Tools {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            ToolEntry::deserialize(deserializer)?.tools().map(Self)
        }
    }

    let entries: Option<Vec<Tools>> = Option::deserialize(deserializer)?;
    Ok(entries.map(|entries| entries.into_iter().flat_map(|tools| tools.0).collect()))
}

/// Parameters of `item/tool/call`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DynamicToolCallParams {
    pub thread_id: String,
    pub turn_id: String,
    pub call_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub tool: String,
    pub arguments: JsonText,
}

/// The client's response to `item/tool/call`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DynamicToolCallResponse {
    pub content_items: Vec<DynamicToolCallOutputContentItem>,
    pub success: bool,
}

/// Output of a dynamic tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum DynamicToolCallOutputContentItem {
    InputText { text: String },
    InputImage { image_url: String },
}

/// Parameters of `item/tool/requestUserInput`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolRequestUserInputParams {
    pub thread_id: String,
    pub turn_id: String,
    pub item_id: String,
    pub questions: Vec<ToolRequestUserInputQuestion>,
}

/// A question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolRequestUserInputQuestion {
    pub id: String,
    pub header: String,
    pub question: String,
    /// Allows a free-form answer.
    #[serde(default, deserialize_with = "wire::or_default")]
    pub is_other: bool,
    /// Hides the typed text.
    #[serde(default, deserialize_with = "wire::or_default")]
    pub is_secret: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<Vec<ToolRequestUserInputOption>>,
}

/// A predefined answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ToolRequestUserInputOption {
    pub label: String,
    pub description: String,
}

/// The client's response to `item/tool/requestUserInput`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolRequestUserInputResponse {
    /// Answers by question id.
    pub answers: BTreeMap<String, ToolRequestUserInputAnswer>,
}

/// Answers to one question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolRequestUserInputAnswer {
    pub answers: Vec<String>,
}
