//! The table of a job: a CSV file with a header, checked as a whole before any row is worked on.

use std::collections::HashSet;

use csv::{ReaderBuilder, StringRecord};
use session::ToolError;

use super::NAME;

/// Largest file.
pub(super) const MAX_BYTES: u64 = 32 << 20;
/// Most rows without the header.
pub(super) const MAX_ROWS: usize = 100_000;
/// Most columns.
const MAX_COLUMNS: usize = 1000;
/// Longest id of a row in bytes; a longer one is cut.
const MAX_ID: usize = 200;

/// The table of a job.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Table {
    /// The names of the columns: unique, none empty.
    pub(super) header: Vec<String>,
    /// Each as wide as the header.
    pub(super) rows: Vec<TableRow>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct TableRow {
    /// Unique in the table.
    pub(super) id: String,
    /// The values as a JSON list.
    pub(super) values: String,
}

impl Table {
    /// Reads a file; `path` is for errors.
    ///
    /// # Errors
    /// The file is not a table that a job can work on; the error names the line.
    pub(super) fn read(
        bytes: &[u8],
        path: &str,
        id_column: Option<&str>,
    ) -> Result<Self, ToolError> {
        let refused = |why: String| ToolError::new(format!("{NAME}: {path}: {why}"));
        let text = text(bytes).map_err(refused)?;
        check_quotes(&text).map_err(refused)?;
        let mut reader =
            ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text.as_bytes());
        let mut records = reader.records();
        let first = records.next().transpose().map_err(|error| refused(error.to_string()))?;
        let Some(first) = first else {
            return Err(refused("the file is empty; its first line names the columns".into()));
        };
        let header = header(&first).map_err(refused)?;
        let id_at = id_position(&header, id_column).map_err(refused)?;
        let (mut rows, mut ids) = (Vec::new(), Ids::default());
        for record in records {
            let record = record.map_err(|error| refused(error.to_string()))?;
            let line = record.position().map_or(0, csv::Position::line);
            if rows.len() == MAX_ROWS {
                return Err(refused(format!(
                    "the file has more than {MAX_ROWS} rows (line {line}), which is the limit of \
                     a job; split it"
                )));
            }
            if record.len() != header.len() {
                return Err(refused(format!(
                    "line {line} has {} values, but the header has {} columns",
                    record.len(),
                    header.len()
                )));
            }
            let given = id_at.and_then(|at| record.get(at));
            let id = ids.next(given, rows.len() + 1);
            let values: Vec<&str> = record.iter().collect();
            let values = serde_json::Value::from(values).to_string();
            rows.push(TableRow { id, values });
        }
        if rows.is_empty() {
            return Err(refused("the file has a header and no rows".into()));
        }
        Ok(Self { header, rows })
    }
}

/// The text of a file, without a byte order mark.
fn text(bytes: &[u8]) -> Result<String, String> {
    files::decoded(bytes.to_vec()).map_err(|bytes| {
        let valid = bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid());
        let line = valid.matches('\n').count() + 1;
        format!("line {line} is not UTF-8; convert the file to UTF-8")
    })
}

/// Refuses a quoted value that does not end: the parser would take the rest of the file for it.
fn check_quotes(text: &str) -> Result<(), String> {
    let (mut line, mut opened) = (1, None);
    let mut starts_field = true;
    let mut bytes = text.bytes().peekable();
    while let Some(byte) = bytes.next() {
        line += usize::from(byte == b'\n');
        if opened.is_some() {
            if byte == b'"' && bytes.next_if_eq(&b'"').is_none() {
                opened = None;
            }
            continue;
        }
        if byte == b'"' && starts_field {
            opened = Some(line);
        }
        starts_field = matches!(byte, b',' | b'\n' | b'\r');
    }
    match opened {
        Some(line) => Err(format!("the quote that opens a value in line {line} is not closed")),
        None => Ok(()),
    }
}

