//! Tests of the public interface: parsing, positions of hunks, refusals, costs, and a comparison
//! with an independent implementation.
#![allow(clippy::unwrap_used)]

mod corpus;
mod format;
mod limits;
mod streamed;
mod tolerance;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use patch::{ChangeKind, parse, plan};

type Files = BTreeMap<PathBuf, String>;

fn files(list: &[(&str, &str)]) -> Files {
    list.iter().map(|(path, text)| (Path::new("/w").join(path), (*text).to_owned())).collect()
}

/// Applies the patch in `text`.
fn applied(before: &Files, text: &str) -> Result<Files, String> {
    let patch = parse(text).map_err(|error| error.to_string())?;
    let mut read = |path: &Path| Ok(before.get(path).cloned());
    let changes = plan(&patch, Path::new("/w"), &mut read).map_err(|error| error.to_string())?;
    let mut after = before.clone();
    for change in changes {
        after.remove(&change.path);
        let target = match &change.kind {
            ChangeKind::Update { move_to: Some(target) } => target.clone(),
            _ => change.path.clone(),
        };
        if let Some(text) = change.after {
            after.insert(target, text);
        }
    }
    Ok(after)
}

/// Applies hunks to the file `f`.
fn updated(before: &str, hunks: &str) -> Result<String, String> {
    let text = wrap(&format!("*** Update File: f\n{hunks}"));
    let mut after = applied(&files(&[("f", before)]), &text)?;
    Ok(after.remove(Path::new("/w/f")).unwrap())
}

fn wrap(body: &str) -> String {
    format!("*** Begin Patch\n{body}\n*** End Patch")
}

fn check(before: &[(&str, &str)], body: &str, after: &[(&str, &str)]) {
    assert_eq!(applied(&files(before), &wrap(body)).unwrap(), files(after), "{body}");
}

fn refused(before: &[(&str, &str)], text: &str, because: &str) {
    let error = applied(&files(before), text).unwrap_err();
    assert!(error.contains(because), "expected `{because}` in: {error}");
}
