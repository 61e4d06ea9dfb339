//! Undo against real folders: a copy of the folder, taken before the turns, says what must come back.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use crate::common::{Place, picture, turn};
use proptest::prelude::*;
use undo::{Obstacle, Reason, Turn, Undo, Unkept};

#[test]
fn a_turn_is_undone_with_bytes_modes_and_links() {
    let mut place = Place::new();
    place.write("src/main.rs", b"fn main() {}\n");
    place.write("script", b"#!/bin/sh\n");
    std::fs::set_permissions(place.at("script"), PermissionsExt::from_mode(0o4751)).unwrap();
    place.write("gone/deep/file", &[0, 255, 10]);
    std::fs::create_dir(place.at("empty")).unwrap();
    symlink("src/main.rs", place.at("link")).unwrap();
    let odd = OsString::from_vec(b"odd \xff\n name".to_vec());
    std::fs::write(place.root().join(&odd), "odd").unwrap();
    let before = picture(&place.root());

    let turn = place.turn(|root| {
        std::fs::write(root.join("src/main.rs"), "fn other() {}\n").unwrap();
        std::fs::set_permissions(root.join("script"), PermissionsExt::from_mode(0o600)).unwrap();
        std::fs::remove_dir_all(root.join("gone")).unwrap();
        std::fs::write(root.join("gone"), "a file in its place").unwrap();
        std::fs::remove_dir(root.join("empty")).unwrap();
        std::fs::remove_file(root.join("link")).unwrap();
        std::fs::create_dir_all(root.join("link/is/a/folder")).unwrap();
        std::fs::write(root.join("link/is/a/folder/now"), "").unwrap();
        std::fs::remove_file(root.join(&odd)).unwrap();
        std::fs::create_dir(root.join("closed")).unwrap();
        std::fs::write(root.join("closed/file"), "").unwrap();
        std::fs::set_permissions(root.join("closed"), PermissionsExt::from_mode(0o500)).unwrap();
        std::fs::set_permissions(root.join("src"), PermissionsExt::from_mode(0o500)).unwrap();
    });
    let plan = place.plan(&turn);
    assert!(plan.conflicts.is_empty() && plan.unkept.is_empty(), "{plan:?}");
    place.restore_to(&turn, &before);
    // Its changes are forgotten.
    assert!(place.undo.plan(&turn).is_err());
}

#[test]
fn several_turns_are_undone_together_and_one_after_the_other() {
    for together in [true, false] {
        let mut place = Place::new();
        place.write("a", b"1");
        let first = picture(&place.root());
        let one = place.turn(|root| std::fs::write(root.join("a"), "2").unwrap());
        let second = picture(&place.root());
        let two = place.turn(|root| {
            std::fs::write(root.join("a"), "3").unwrap();
            std::fs::write(root.join("b"), "new").unwrap();
        });
        if !together {
            place.restore_to(&two, &second);
        }
        place.restore_to(&one, &first);
    }
}

#[test]
fn changes_from_elsewhere_are_kept_and_said() {
    type Elsewhere = fn(&Path);
    let cases: [(&str, Elsewhere); 3] = [
        ("after the turn", |root| std::fs::write(root.join("a"), "mine").unwrap()),
        ("after the turn", |root| std::fs::remove_file(root.join("a")).unwrap()),
        ("after the turn", |root| {
            std::fs::set_permissions(root.join("a"), PermissionsExt::from_mode(0o600)).unwrap();
        }),
    ];
    for (when, elsewhere) in cases {
        let mut place = Place::new();
        place.write("a", b"before");
        place.write("b", b"before");
        let before = picture(&place.root());
        let turn = place.turn(|root| {
            std::fs::write(root.join("a"), "after").unwrap();
            std::fs::write(root.join("b"), "after").unwrap();
        });
        elsewhere(&place.root());
        let changed = picture(&place.root());

        let plan = place.restore(&turn, false).unwrap_err();
        assert_eq!(plan.conflicts.len(), 1);
        assert_eq!(plan.conflicts[0].path, place.at("a"));
        assert!(plan.conflicts[0].why.contains(when), "{}", plan.conflicts[0].why);
        assert_eq!(picture(&place.root()), changed, "nothing is written");

        place.restore(&turn, true).unwrap();
        assert_eq!(picture(&place.root()), before);
    }
}

