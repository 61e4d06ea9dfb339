use super::*;

fn note(is_general: bool, text: &str) -> Note {
    Note { is_general, text: text.into() }
}

fn addition(thread: &str, notes: Vec<Note>) -> Addition {
    Addition {
        thread: thread.into(),
        turn: "turn".into(),
        removals: 0,
        project: "/w/my project".into(),
        notes,
        max_bytes: 1_024,
    }
}

fn folder() -> (tempfile::TempDir, MemoryFolder) {
    let home = tempfile::tempdir().unwrap();
    let folder = MemoryFolder::new(home.path());
    (home, folder)
}

#[test]
fn notes_are_kept_by_project_and_given_with_their_lines() {
    let (_home, folder) = folder();
    let project = Path::new("/w/my project");
    assert_eq!(folder.notes(project, 1_000).unwrap(), MemoryNotes::default());
    let notes = vec![note(false, "Built with make."), note(true, "Likes tabs.")];
    assert!(folder.add(&addition("t1", notes.clone())).unwrap());
    assert!(folder.add(&addition("t2", notes)).unwrap(), "known notes are not repeated");
    let given = folder.notes(project, 1_000).unwrap();
    let line = |text: &str| MemoryLine { number: 3, text: text.into(), thread: Some("t1".into()) };
    let own = given.files[0].path.clone();
    assert!(own.starts_with("projects/myproject-"), "{own}");
    assert_eq!(given.files[0].lines, [line("- Built with make.")]);
    assert_eq!(
        given.files[1],
        MemoryFile { path: "general.md".into(), lines: vec![line("- Likes tabs.")] }
    );
    let other = folder.notes(Path::new("/w/other"), 1_000).unwrap();
    assert_eq!(other.files.len(), 1);
    let turn = Some("turn".to_owned());
    assert_eq!(folder.progress("t2").unwrap(), Progress { removals: 0, turn });
}

#[test]
fn the_newest_notes_stay_within_the_bounds() {
    let (home, folder) = folder();
    for number in 0..100 {
        let notes = vec![note(true, &format!("Note {number} {}.", "x".repeat(50)))];
        folder.add(&addition("t", notes)).unwrap();
    }
    let text = std::fs::read_to_string(home.path().join("memories/general.md")).unwrap();
    assert!(
        text.len() <= 1_024 && text.contains("Note 99 ") && !text.contains("Note 1 "),
        "{text}"
    );
    let given = folder.notes(Path::new("/w"), 200).unwrap();
    let lines = &given.files[0].lines;
    assert!((1..3).contains(&lines.len()) && lines.last().unwrap().text.contains("Note 99"));
}

#[test]
fn a_removal_leaves_nothing_and_stops_what_was_begun() {
    let (home, folder) = folder();
    folder.add(&addition("t1", vec![note(true, "Old.")])).unwrap();
    folder.reset().unwrap();
    let late = folder.add(&addition("t1", vec![note(true, "Late.")])).unwrap();
    let names: Vec<_> =
        std::fs::read_dir(home.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!((late, names), (false, vec![LOCK.into()]));
    assert_eq!(folder.progress("t1").unwrap(), Progress { removals: 1, turn: None });
    // What a killed server put aside goes with the next removal.
    std::fs::create_dir_all(home.path().join("memories.removed-9/projects")).unwrap();
    folder.reset().unwrap();
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 1);
}

#[cfg(unix)]
#[test]
fn hostile_files_are_refused_and_not_changed() {
    type Setup = fn(&Path);
    let cases: [(&str, Setup, &str); 6] = [
        (
            "a link to a folder",
            |home| std::os::unix::fs::symlink("/tmp", home.join(FOLDER)).unwrap(),
            "is not a folder",
        ),
        ("a file", |home| std::fs::write(home.join(FOLDER), "x").unwrap(), "is not a folder"),
        (
            "a socket",
            |home| {
                std::fs::create_dir(home.join(FOLDER)).unwrap();
                let path = home.join(FOLDER).join(GENERAL);
                drop(std::os::unix::net::UnixListener::bind(path).unwrap());
            },
            "general.md",
        ),
        (
            "a large file",
            |home| {
                std::fs::create_dir(home.join(FOLDER)).unwrap();
                let file = File::create(home.join(FOLDER).join(GENERAL)).unwrap();
                file.set_len(10 << 30).unwrap();
            },
            "general.md",
        ),
        (
            "no text",
            |home| {
                std::fs::create_dir(home.join(FOLDER)).unwrap();
                std::fs::write(home.join(FOLDER).join(GENERAL), [0xff]).unwrap();
            },
            "no UTF-8",
        ),
        (
            "a link to a file",
            |home| {
                std::fs::create_dir(home.join(FOLDER)).unwrap();
                std::os::unix::fs::symlink("/etc/passwd", home.join(FOLDER).join(GENERAL)).unwrap();
            },
            "general.md",
        ),
    ];
    for (what, setup, expected) in cases {
        let (home, folder) = folder();
        setup(home.path());
        let read = folder.notes(Path::new("/w"), 1_000).unwrap_err();
        let added = folder.add(&addition("t", vec![note(true, "x")])).unwrap_err();
        assert!(read.contains(expected) && added.contains(expected), "{what}: {read}; {added}");
        folder.reset().unwrap();
        assert!(!home.path().join(FOLDER).exists(), "{what}");
        assert!(
            folder.add(&Addition { removals: 1, ..addition("t", vec![note(true, "x")]) }).unwrap()
        );
    }
    assert!(Path::new("/etc/passwd").exists() && Path::new("/tmp").exists());
}

#[test]
fn names_of_projects_are_plain_and_differ() {
    let names =
        ["/", "/a/..x", "/b/..x", "/ü/\n", "/x/a;rm -rf"].map(|path| project_file(Path::new(path)));
    for (at, name) in names.iter().enumerate() {
        assert!(
            name.ends_with(".md")
                && !name.contains(['/', '\n', ' ', ';'])
                && !name.starts_with('.')
        );
        assert!(!names[..at].contains(name), "{names:?}");
    }
}

#[test]
fn drafts_of_a_server_that_was_killed_are_removed() {
    let (home, folder) = folder();
    folder.add(&addition("t1", vec![note(false, "Built with make.")])).unwrap();
    let draft = |folder: &str| home.path().join(folder).join(".agentd-7-0.tmp");
    let drafts = [draft("memories"), draft("memories/projects")];
    drafts.iter().for_each(|draft| std::fs::write(draft, "half").unwrap());
    folder.add(&addition("t2", vec![])).unwrap();
    assert!(drafts.iter().all(|draft| !draft.exists()));
}

#[test]
fn a_file_with_another_name_is_not_written() {
    let (home, folder) = folder();
    folder.add(&addition("t1", vec![note(true, "Likes tabs.")])).unwrap();
    let (general, other) = (home.path().join("memories/general.md"), home.path().join("other"));
    std::fs::hard_link(&general, &other).unwrap();
    let before = std::fs::read(&other).unwrap();
    let error = folder.add(&addition("t2", vec![note(true, "Likes spaces.")])).unwrap_err();
    assert!(error.contains("general.md") && error.contains("hard link"), "{error}");
    assert_eq!(std::fs::read(&other).unwrap(), before);
}
