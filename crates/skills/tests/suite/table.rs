//! The table of valid and invalid skills in `tests/table`, on which the public validator of the format
//! agrees (`cargo xtask interop skills`).

use std::path::{Path, PathBuf};

fn cases(kind: &str) -> Vec<PathBuf> {
    let table = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/table").join(kind);
    let list = |folder: &Path| {
        let entries = std::fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect::<Vec<_>>()
    };
    let mut cases: Vec<PathBuf> = list(&table).iter().flat_map(|case| list(case)).collect();
    cases.sort();
    cases
}

#[test]
fn the_check_agrees_with_the_table() {
    let (valid, invalid) = (cases("valid"), cases("invalid"));
    assert!(valid.len() + invalid.len() >= 60);
    let wrong = |(cases, is_valid): (&[PathBuf], bool)| {
        let differs = |case: &&PathBuf| skills::validate(case).is_valid() != is_valid;
        cases
            .iter()
            .filter(differs)
            .map(|case| format!("{}: {:?}", case.display(), skills::validate(case).errors))
            .collect::<Vec<_>>()
    };
    let wrong = [wrong((&valid, true)), wrong((&invalid, false))].concat();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_error_names_the_file_and_what_is_wrong() {
    for case in cases("invalid") {
        for problem in skills::validate(&case).errors {
            let text = problem.to_string();
            assert!(problem.path.starts_with(&case), "{text}");
            assert!(text.len() < 600 && !problem.fault.message.is_empty(), "{text}");
        }
    }
}

#[test]
fn a_new_skill_is_valid() {
    let home = tempfile::tempdir().unwrap();
    for (name, description) in [
        ("a", "x"),
        ("pdf-tools", "Says: \"use C# \\ [it]\"\nand {more}"),
        ("überblick", "— \u{1}\u{7f}\u{feff}"),
    ] {
        let folder = home.path().join(name);
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("SKILL.md"), skills::template(name, description)).unwrap();
        let report = skills::validate(&folder);
        assert!(report.errors.is_empty() && report.warnings.is_empty(), "{report:?}");
    }
}
