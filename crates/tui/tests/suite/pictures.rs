//! What the terminal shows in each state, in three sizes, as text: `tests/states/*.txt`.
//! `UPDATE_STATES=1` rewrites the files; read them before they are committed.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use protocol::ItemKind;

use crate::cells;
use crate::harness::Bench;
use crate::states::STATES;

/// Columns and rows.
pub(crate) const SIZES: [(usize, usize); 3] = [(120, 40), (80, 24), (40, 12)];

/// Draws a state in a number of columns and rows.
pub(crate) type Picture = Box<dyn Fn(usize, usize) -> Bench>;

/// All states with their names, in the order of these.
pub(crate) fn states() -> Vec<(String, Picture)> {
    let drawn =
        STATES.iter().map(|(name, state)| ((*name).to_owned(), Box::new(*state) as Picture));
    let cells = ItemKind::ALL.iter().map(|kind| {
        let picture = move |columns, rows| cells::of_kind(*kind, columns, rows);
        (format!("cell-{}", kind.name()), Box::new(picture) as Picture)
    });
    let mut states: Vec<_> = drawn.chain(cells).collect();
    states.sort_by(|(a, _), (b, _)| a.cmp(b));
    states
}

/// Compares what was found of each state with the file of its name in a folder of `tests`.
#[allow(clippy::disallowed_methods, reason = "whoever runs the test decides")]
pub(crate) fn compare(folder: &str, found: &[(String, String)]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder);
    let updates = std::env::var_os("UPDATE_STATES").is_some();
    let mut wrong = String::new();
    for (name, found) in found {
        let path = folder.join(format!("{name}.txt"));
        if updates {
            std::fs::write(&path, found).unwrap();
        }
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        if *found != expected {
            writeln!(wrong, "{}\n{found}", path.display()).unwrap();
        }
    }
    let files = std::fs::read_dir(&folder).unwrap();
    let mut names: Vec<String> = files
        .map(|file| file.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    names.sort_unstable();
    let states: Vec<&String> = found.iter().map(|(name, _)| name).collect();
    assert!(wrong.is_empty(), "these differ (UPDATE_STATES=1 rewrites them):\n{wrong}");
    assert_eq!(names.iter().collect::<Vec<_>>(), states, "every file is of a state");
}

#[test]
fn every_state_looks_as_it_is_written() {
    let found = states().into_iter().map(|(name, state)| {
        let mut found = String::new();
        for (columns, rows) in SIZES {
            let shown = state(columns, rows).shown();
            let fits = shown.lines().count() <= rows;
            assert!(fits, "{name}: more than {rows} rows:\n{shown}");
            writeln!(found, "== {columns} x {rows}\n{shown}\n").unwrap();
        }
        (name, found)
    });
    compare("states", &found.collect::<Vec<_>>());
}

/// The titles of dialogs and lists in the sources, as far as they are fixed.
#[test]
fn every_dialog_and_every_list_has_a_state() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let texts = |folder: PathBuf| {
        let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
        let is_file = |path: &PathBuf| path.is_file();
        files.filter(is_file).map(|file| std::fs::read_to_string(file).unwrap()).collect::<String>()
    };
    let states = texts(folder.join("tests/states"));
    let sources = texts(folder.join("src/app"));
    let mut count = 0;
    for call in
        ["Ask::offer(", "Ask::checklist(", "Ask::entry(", "Picker::fixed(", "Picker::paged("]
    {
        for (at, _) in sources.match_indices(call) {
            let after = sources[at + call.len()..].trim_start();
            let Some(title) = after.strip_prefix('"') else { continue };
            let title = title.split('"').next().unwrap();
            count += 1;
            assert!(
                states.contains(&format!("\n{title}")),
                "no state of tests/states has `{title}`"
            );
        }
    }
    assert!(count >= 20, "the titles are written in another way: {count}");
}
