//! Schemas of the tools of MCP servers: one is refused with a reason, or becomes one that hosted model
//! APIs take, which then stays as it is.

use mcp::schema::{MAX_BYTES, for_model};
use serde_json::Value;

use crate::input::text;

/// Checks one input.
pub fn run(bytes: &[u8]) {
    let text = text(bytes);
    let Ok(schema) = serde_json::from_str::<Value>(text) else { return };
    match for_model(&schema) {
        Ok(repaired) => {
            assert_eq!(repaired["type"], "object");
            assert!(repaired["properties"].is_object());
            for refused in
                ["anyOf", "oneOf", "allOf", "not", "enum", "const", "$ref", "$schema", "$id"]
            {
                assert!(repaired.get(refused).is_none(), "`{refused}`");
            }
            assert!(repaired.to_string().len() <= MAX_BYTES);
            assert_eq!(for_model(&repaired), Ok(repaired));
        }
        Err(reason) => assert!(!reason.is_empty()),
    }
}
