//! A collector's reply to a message that it accepted: the number of records that it did not keep.

use prost::Message;
use serde_json::Value;

/// Longest explanation that is shown.
const MAX_MESSAGE: usize = 500;

/// The part of a message that a collector refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rejected {
    pub(crate) items: u64,
    pub(crate) why: String,
}

/// The three answers of OTLP have one shape on the wire, with other names.
#[derive(Clone, PartialEq, Message)]
struct Answer {
    #[prost(message, optional, tag = "1")]
    partial_success: Option<PartialSuccess>,
}

#[derive(Clone, PartialEq, Message)]
struct PartialSuccess {
    #[prost(int64, tag = "1")]
    rejected: i64,
    #[prost(string, tag = "2")]
    error_message: String,
}

impl Rejected {
    /// Of an answer in Protobuf. One that cannot be read refuses nothing.
    pub(crate) fn in_protobuf(body: &[u8]) -> Self {
        let answer = Answer::decode(body).ok();
        answer.and_then(|answer| answer.partial_success).map_or_else(Self::default, |partial| {
            Self::new(partial.rejected, &partial.error_message)
        })
    }

    /// Of an answer in JSON, where 64-bit numbers are strings.
    pub(crate) fn in_json(body: &[u8]) -> Self {
        let answer: Value = serde_json::from_slice(body).unwrap_or_default();
        let partial = &answer["partialSuccess"];
        let names = ["rejectedSpans", "rejectedLogRecords", "rejectedDataPoints"];
        let number = names.iter().find_map(|name| match &partial[*name] {
            Value::String(text) => text.parse().ok(),
            number => number.as_i64(),
        });
        Self::new(number.unwrap_or(0), partial["errorMessage"].as_str().unwrap_or_default())
    }

    fn new(items: i64, why: &str) -> Self {
        let why = why.chars().take(MAX_MESSAGE).collect();
        Self { items: u64::try_from(items).unwrap_or(0), why }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn refusals_are_read_in_both_encodings() {
        let partial = PartialSuccess { rejected: 3, error_message: "too old".to_owned() };
        let answer = Answer { partial_success: Some(partial) }.encode_to_vec();
        let expected = Rejected { items: 3, why: "too old".to_owned() };
        assert_eq!(Rejected::in_protobuf(&answer), expected);
        for number in ["\"3\"", "3"] {
            let text = format!(
                r#"{{"partialSuccess":{{"rejectedLogRecords":{number},"errorMessage":"too old"}}}}"#
            );
            assert_eq!(Rejected::in_json(text.as_bytes()), expected);
        }
        for odd in ["", "{}", "null", "[1]", r#"{"partialSuccess":{"rejectedSpans":-1}}"#, "\u{0}"]
        {
            assert_eq!(Rejected::in_json(odd.as_bytes()), Rejected::default(), "{odd}");
            assert_eq!(Rejected::in_protobuf(odd.as_bytes()).items, 0, "{odd}");
        }
    }

    proptest! {
        #[test]
        fn any_answer_is_read_without_a_panic(bytes: Vec<u8>) {
            let _ = (Rejected::in_protobuf(&bytes), Rejected::in_json(&bytes));
        }
    }
}