#[test]
fn a_change_between_two_calls_of_a_turn_is_a_conflict_also_if_the_turn_went_over_it() {
    let place = Place::new();
    place.write("a", b"0");
    let turn = turn("thread", 1);
    place.call(&turn, |root| std::fs::write(root.join("a"), "1").unwrap());
    place.write("a", b"by the user");
    place.write("other", b"by the user");
    place.call(&turn, |root| std::fs::write(root.join("a"), "2").unwrap());
    let plan = place.plan(&turn);
    assert_eq!(plan.conflicts.len(), 1, "{plan:?}");
    assert!(plan.conflicts[0].why.contains("between the turn's steps"));
    assert_eq!(plan.steps.len(), 1, "the other file is not the turn's");
}

#[test]
fn a_folder_of_the_turn_that_holds_what_stays_is_named_and_the_rest_is_restored() {
    type Filling = fn(&Path);
    let git: Filling = |root| std::fs::create_dir(root.join("made/.git")).unwrap();
    let ignored: Filling = |root| {
        let modules = root.join("made/node_modules");
        std::fs::create_dir(&modules).unwrap();
        for number in 0..=undo::MAX_IGNORED_ENTRIES {
            std::fs::write(modules.join(number.to_string()), "").unwrap();
        }
    };
    let deep: Filling = |root| std::fs::create_dir_all(root.join("made/deep/.git")).unwrap();
    let nothing: Filling = |_| {};
    let mine: Filling = |root| std::fs::write(root.join("made/mine"), "").unwrap();
    type Named = &'static [(&'static str, Obstacle)];
    let cases: [(Filling, Filling, Named); 4] = [
        (
            git,
            nothing,
            &[
                ("made", Obstacle::HoldsVersionControl),
                ("made/.git", Obstacle::NotKept(Reason::VersionControl)),
            ],
        ),
        (
            ignored,
            nothing,
            &[
                ("made", Obstacle::HoldsUnkept),
                ("made/node_modules", Obstacle::NotKept(Reason::Ignored)),
            ],
        ),
        (
            deep,
            nothing,
            &[
                ("made", Obstacle::HoldsUnkept),
                ("made/deep", Obstacle::HoldsVersionControl),
                ("made/deep/.git", Obstacle::NotKept(Reason::VersionControl)),
            ],
        ),
        (nothing, mine, &[("made", Obstacle::HoldsOthers)]),
    ];
    for (of_the_turn, of_others, expected) in cases {
        let mut place = Place::new();
        place.write(".gitignore", b"node_modules/");
        place.write("a", b"before");
        let turn = place.turn(|root| {
            std::fs::create_dir(root.join("made")).unwrap();
            std::fs::write(root.join("made/file"), "").unwrap();
            std::fs::write(root.join("a"), "after").unwrap();
            of_the_turn(root);
        });
        of_others(&place.root());
        let expected: Vec<_> = expected.iter().map(|(path, why)| (place.at(path), *why)).collect();
        let named = |unkept: &[Unkept]| -> Vec<_> {
            unkept.iter().map(|unkept| (unkept.path.clone(), unkept.obstacle)).collect()
        };
        let plan = place.plan(&turn);
        assert_eq!(named(&plan.unkept), expected);
        assert!(plan.steps.iter().all(|step| step.path != place.at("made")), "{plan:?}");
        let outcome = place.restore(&turn, false).unwrap();
        assert!(outcome.failed.is_empty(), "{outcome:?}");
        assert_eq!(named(&outcome.unkept), expected);
        assert_eq!(std::fs::read(place.at("a")).unwrap(), b"before");
        assert!(place.at("made").exists() && !place.at("made/file").exists());
        assert!(place.undo.plan(&turn).is_err(), "its changes are forgotten");
    }
}

#[test]
fn version_control_that_a_turn_removed_is_named() {
    for remove in [true, false] {
        let mut place = Place::new();
        place.write("a", b"before");
        if remove {
            place.write(".git/HEAD", b"ref: refs/heads/main");
        }
        let turn = place.turn(|root| {
            std::fs::write(root.join("a"), "after").unwrap();
            match remove {
                true => std::fs::remove_dir_all(root.join(".git")).unwrap(),
                // A file, as in a worktree.
                false => std::fs::write(root.join(".git"), "gitdir: ../elsewhere").unwrap(),
            }
        });
        let expected =
            Unkept { path: place.at(".git"), obstacle: Obstacle::NotKept(Reason::VersionControl) };
        assert_eq!(place.plan(&turn).unkept, [expected]);
        let outcome = place.restore(&turn, false).unwrap();
        assert!(outcome.failed.is_empty(), "{outcome:?}");
        assert_eq!(std::fs::read(place.at("a")).unwrap(), b"before");
        assert_eq!(place.at(".git").exists(), !remove);
    }
}

