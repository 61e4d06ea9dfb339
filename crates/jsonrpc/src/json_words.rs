//! Rewrites serde's messages about mismatched values in terms of JSON, because the names of Rust's
//! types mean nothing to a client.

use std::borrow::Cow;

/// Replaces the names of Rust's types in the message with JSON's.
pub(crate) fn in_json_words(message: &str) -> Cow<'_, str> {
    if message.starts_with("data did not match any variant of untagged enum ") {
        return "it has none of the forms that are possible here".into();
    }
    let kinds = ["invalid type: ", "invalid value: "];
    let Some(kind) = kinds.iter().find(|kind| message.starts_with(**kind)) else {
        return message.into();
    };
    let rest = message.get(kind.len()..).unwrap_or_default();
    // The found value may quote the client, so the expected type is what follows the last comma.
    let Some((found, expected)) = rest.rsplit_once(", expected ") else { return message.into() };
    format!("{kind}{}, expected {}", found_words(found), expected_words(expected)).into()
}

fn found_words(found: &str) -> Cow<'_, str> {
    match found {
        "sequence" => "array".into(),
        "map" | "newtype variant" | "tuple variant" | "struct variant" => "object".into(),
        "unit variant" => "string".into(),
        "unit" | "Option value" => "null".into(),
        found => match found.strip_prefix("floating point ") {
            Some(number) => format!("number {number}").into(),
            None => found.into(),
        },
    }
}

fn expected_words(expected: &str) -> Cow<'_, str> {
    const OBJECTS: [&str; 4] =
        ["struct ", "internally tagged enum ", "adjacently tagged enum ", "struct variant "];
    match expected {
        "a map" => "an object".into(),
        "a sequence" => "an array".into(),
        "unit" => "null".into(),
        "struct variant" | "newtype variant" | "tuple variant" => {
            "an object with this one member".into()
        }
        "unit variant" => "a string".into(),
        "variant identifier" | "field identifier" | "a borrowed string" => "a string".into(),
        "f32" | "f64" => "a number".into(),
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number".into(),
        "u64" | "usize" => "a whole number from 0 on".into(),
        "u8" => "a whole number from 0 to 255".into(),
        "u16" => "a whole number from 0 to 65535".into(),
        "u32" => "a whole number from 0 to 4294967295".into(),
        _ if OBJECTS.iter().any(|prefix| expected.starts_with(prefix)) => "an object".into(),
        _ if expected.starts_with("enum ") => "a string, or an object with one member".into(),
        _ => expected.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_rust_types_do_not_reach_clients() {
        for (message, expected) in [
            (
                "invalid type: string \"x\", expected internally tagged enum SandboxPolicy",
                "invalid type: string \"x\", expected an object",
            ),
            (
                "invalid type: unit variant, expected struct variant",
                "invalid type: string, expected an object with this one member",
            ),
            (
                "invalid type: integer `5`, expected variant identifier",
                "invalid type: integer `5`, expected a string",
            ),
            (
                "invalid type: floating point `1.5`, expected u32",
                "invalid type: number `1.5`, expected a whole number from 0 to 4294967295",
            ),
            ("invalid type: map, expected a sequence", "invalid type: object, expected an array"),
            (
                "invalid type: string \"a, expected b\", expected struct Needs",
                "invalid type: string \"a, expected b\", expected an object",
            ),
            ("missing field `x`", "missing field `x`"),
        ] {
            assert_eq!(in_json_words(message), expected);
        }
    }
}
