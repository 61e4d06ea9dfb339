//! The rules of the code that no compiler checks, each with a message that says what to do. Reads
//! the checkout and changes nothing.

mod arrows;
mod deviations;
mod docs;
mod imports;
mod scan;
mod source;

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// One breach of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    /// Relative to the root.
    pub(crate) file: PathBuf,
    /// From 1; 0 when the whole file is meant.
    pub(crate) line: usize,
    pub(crate) rule: &'static str,
    /// What to do.
    pub(crate) message: String,
    /// Printed, but does not fail.
    pub(crate) warning: bool,
}

impl Finding {
    pub(crate) fn error(
        file: &Path,
        line: usize,
        rule: &'static str,
        message: impl Into<String>,
    ) -> Finding {
        Finding { file: file.to_owned(), line, rule, message: message.into(), warning: false }
    }

    pub(crate) fn warning(
        file: &Path,
        line: usize,
        rule: &'static str,
        message: impl Into<String>,
    ) -> Finding {
        Finding { warning: true, ..Finding::error(file, line, rule, message) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.warning { "warning" } else { "error" };
        write!(f, "{}", self.file.display())?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        write!(f, ": {kind}: {}: {}", self.rule, self.message)
    }
}

/// Prints every finding; fails when one of them is an error.
pub(crate) fn run(root: &Path) -> Result<()> {
    let findings = check(root)?;
    for finding in &findings {
        println!("{finding}");
    }
    let errors = findings.iter().filter(|f| !f.warning).count();
    if errors > 0 {
        bail!("tidy found {errors} breaches of the project's rules (listed above)");
    }
    Ok(())
}

/// Prints the circles of imports of each crate.
pub(crate) fn imports(root: &Path) -> Result<()> {
    print!("{}", imports::report(root)?);
    Ok(())
}

/// Every finding in the checkout at `root`, ordered by file and line.
pub(crate) fn check(root: &Path) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for file in files(root)? {
        let bytes = std::fs::read(root.join(&file)).with_context(|| file.display().to_string())?;
        let Ok(text) = String::from_utf8(bytes) else { continue };
        findings.extend(source::check(&file, &text, root));
    }
    findings.extend(arrows::check(root)?);
    findings.extend(deviations::check(root)?);
    findings.extend(docs::check(root)?);
    findings.extend(imports::check(root)?);
    findings.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
    Ok(findings)
}

/// The text files that people write, relative to the root.
fn files(root: &Path) -> Result<Vec<PathBuf>> {
    const LISTED: [&str; 7] = ["rs", "toml", "md", "sh", "yml", "yaml", "json"];
    let mut found = Vec::new();
    let mut open = vec![PathBuf::new()];
    while let Some(folder) = open.pop() {
        let path = root.join(&folder);
        for entry in std::fs::read_dir(&path).with_context(|| path.display().to_string())? {
            let entry = entry?;
            let relative = folder.join(entry.file_name());
            let name = entry.file_name();
            if entry.file_type()?.is_dir() {
                if !["target", ".git", "node_modules", "schema"].iter().any(|skip| name == *skip) {
                    open.push(relative);
                }
            } else if relative.starts_with(".ci")
                || relative.extension().is_some_and(|e| LISTED.iter().any(|listed| e == *listed))
            {
                found.push(relative);
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_checkout_is_tidy() {
        let errors: Vec<String> = check(&crate::workspace_root())
            .expect("the checkout can be read")
            .iter()
            .filter(|f| !f.warning)
            .map(ToString::to_string)
            .collect();
        assert!(errors.is_empty(), "{}", errors.join("\n"));
    }

    #[test]
    fn a_finding_reads_like_a_compiler_s() {
        let finding = Finding::error(Path::new("a/b.rs"), 3, "rule", "do this");
        assert_eq!(finding.to_string(), "a/b.rs:3: error: rule: do this");
        let finding = Finding::warning(Path::new("a"), 0, "rule", "do this");
        assert_eq!(finding.to_string(), "a: warning: rule: do this");
    }
}