#[test]
fn agents_below_count_and_strangers_at_the_same_time_are_uncertain() {
    let place = Place::new();
    place.write("a", b"0");
    let root = place.root();
    let parent = turn("parent", 1);
    let child = Turn { tree: "parent".to_owned(), ..turn("child", 7) };
    place.undo.begin_turn(&parent).unwrap();
    let window = place.undo.begin(&root, &child).unwrap();
    place.write("a", b"1");
    place.undo.end(window).unwrap();
    let plan = place.undo.plan(&parent).unwrap();
    assert_eq!((plan.steps.len(), plan.conflicts.len()), (1, 0));

    // Another tree's call runs meanwhile: who changed it is not known.
    let stranger = place.undo.begin(&root, &turn("stranger", 1)).unwrap();
    let window = place.undo.begin(&root, &parent).unwrap();
    place.write("b", b"whose?");
    assert!(!place.undo.is_quiet(&parent));
    place.undo.end(window).unwrap();
    assert!(place.undo.is_quiet(&parent));
    place.undo.end(stranger).unwrap();
    let plan = place.undo.plan(&parent).unwrap();
    assert_eq!((plan.steps.len(), plan.conflicts.len()), (2, 1));
    assert!(plan.conflicts[0].why.contains("other calls"));
}

#[test]
fn a_change_while_two_trees_work_is_recorded_for_both() {
    let place = Place::new();
    let root = place.root();
    let (one, other) = (turn("one", 1), turn("other", 1));
    let first = place.undo.begin(&root, &one).unwrap();
    let second = place.undo.begin(&root, &other).unwrap();
    place.write("a", b"whose?");
    place.undo.end(second).unwrap();
    place.undo.end(first).unwrap();
    for turn in [&one, &other] {
        let plan = place.plan(turn);
        assert_eq!((plan.steps.len(), plan.conflicts.len()), (1, 1), "{plan:?}");
    }
    place.restore(&one, true).unwrap();
    assert!(!place.at("a").exists());
    assert!(place.plan(&other).steps.is_empty(), "it is undone already");
}

#[test]
fn what_is_not_kept_is_named() {
    let mut place = Place::new();
    place.write(".gitignore", b"target/\n*.log\n!kept.log\n");
    let huge = place.at("huge");
    std::fs::File::create(&huge).unwrap().set_len(undo::MAX_FILE_BYTES + 1).unwrap();
    for number in 0..=undo::MAX_IGNORED_ENTRIES {
        place.write(&format!("target/{number}"), b"object");
    }
    let large = vec![0; usize::try_from(undo::MAX_IGNORED_FILE_BYTES).unwrap() + 1];
    place.write("large.log", &large);
    place.write("small.log", b"small");
    place.write("kept.log", &large);
    place.write(".git/index", b"git's own");

    let turn = place.turn(|root| {
        for name in ["huge", "large.log", "small.log", "kept.log"] {
            std::fs::write(root.join(name), "other").unwrap();
        }
        std::fs::remove_dir_all(root.join("target")).unwrap();
        std::fs::write(root.join(".git/index"), "changed").unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, root.join("fifo"), kind, mode, 0).unwrap();
    });
    let plan = place.plan(&turn);
    let unkept: Vec<_> = plan
        .unkept
        .iter()
        .map(|unkept| (unkept.path.file_name().unwrap().to_str().unwrap(), unkept.obstacle))
        .collect();
    let expected =
        [("huge", Reason::TooLarge), ("large.log", Reason::Ignored), ("target", Reason::Ignored)]
            .map(|(name, reason)| (name, Obstacle::NotKept(reason)));
    assert_eq!(unkept, expected);
    let outcome = place.restore(&turn, false).unwrap();
    assert!(outcome.failed.is_empty(), "{outcome:?}");
    assert_eq!(std::fs::read(place.at("small.log")).unwrap(), b"small");
    assert_eq!(std::fs::read(place.at("kept.log")).unwrap(), large);
    assert_eq!(std::fs::read(place.at(".git/index")).unwrap(), b"changed");
    assert!(!place.at("fifo").exists());
}

