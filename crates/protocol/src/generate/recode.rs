//! Reads a message into its type and writes it again, for tests.

use serde_json::Value;

use super::surface::Surface;
use crate::message_schema::{MessageSchema, SchemaError};

/// Decodes parameters of a method or notification of either side into their type and encodes them again.
///
/// # Errors
/// If they do not fit the type, or the name is unknown.
pub fn recode_params(method: &str, params: &Value) -> Result<Value, SchemaError> {
    (message(method)?.params.recode)(&params.to_string())
}

/// Decodes a result of a method of either side into its type and encodes it again.
///
/// # Errors
/// As for [`recode_params`].
pub fn recode_result(method: &str, result: &Value) -> Result<Value, SchemaError> {
    let part = message(method)?.result.as_ref().ok_or_else(|| {
        SchemaError::unknown_name(format!("`{method}` is a notification: it has no result"))
    })?;
    (part.recode)(&result.to_string())
}

fn message(method: &str) -> Result<&'static MessageSchema, SchemaError> {
    let message = Surface::cached().messages().find(|message| message.method == method);
    message.ok_or_else(|| SchemaError::unknown_name(format!("no message is named `{method}`")))
}
