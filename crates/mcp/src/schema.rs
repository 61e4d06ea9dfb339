//! The schema of a tool's arguments as hosted model APIs take it. A schema that they take stays as it
//! is. What they refuse is replaced by the nearest schema that allows more, so no call that the server
//! accepts becomes impossible; the arguments of a call reach the server as the model gave them. A tool
//! that no arguments fit is refused with the reason.

mod keywords;
mod pattern;
mod references;
mod union;

use serde_json::{Value, json};

use keywords::Keywords;
use references::{DEFINITIONS, Object, References};

/// Bytes of the result as JSON: each request to the model has it.
pub const MAX_BYTES: usize = 64 << 10;

/// Members of the top that hosted APIs refuse there.
const REFUSED_AT_TOP: [&str; 8] =
    ["anyOf", "oneOf", "allOf", "not", "enum", "const", "unevaluatedProperties", "$ref"];

/// The schema for models of arguments that `schema` describes.
///
/// # Errors
/// Why no schema can be made, as the end of "the tool …".
pub fn for_model(schema: &Value) -> Result<Value, String> {
    let Value::Object(schema) = schema else {
        return Err("has no object as its `inputSchema`".to_owned());
    };
    let refused = || "has an `inputSchema` that no object fits, and arguments are one".to_owned();
    let references = References::new(schema);
    let top = union::merged(schema, &references).ok_or_else(refused)?;
    let (mut repaired, is_exact) = whole(&top, schema, &references, true);
    if !is_exact {
        // Conditions that refer to a definition which now allows more would allow less.
        (repaired, _) = whole(&top, schema, &references, false);
    }
    let bytes = Value::Object(repaired.clone()).to_string().len();
    if bytes > MAX_BYTES {
        let kib = MAX_BYTES >> 10;
        return Err(format!("has an `inputSchema` of more than {kib} KiB"));
    }
    Ok(Value::Object(repaired))
}

/// The repaired top with its definitions, and whether these stayed as they were.
fn whole(
    top: &Object,
    schema: &Object,
    references: &References<'_>,
    definitions_are_exact: bool,
) -> (Object, bool) {
    let mut keywords = Keywords::new(references, definitions_are_exact);
    let mut repaired = keywords.repaired(top, references::TOP, 0);
    for refused in REFUSED_AT_TOP {
        repaired.shift_remove(refused);
    }
    repaired.insert("type".to_owned(), "object".into());
    repaired.entry("properties").or_insert_with(|| json!({}));
    let mut is_exact = true;
    for member in DEFINITIONS {
        let Some(Value::Object(definitions)) = schema.get(member) else { continue };
        let mut kept = Object::new();
        for (name, definition) in definitions {
            let pointer = references::pointer(member, name);
            if !references.is_kept(&pointer) {
                continue;
            }
            let schema = keywords.schema(definition, &pointer, 1).unwrap_or_default();
            let schema = Value::Object(schema);
            is_exact &= schema == *definition;
            kept.insert(name.clone(), schema);
        }
        if !kept.is_empty() {
            repaired.insert(member.to_owned(), Value::Object(kept));
        }
    }
    (repaired, is_exact)
}

#[cfg(test)]
mod tests;