#[test]
fn a_call_of_another_process_that_came_and_went_makes_changes_uncertain() {
    let place = Place::new();
    let turn = turn("thread", 1);
    let window = place.undo.begin(&place.root(), &turn).unwrap();
    place.write("a", b"whose?");
    // What another process does to the database when a call of its begins.
    let conn = rusqlite::Connection::open(place.folder.path().join("undo.sqlite")).unwrap();
    conn.execute("UPDATE window SET has_met_others = 1 WHERE process != 1", []).unwrap();
    place.undo.end(window).unwrap();
    let plan = place.plan(&turn);
    assert_eq!((plan.steps.len(), plan.conflicts.len()), (1, 1), "{plan:?}");
}

#[test]
fn a_turn_with_a_call_that_is_not_recorded_is_not_undone_by_halves() {
    let mut place = Place::new();
    place.write("a", b"0");
    let turn = place.turn(|root| std::fs::write(root.join("a"), "1").unwrap());
    // The end of the next call cannot be written.
    let window = place.undo.begin(&place.root(), &turn).unwrap();
    place.write("a", b"2");
    let conn = rusqlite::Connection::open(place.folder.path().join("undo.sqlite")).unwrap();
    let refuse = "CREATE TRIGGER full BEFORE INSERT ON event BEGIN
                      SELECT raise(ABORT, 'disk full'); END";
    conn.execute_batch(refuse).unwrap();
    assert!(place.undo.end(window).is_err());
    conn.execute_batch("DROP TRIGGER full").unwrap();
    assert!(matches!(place.undo.plan(&turn), Err(undo::Error::Unrecorded)));
    // Where it can be noted, other processes know it, too.
    place.undo.note_unrecorded(&turn);
    let later = Undo::open(&place.folder.path().join("undo.sqlite")).unwrap();
    assert!(matches!(later.plan(&turn), Err(undo::Error::Unrecorded)));
}

#[test]
fn the_wait_for_calls_ends_with_the_last_one() {
    let place = Place::new();
    let turn = turn("thread", 1);
    let window = place.undo.begin(&place.root(), &turn).unwrap();
    assert!(!place.undo.wait_until_quiet(&turn, std::time::Duration::ZERO));
    let limit = std::time::Duration::from_secs(60);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| place.undo.wait_until_quiet(&turn, limit));
        place.undo.end(window).unwrap();
        assert!(waiting.join().unwrap());
    });
}

#[test]
fn nothing_is_written_or_read_through_a_link_that_took_a_folders_place() {
    let mut place = Place::new();
    place.write("dir/file", b"inside");
    let outside = place.folder.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("file"), "outside").unwrap();
    let before = picture(&place.root());
    let turn = place.turn(|root| {
        std::fs::remove_dir_all(root.join("dir")).unwrap();
        symlink(&outside, root.join("dir")).unwrap();
    });
    place.restore_to(&turn, &before);
    assert_eq!(std::fs::read(outside.join("file")).unwrap(), b"outside");
}

#[test]
fn a_root_that_is_removed_comes_back() {
    let mut place = Place::new();
    place.write("a/b", b"1");
    let before = picture(&place.root());
    let turn = place.turn(|root| std::fs::remove_dir_all(root).unwrap());
    place.restore_to(&turn, &before);
}

#[test]
fn files_with_several_names_keep_them() {
    let mut place = Place::new();
    place.write("one", b"1");
    std::fs::hard_link(place.at("one"), place.at("two")).unwrap();
    let before = picture(&place.root());
    let turn = place.turn(|root| std::fs::write(root.join("one"), "longer").unwrap());
    place.restore_to(&turn, &before);
    assert_eq!(place.at("one").metadata().unwrap().nlink(), 2);
}

#[test]
fn the_database_may_be_in_the_folder() {
    let mut place = Place::new();
    std::fs::create_dir(place.at(".agent")).unwrap();
    place.undo = Undo::open(&place.at(".agent/undo.sqlite")).unwrap();
    place.write("a", b"0");
    let turn = place.turn(|root| std::fs::write(root.join("a"), "1").unwrap());
    let plan = place.plan(&turn);
    assert_eq!(plan.steps.len(), 1, "{plan:?}");
}

