//! A finding of tidy.

use std::fmt;
use std::path::{Path, PathBuf};

/// One breach of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    /// Relative to the root.
    pub(crate) file: PathBuf,
    /// From 1; 0 when the whole file is meant.
    pub(crate) line: usize,
    pub(crate) rule: &'static str,
    /// The remedy.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_have_the_format_of_compiler_errors() {
        let finding = Finding::error(Path::new("a/b.rs"), 3, "rule", "do this");
        assert_eq!(finding.to_string(), "a/b.rs:3: error: rule: do this");
        let finding = Finding::warning(Path::new("a"), 0, "rule", "do this");
        assert_eq!(finding.to_string(), "a: warning: rule: do this");
    }
}
