//! Pages whose claims name tests: each row of a table with the column `test` names at least one, as `crate::test`, and
//! each exists. So a claim about a deviation or about security cannot outlive what shows it.

use std::path::Path;

use anyhow::Result;

use super::finding::Finding;
use xtask::files::text_files;

const PAGES: [&str; 2] = ["docs/deviations.md", "docs/security.md"];
const RULE: &str = "tested-claims";
/// Heading of the last column.
const COLUMN: &str = "test";

pub(crate) fn check(root: &Path) -> Result<Vec<Finding>> {
    let mut code = Vec::new();
    for file in text_files(root)?.iter().filter(|file| file.extension().is_some_and(|e| e == "rs"))
    {
        if let Some(name) = crate_of(file) {
            code.push((name.to_owned(), std::fs::read_to_string(root.join(file))?));
        }
    }
    let exists = |name: &str, test: &str| {
        let definition = format!("fn {test}(");
        code.iter().any(|(of, text)| of == name && text.contains(&definition))
    };
    let mut findings = Vec::new();
    for page in PAGES {
        // What must be there is the business of `docs.rs` and of the links.
        let Ok(text) = std::fs::read_to_string(root.join(page)) else { continue };
        for (line, tests) in rows(&text) {
            findings.extend(breaches(Path::new(page), line, &tests, &exists));
        }
    }
    Ok(findings)
}

fn breaches(
    page: &Path,
    line: usize,
    tests: &[&str],
    exists: &dyn Fn(&str, &str) -> bool,
) -> Vec<Finding> {
    if tests.is_empty() {
        let message = "names no test: write `crate::test` in the last column";
        return vec![Finding::error(page, line, RULE, message)];
    }
    let is_missing =
        |test: &&&str| test.rsplit_once("::").is_none_or(|(name, test)| !exists(name, test));
    let missing = tests.iter().filter(is_missing);
    missing
        .map(|test| {
            let message = format!("there is no test `{test}`: name one that shows this");
            Finding::error(page, line, RULE, message)
        })
        .collect()
}

/// The rows of tables with the column of tests, without their heads, with the code spans of that column.
fn rows(page: &str) -> Vec<(usize, Vec<&str>)> {
    let mut rows = Vec::new();
    let (mut in_table, mut has_column) = (false, false);
    for (number, line) in page.lines().enumerate() {
        let Some(cells) = line.strip_prefix('|').and_then(|rest| rest.strip_suffix('|')) else {
            in_table = false;
            continue;
        };
        let last = cells.rsplit('|').next().unwrap_or_default();
        if cells.trim_start().starts_with("---") {
            in_table = true;
        } else if !in_table {
            has_column = last.trim() == COLUMN;
        } else if has_column {
            rows.push((number + 1, last.split('`').skip(1).step_by(2).collect()));
        }
    }
    rows
}

fn crate_of(file: &Path) -> Option<&str> {
    let mut parts = file.iter();
    (parts.next()? == "crates").then(|| parts.next()?.to_str()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_names_a_test_that_exists() {
        let page = "text\n\n| a | test |\n|---|---|\n| `x` \\| | `server::one`, `server::two` |\n| b | |\n\n\
                    | a | b |\n|---|---|\n| c | `d` |\n";
        let exists = |name: &str, test: &str| (name, test) == ("server", "one");
        let found: Vec<(usize, String)> = rows(page)
            .into_iter()
            .flat_map(|(line, tests)| breaches(Path::new("a.md"), line, &tests, &exists))
            .map(|finding| (finding.line, finding.message))
            .collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].0 == 5 && found[0].1.contains("`server::two`"), "{found:?}");
        assert!(found[1].0 == 6 && found[1].1.contains("names no test"), "{found:?}");
    }
}
