//! The results of a job as a CSV file: all columns of the input as they were, then `status`,
//! `result` and `error`.
//!
//! A value that a spreadsheet would take for a formula is not changed: the file is also read by
//! programs, for which `-5` with a sign before it would be another value. The columns that a job
//! adds never begin like a formula.

use session::ToolError;
use store::{JobItem, JobItemStatus};

use super::NAME;

/// The columns that a job adds.
const ADDED: [&str; 3] = ["status", "result", "error"];

/// A file that is being written.
pub(super) struct Export(csv::Writer<Vec<u8>>);

impl Export {
    /// Begins with the header.
    pub(super) fn new(header: &[String]) -> Result<Self, ToolError> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let added = ADDED.map(|name| free_name(header, name));
        writer.write_record(header.iter().chain(&added)).map_err(unwritable)?;
        Ok(Self(writer))
    }

    /// Adds a row. One without an end was stopped with its job.
    pub(super) fn add(&mut self, item: &JobItem) -> Result<(), ToolError> {
        let values: Vec<String> = serde_json::from_str(&item.row).map_err(|error| {
            ToolError::new(format!("{NAME}: row {} cannot be read: {error}", item.id))
        })?;
        let status = match item.status {
            JobItemStatus::Completed => "completed",
            JobItemStatus::Failed => "failed",
            JobItemStatus::Pending | JobItemStatus::Running | JobItemStatus::Stopped => "stopped",
            JobItemStatus::Cancelled => "cancelled",
        };
        let result = item.result.clone().unwrap_or_default();
        let error = item.error.as_deref().map(plain).unwrap_or_default();
        let added = [status.to_owned(), result, error];
        self.0.write_record(values.iter().chain(&added)).map_err(unwritable)
    }

    pub(super) fn into_bytes(self) -> Result<Vec<u8>, ToolError> {
        self.0.into_inner().map_err(|error| ToolError::new(format!("{NAME}: {error}")))
    }
}

/// A name that no column of the input has.
fn free_name(header: &[String], name: &str) -> String {
    let numbered = (2..).map(|number| format!("{name}_{number}"));
    let mut names = std::iter::once(name.to_owned()).chain(numbered);
    // The header is finite.
    names.find(|name| !header.contains(name)).unwrap_or_default()
}

/// An error that no spreadsheet takes for a formula.
fn plain(error: &str) -> String {
    match error.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        true => format!("error: {error}"),
        false => error.to_owned(),
    }
}

fn unwritable(error: csv::Error) -> ToolError {
    ToolError::new(format!("{NAME}: the results cannot be written as CSV: {error}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::table::Table;
    use super::*;

    fn item(row: String, result: Option<&str>, error: Option<&str>) -> JobItem {
        JobItem {
            number: 1,
            id: "row-1".into(),
            row,
            status: match (result, error) {
                (Some(_), _) => JobItemStatus::Completed,
                (None, Some(_)) => JobItemStatus::Failed,
                (None, None) => JobItemStatus::Cancelled,
            },
            worker: None,
            result: result.map(str::to_owned),
            error: error.map(str::to_owned),
        }
    }

    #[test]
    fn added_columns_have_free_names_and_no_formulas() {
        let header = ["status".to_owned(), "error".to_owned(), "error_2".to_owned()];
        let mut export = Export::new(&header).unwrap();
        let row = "[\"=1+1\",\"-5\",\"a,\\\"b\\\"\\nc\"]".to_owned();
        export.add(&item(row, None, Some("=cmd"))).unwrap();
        let text = String::from_utf8(export.into_bytes().unwrap()).unwrap();
        let expected = "status,error,error_2,status_2,result,error_3\n\
            =1+1,-5,\"a,\"\"b\"\"\nc\",failed,,error: =cmd\n";
        assert_eq!(text, expected);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(
            rows in proptest::collection::vec(
                (any::<String>(), "[\\PC\n\r\",]{0,8}", proptest::option::of("[a-z\",\n]{1,9}")),
                1..8,
            )
        ) {
            let header = ["one".to_owned(), "t,w\"o".to_owned()];
            let mut export = Export::new(&header).unwrap();
            let json = |a: &str, b: &str| serde_json::json!([a, b]).to_string();
            for (a, b, error) in &rows {
                export.add(&item(json(a, b), None, error.as_deref())).unwrap();
            }
            let bytes = export.into_bytes().unwrap();
            let table = Table::read(&bytes, "out.csv", None).unwrap();
            prop_assert_eq!(&table.header[..2], &header[..]);
            prop_assert_eq!(table.rows.len(), rows.len());
            for (row, (a, b, error)) in table.rows.iter().zip(&rows) {
                let values: Vec<String> = serde_json::from_str(&row.values).unwrap();
                let status = if error.is_some() { "failed" } else { "cancelled" };
                let error = error.as_deref().unwrap_or_default();
                prop_assert_eq!(&values, &[a, b.as_str(), status, "", error]);
            }
        }
    }
}
