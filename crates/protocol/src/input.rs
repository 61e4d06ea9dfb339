//! The user's input of a turn.

use serde::{Deserialize, Serialize};

use crate::wire;

/// One part of a turn's input (specification, "Turn input items").
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum UserInput {
    /// Plain text; `$name` invokes a skill.
    Text {
        text: String,
        #[serde(
            alias = "textElements",
            default,
            deserialize_with = "wire::or_default",
            skip_serializing_if = "Vec::is_empty"
        )]
        text_elements: Vec<TextElement>,
    },
    /// An image by URL, `data:` included.
    Image { url: String },
    /// An image file.
    LocalImage { path: String },
    /// A skill and its definition file.
    Skill { name: String, path: String },
    /// A named resource.
    Mention { name: String, path: String },
}

impl From<&str> for UserInput {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

impl From<String> for UserInput {
    fn from(text: String) -> Self {
        Self::Text { text, text_elements: Vec::new() }
    }
}

/// A span of the text with a special meaning.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TextElement {
    pub byte_range: ByteRange,
    /// Text to display instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placeholder: Option<String>,
}

/// Byte offsets; the end is exclusive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ByteRange {
    pub start: u64,
    pub end: u64,
}