#[test]
fn damaged_contents_are_not_written() {
    let mut place = Place::new();
    place.write("a", b"before");
    let turn = place.turn(|root| std::fs::write(root.join("a"), "after").unwrap());
    let conn = rusqlite::Connection::open(place.folder.path().join("undo.sqlite")).unwrap();
    conn.execute("UPDATE content SET data = x'00'", []).unwrap();
    let outcome = place.restore(&turn, false).unwrap();
    assert_eq!(outcome.failed.len(), 1);
    assert!(outcome.failed[0].1.contains("damaged"), "{outcome:?}");
    assert_eq!(std::fs::read(place.at("a")).unwrap(), b"after");
}

#[test]
fn a_database_of_a_newer_program_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("undo.sqlite");
    drop(Undo::open(&path).unwrap());
    let conn = rusqlite::Connection::open(&path).unwrap();
    conn.pragma_update(None, "user_version", 99).unwrap();
    assert!(matches!(Undo::open(&path), Err(undo::Error::NewerDatabase { .. })));
    assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
}

#[test]
fn a_database_of_an_earlier_layout_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("undo.sqlite");
    drop(Undo::open(&path).unwrap());
    let conn = rusqlite::Connection::open(&path).unwrap();
    conn.pragma_update(None, "user_version", 1).unwrap();
    assert!(matches!(Undo::open(&path), Err(undo::Error::OlderDatabase { .. })));
    assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
}

/// What a call does: names are taken from a small set, so that calls meet.
#[derive(Clone, Debug)]
enum Action {
    Write(usize, Vec<u8>),
    Mode(usize, u32),
    Remove(usize),
    Link(usize, Vec<u8>),
    Rename(usize, usize),
    Folder(usize),
}

const NAMES: [&str; 8] = ["a", "b", "dir", "dir/a", "dir/deep", "dir/deep/a", "other/a", "other"];

impl Action {
    /// What fails does nothing, as for a program.
    fn run(&self, root: &Path) {
        let at = |name: &usize| root.join(NAMES[*name]);
        let _ = match self {
            Action::Write(name, contents) => {
                let _ = std::fs::create_dir_all(at(name).parent().unwrap());
                // Not through a link: what it leads to may be outside.
                if at(name).is_symlink() {
                    return;
                }
                std::fs::write(at(name), contents)
            }
            Action::Mode(name, _) if at(name).is_symlink() => return,
            Action::Mode(name, mode) => {
                std::fs::set_permissions(at(name), PermissionsExt::from_mode(*mode))
            }
            Action::Remove(name) => match at(name).symlink_metadata() {
                Ok(metadata) if metadata.is_dir() => std::fs::remove_dir_all(at(name)),
                _ => std::fs::remove_file(at(name)),
            },
            Action::Link(name, target) => symlink(std::ffi::OsStr::from_bytes(target), at(name)),
            Action::Rename(from, to) => std::fs::rename(at(from), at(to)),
            Action::Folder(name) => std::fs::create_dir(at(name)),
        };
    }
}

fn actions() -> impl Strategy<Value = Vec<Vec<Action>>> {
    let name = 0..NAMES.len();
    let action = prop_oneof![
        4 => (name.clone(), prop::collection::vec(any::<u8>(), 0..20))
            .prop_map(|(name, contents)| Action::Write(name, contents)),
        1 => (name.clone(), prop::sample::select(vec![0o700u32, 0o755, 0o744]))
            .prop_map(|(name, mode)| Action::Mode(name, mode)),
        2 => name.clone().prop_map(Action::Remove),
        1 => (name.clone(), "[a-z/.]{1,10}")
            .prop_map(|(name, target)| Action::Link(name, target.into_bytes())),
        2 => (name.clone(), name.clone()).prop_map(|(from, to)| Action::Rename(from, to)),
        1 => name.prop_map(Action::Folder),
    ];
    prop::collection::vec(prop::collection::vec(action, 0..6), 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(50))]

    /// Any turns, undone from any of them on, leave what was there before it.
    #[test]
    fn any_turns_are_undone(calls in actions(), from in 0usize..6) {
        let mut place = Place::new();
        let mut turns = Vec::new();
        for call in &calls {
            let before = picture(&place.root());
            let turn = place.turn(|root| call.iter().for_each(|action| action.run(root)));
            turns.push((turn, before));
        }
        let (turn, before) = &turns[from % turns.len()];
        place.restore_to(turn, before);
    }
}
