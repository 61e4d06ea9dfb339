//! The rules of the code that no compiler checks, each with a message that says what to do. Reads
//! the checkout and changes nothing.

mod arrows;
mod deviations;
mod docs;
mod finding;
mod formatting;
mod imports;
mod scan;
mod source;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use finding::Finding;

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
    let files = files(root)?;
    for file in &files {
        let bytes = std::fs::read(root.join(file)).with_context(|| file.display().to_string())?;
        let Ok(text) = String::from_utf8(bytes) else { continue };
        findings.extend(source::check(file, &text, root));
    }
    findings.extend(arrows::check(root)?);
    findings.extend(deviations::check(root)?);
    findings.extend(docs::check(root)?);
    findings.extend(formatting::check(root, &files)?);
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
}
