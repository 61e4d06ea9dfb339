//! Writes JSON strings into a byte buffer. It only escapes; it knows no document shapes.

/// Appends `text` as a JSON string, quotes included.
pub fn push_str(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut copied = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        if !needs_escape(byte) {
            continue;
        }
        out.extend_from_slice(&bytes[copied..at]);
        copied = at + 1;
        push_escape(out, byte);
    }
    out.extend_from_slice(&bytes[copied..]);
    out.push(b'"');
}

/// `text` as a JSON string, quotes included.
#[must_use]
pub fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Length of `text` once escaped and quoted, in bytes.
pub(crate) fn escaped_len(text: &str) -> usize {
    2 + text.bytes().map(cost).sum::<usize>()
}

fn needs_escape(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

fn cost(byte: u8) -> usize {
    match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' => 2,
        0..0x20 => 6,
        _ => 1,
    }
}

fn push_escape(out: &mut Vec<u8>, byte: u8) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    match byte {
        b'"' => out.extend_from_slice(b"\\\""),
        b'\\' => out.extend_from_slice(b"\\\\"),
        b'\n' => out.extend_from_slice(b"\\n"),
        b'\r' => out.extend_from_slice(b"\\r"),
        b'\t' => out.extend_from_slice(b"\\t"),
        _ => {
            out.extend_from_slice(b"\\u00");
            out.push(HEX[usize::from(byte >> 4)]);
            out.push(HEX[usize::from(byte & 15)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_escaped_string_round_trips_with_the_computed_length(text in any::<String>()) {
            let mut out = Vec::new();
            super::push_str(&mut out, &text);
            prop_assert_eq!(out.len(), super::escaped_len(&text));
            prop_assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
        }
    }
}
