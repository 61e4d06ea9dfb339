//! The forms of exports: CSV and JSON lines.

use hyper::header::{CONTENT_DISPOSITION, CONTENT_TYPE, HeaderName};

use super::input::{Parameters, invalid, missing};
use gateway_policy::error::ApiError;

/// The form of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// Comma-separated values, with a line of names first.
    Csv,
    /// One JSON object per line.
    JsonLines,
}

impl Format {
    /// `format`, which must be given.
    pub(super) fn take(parameters: &mut Parameters) -> Result<Self, ApiError> {
        match parameters.one("format")?.as_deref() {
            Some("csv") => Ok(Self::Csv),
            Some("jsonl") => Ok(Self::JsonLines),
            None => Err(missing("format")),
            Some(_) => Err(invalid("format", "csv or jsonl")),
        }
    }

    /// The headers of a download of that name.
    pub(super) fn headers(self, name: &str) -> [(HeaderName, String); 2] {
        let (kind, ending) = match self {
            Self::Csv => ("text/csv; charset=utf-8", "csv"),
            Self::JsonLines => ("application/jsonl", "jsonl"),
        };
        let file = format!("attachment; filename=\"{name}.{ending}\"");
        [(CONTENT_TYPE, kind.to_owned()), (CONTENT_DISPOSITION, file)]
    }
}

/// Escapes a CSV field. A text that a spreadsheet would evaluate as a formula gets an apostrophe.
pub(super) fn quote(field: &str) -> String {
    let formula = field.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let field = if formula { format!("'{field}") } else { field.to_owned() };
    match field.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field,
    }
}

/// A moment in microseconds as RFC 3339.
pub(super) fn time(at: u64) -> String {
    let moment = i64::try_from(at).ok().and_then(|at| jiff::Timestamp::from_microsecond(at).ok());
    moment.map_or_else(String::new, |moment| format!("{moment:.6}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_fields_are_quoted_when_needed() {
        let check = |field, expect| assert_eq!(quote(field), expect);
        check("big-2026-08-01", "big-2026-08-01");
        check("a,b", "\"a,b\"");
        check("a\"b\n", "\"a\"\"b\n\"");
        check("=1+1", "'=1+1");
        assert_eq!(time(1_700_000_000_000_001), "2023-11-14T22:13:20.000001Z");
    }
}
