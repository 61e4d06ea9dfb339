//! The rules of the code that no compiler checks, each with a message that says what to do. Reads
//! the checkout and changes nothing.

mod arrows;
mod causes;
mod crates;
mod docs;
mod finding;
mod formatting;
mod imports;
mod links;
mod names;
mod programs;
mod quoted;
mod scan;
mod source;
mod test_programs;
mod tested;
mod typed;
mod words;

use std::path::Path;

use anyhow::{Context, Result, bail};
use xtask::files;

use finding::Finding;
use typed::Typed;

/// Prints every finding and the largest crate; fails when a finding is an error.
pub(crate) fn run(root: &Path) -> Result<()> {
    let findings = check(root)?;
    for finding in &findings {
        println!("{finding}");
    }
    println!("{}", crates::largest(root)?);
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
fn check(root: &Path) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let typed = Typed::read(root)?;
    let files = files::text_files(root)?;
    for file in &files {
        let bytes = std::fs::read(root.join(file)).with_context(|| file.display().to_string())?;
        let Ok(text) = String::from_utf8(bytes) else { continue };
        findings.extend(source::check(file, &text, root));
        findings.extend(words::check(file, &text));
        if file.extension().is_some_and(|extension| extension == "rs") {
            findings.extend(causes::check(file, &text));
            findings.extend(typed.check(file, &text));
        }
    }
    findings.extend(arrows::check(root)?);
    findings.extend(crates::check(root)?);
    findings.extend(docs::check(root)?);
    findings.extend(formatting::check(root, &files)?);
    findings.extend(imports::check(root)?);
    findings.extend(links::check(root, &files)?);
    findings.extend(names::check(root)?);
    findings.extend(programs::check(root)?);
    findings.extend(quoted::check(root, &files)?);
    findings.extend(test_programs::check(root)?);
    findings.extend(tested::check(root)?);
    findings.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
    Ok(findings)
}