fn header(first: &StringRecord) -> Result<Vec<String>, String> {
    if first.len() > MAX_COLUMNS {
        return Err(format!("the header has {} columns, more than {MAX_COLUMNS}", first.len()));
    }
    let mut known = HashSet::new();
    for (at, name) in first.iter().enumerate() {
        if name.trim().is_empty() {
            return Err(format!("column {} has no name in the header (line 1)", at + 1));
        }
        if !known.insert(name) {
            return Err(format!("the header (line 1) names the column `{name}` twice"));
        }
    }
    Ok(first.iter().map(str::to_owned).collect())
}

fn id_position(header: &[String], id_column: Option<&str>) -> Result<Option<usize>, String> {
    let Some(name) = id_column else { return Ok(None) };
    let at = header.iter().position(|column| column == name);
    at.map(Some).ok_or_else(|| {
        format!("`id_column` is `{name}`, but the columns are {}", header.join(", "))
    })
}

/// Gives out ids, each once.
#[derive(Default)]
struct Ids(HashSet<String>);

impl Ids {
    /// The id of the row with this number: the given one, made unique with `-2` and so on.
    fn next(&mut self, given: Option<&str>, number: usize) -> String {
        let given = given.map(str::trim).filter(|id| !id.is_empty());
        let mut id = given.map_or_else(|| format!("row-{number}"), str::to_owned);
        id.truncate(id.floor_char_boundary(MAX_ID));
        let mut candidate = id.clone();
        let mut again = 1;
        while self.0.contains(&candidate) {
            again += 1;
            candidate = format!("{id}-{again}");
        }
        self.0.insert(candidate.clone());
        candidate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8], id_column: Option<&str>) -> Result<Table, String> {
        Table::read(bytes, "in.csv", id_column).map_err(ToolError::into_message)
    }

    fn rows(table: &Table) -> Vec<(&str, &str)> {
        table.rows.iter().map(|row| (row.id.as_str(), row.values.as_str())).collect()
    }

    #[test]
    fn a_mark_quotes_and_line_ends_are_read() {
        let table = read(b"\xef\xbb\xbfa,b\r\n\"1\n,\"\"x\"\"\",2\r\n3,\n", None).unwrap();
        assert_eq!(table.header, ["a", "b"]);
        let expected = [("row-1", "[\"1\\n,\\\"x\\\"\",\"2\"]"), ("row-2", "[\"3\",\"\"]")];
        assert_eq!(rows(&table), expected);
    }

    #[test]
    fn ids_are_unique() {
        let table = read(b"id,x\na,1\na,2\na-2,3\n,4\na,5\n", Some("id")).unwrap();
        let ids: Vec<&str> = table.rows.iter().map(|row| row.id.as_str()).collect();
        assert_eq!(ids, ["a", "a-2", "a-2-2", "row-4", "a-3"]);
    }

    #[test]
    fn bad_files_are_refused_with_the_line() {
        let many = format!("a\n{}", "1\n".repeat(MAX_ROWS + 1));
        let wide = vec!["c"; MAX_COLUMNS + 1].join(",");
        for (bytes, id_column, expected) in [
            (&b""[..], None, "the file is empty"),
            (b"\xef\xbb\xbf", None, "the file is empty"),
            (b"a,b\n", None, "a header and no rows"),
            (b"a,b\n1,2\n3\n", None, "line 3 has 1 values, but the header has 2 columns"),
            (b"a,b\n\"1\n1\",2\n3,4,5\n", None, "line 4 has 3 values"),
            (b"a,a\n1,2\n", None, "names the column `a` twice"),
            (b"a, \n1,2\n", None, "column 2 has no name"),
            (b"a\n1\n\"2\n3\n", None, "in line 3 is not closed"),
            (b"a\nx\xff\n", None, "line 2 is not UTF-8"),
            (b"\xff\xfea\x00", None, "a header and no rows"),
            (b"a\n1\n", Some("id"), "`id_column` is `id`, but the columns are a"),
            (many.as_bytes(), None, "more than 100000 rows (line 100002)"),
            (wide.as_bytes(), None, "1001 columns, more than 1000"),
        ] {
            let error = read(bytes, id_column).unwrap_err();
            assert!(error.starts_with("spawn_agents_on_csv: in.csv: "), "{error}");
            assert!(error.contains(expected), "{expected}: {error}");
        }
    }
}
