//! Edits of files: they keep comments and layout, and a batch is atomic.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use config::Error;
use config::edit::{Edit, Strategy as How, apply, write};
use config::version;
use proptest::prelude::*;
use serde_json::{Value, json};

fn replace(key: &str, value: Value) -> Edit {
    Edit { key_path: key.to_owned(), value, strategy: How::Replace }
}

fn upsert(key: &str, value: Value) -> Edit {
    Edit { key_path: key.to_owned(), value, strategy: How::Upsert }
}

fn put(path: &Path, edits: &[Edit]) -> Result<config::edit::Written, Error> {
    write(path, None, edits, &mut |_| Ok(()))
}

/// As editors store it: an edit keeps the mark of UTF-8, and stores UTF-16 as UTF-8.
#[test]
fn files_of_every_encoding_are_read_and_edited() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.toml");
    let text = "model = 'é'\r\n";
    let marked = format!("\u{feff}{text}");
    for (bytes, expected) in [
        (text.as_bytes().to_vec(), "model = \"b\"\r\n"),
        (marked.as_bytes().to_vec(), "\u{feff}model = \"b\"\r\n"),
        (marked.encode_utf16().flat_map(u16::to_le_bytes).collect(), "model = \"b\"\r\n"),
        (marked.encode_utf16().flat_map(u16::to_be_bytes).collect(), "model = \"b\"\r\n"),
    ] {
        std::fs::write(&path, &bytes).unwrap();
        let read = || {
            let layer = config::Layer::read(config::LayerName::User { file: path.clone() });
            layer.unwrap().unwrap()
        };
        assert_eq!(read().to_json(), json!({ "model": "é" }), "{bytes:?}");
        let same = put(&path, &[replace("model", json!("é"))]).unwrap();
        assert_eq!(same.version, read().version());
        assert_eq!(std::fs::read(&path).unwrap(), bytes, "nothing changes");
        let version = read().version().to_owned();
        let edits = [replace("model", json!("b"))];
        let written = write(&path, Some(&version), &edits, &mut |_| Ok(())).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
        assert_eq!(
            (read().to_json(), read().version()),
            (json!({ "model": "b" }), &*written.version)
        );
    }
}

#[test]
fn comments_of_a_file_without_keys_stay_at_its_beginning() {
    for (text, expect) in [
        ("# a\n", "# a\nmodel = \"m\"\n"),
        ("# a\n\n# b\n", "# a\n\n# b\nmodel = \"m\"\n"),
        ("# a", "# a\nmodel = \"m\"\n"),
        ("", "model = \"m\"\n"),
        ("# a\ntheme = 1\n# a\n", "# a\ntheme = 1\nmodel = \"m\"\n# a\n"),
    ] {
        assert_eq!(apply(text, &[replace("model", json!("m"))]).unwrap(), expect, "{text:?}");
    }
}

#[test]
fn edits_keep_comments_and_layout() {
    for (text, edits, expected) in [
        ("", vec![replace("model", json!("x"))], "model = \"x\"\n"),
        (
            "# top\nmodel = \"a\" # why\n\n[tui]\n",
            vec![replace("model", json!("b"))],
            "# top\nmodel = \"b\" # why\n\n[tui]\n",
        ),
        (
            "[tui]\ntheme = 'x'\n",
            vec![replace("model", json!("b"))],
            "model = \"b\"\n[tui]\ntheme = 'x'\n",
        ),
        ("a.b = 1\n", vec![replace("a.c", json!(2))], "a.b = 1\na.c = 2\n"),
        ("t = { a = 1 }\n", vec![replace("t.b", json!("x"))], "t = { a = 1 , b = \"x\" }\n"),
        (
            "[a]\nx = 1\n\n# about b\n[b]\ny = 2\n",
            vec![replace("a.z", json!(3))],
            "[a]\nx = 1\nz = 3\n\n# about b\n[b]\ny = 2\n",
        ),
        (
            "",
            vec![replace("projects.\"/a/b.c\".trust_level", json!("trusted"))],
            "[projects.\"/a/b.c\"]\ntrust_level = \"trusted\"\n",
        ),
        (
            "model = 'same' # kept\n",
            vec![replace("model", json!("same"))],
            "model = 'same' # kept\n",
        ),
        (
            "model = 'x'\n[t]\na = 1\n",
            vec![replace("model", Value::Null), replace("t.none", Value::Null)],
            "[t]\na = 1\n",
        ),
        (
            "[t]\na = 1 # one\nb = 2\n",
            vec![upsert("t", json!({ "b": 3, "c": true }))],
            "[t]\na = 1 # one\nb = 3\nc = true\n",
        ),
        (
            "[t]\na = 1 # one\nb = 2\n",
            vec![replace("t", json!({ "a": 1, "c": true }))],
            "[t]\na = 1 # one\nc = true\n",
        ),
        (
            "[[skills.config]]\npath = \"a\"\n",
            vec![replace("skills.config", json!([{ "path": "b" }]))],
            "[[skills.config]]\npath = \"b\"\n",
        ),
        (
            "model = 'a'\r\n[t]\r\n",
            vec![replace("t.x", json!(1))],
            "model = 'a'\r\n[t]\r\nx = 1\r\n",
        ),
        ("\u{feff}model = 'a'\n", vec![replace("model", json!("b"))], "\u{feff}model = \"b\"\n"),
        // Comments at the beginning are about the file.
        (
            "#:schema ./s.json\n# Mine.\n\n# The model\nmodel = 'a'\nprofile = 'p'\n",
            vec![replace("model", Value::Null)],
            "#:schema ./s.json\n# Mine.\n\n# The model\nprofile = 'p'\n",
        ),
        (
            "\u{feff}# Mine.\r\n[t]\r\na = 1\r\n",
            vec![replace("t", Value::Null)],
            "\u{feff}# Mine.\r\n",
        ),
        (
            "# Mine.\nt = 1\n# other\nb = 2\n",
            vec![replace("t", json!({ "a": 1 })), replace("b", Value::Null)],
            "# Mine.\nt = { a = 1 }\n",
        ),
        ("# Mine.\na.b = 1\n[c]\n", vec![replace("a", Value::Null)], "# Mine.\n[c]\n"),
        (
            "",
            vec![replace("l", json!([1, 2.5, "x", { "k": "v" }]))],
            "l = [1, 2.5, \"x\", { k = \"v\" }]\n",
        ),
    ] {
        assert_eq!(apply(text, &edits).unwrap(), expected, "{text:?}");
    }
}

#[test]
fn impossible_edits_are_refused_with_a_reason() {
    for (text, edit, expected) in [
        ("model = 1\n", replace("model.x", json!(1)), "`model` is a number, not a table"),
        ("a = [1]\n", replace("a.b.c", json!(1)), "`a` is an array, not a table"),
        ("", replace("a..b", json!(1)), "is not a key"),
        ("", replace("", json!(1)), "is not a key"),
        ("", replace("a", json!([null])), "a list cannot contain `null`"),
        ("", replace("a", json!(18_446_744_073_709_551_615_u64)), "signed 64-bit"),
        ("a = = 1\n", replace("b", json!(1)), "not valid TOML: line 1, column 5: "),
    ] {
        let error = apply(text, &[edit]).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn writes_keep_mode_and_links_and_fail_atomically() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep/config.toml");
    let written = put(&path, &[replace("model", json!("a"))]).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    assert_eq!(written.version, version(b"model = \"a\"\n"));
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
    let link = folder.path().join("link.toml");
    symlink("deep/config.toml", &link).unwrap();
    let through = put(&link, &[replace("model", json!("b"))]).unwrap();
    assert_eq!(through.path, path);
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
    let before = std::fs::read(&path).unwrap();
    let invalid = write(&path, None, &[replace("model", json!("c"))], &mut |_| {
        Err(Error::Edit { message: "not this".to_owned() })
    });
    assert_eq!(invalid.unwrap_err().to_string(), "not this");
    let conflict = write(&path, Some("sha256:0"), &[replace("model", json!("c"))], &mut |_| Ok(()));
    assert!(matches!(conflict, Err(Error::Conflict { .. })));
    let half = put(&path, &[replace("model", json!("c")), replace("model.x", json!(1))]);
    assert!(matches!(half, Err(Error::Edit { .. })));
    assert_eq!(std::fs::read(&path).unwrap(), before);
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o400)).unwrap();
    assert!(matches!(put(&path, &[replace("model", json!("c"))]), Err(Error::Write { .. })));
    std::fs::write(folder.path().join("deep/.config.toml.tmp"), "left behind").unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    put(&path, &[replace("model", json!("c"))]).unwrap();
    assert!(!folder.path().join("deep/.config.toml.tmp").exists());
    let circle = folder.path().join("circle");
    symlink(&circle, &circle).unwrap();
    assert!(matches!(put(&circle, &[]), Err(Error::Write { .. })));
    let here = folder.path().join("a-folder");
    std::fs::create_dir(&here).unwrap();
    assert_eq!(
        put(&here, &[replace("model", json!("c"))]).unwrap_err().to_string(),
        format!(
            "{}: it is a folder, so it cannot hold the configuration; move it away or delete it",
            here.display()
        )
    );
    let below = put(&path.join("config.toml"), &[]).unwrap_err().to_string();
    assert!(below.ends_with("a part of the path is a file: move it away"), "{below}");
    let dangling = folder.path().join("dangling");
    symlink("made.toml", &dangling).unwrap();
    put(&dangling, &[replace("a", json!(1))]).unwrap();
    assert!(folder.path().join("made.toml").is_file());
}

/// Environment variable with the file and the number of the second process.
const WRITER: &str = "AGENTD_TEST_WRITER";
const TASKS: usize = 4;

/// The second process of the tests below.
#[test]
fn second_writer() {
    let Some(job) = std::env::var_os(WRITER) else { return };
    let job = job.into_string().unwrap();
    let (path, rest) = job.split_once('|').unwrap();
    let (process, count) = rest.split_once('|').unwrap();
    many_writes(Path::new(path), process, count.parse().unwrap());
}

fn many_writes(path: &Path, process: &str, count: usize) {
    std::thread::scope(|scope| {
        for task in 0..TASKS {
            scope.spawn(move || {
                for n in 0..count / TASKS {
                    put(path, &[replace(&format!("p{process}.t{task}.n{n}"), json!(n))]).unwrap();
                }
            });
        }
    });
}

fn second(path: &Path, process: usize, count: usize) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "edits::second_writer", "--nocapture"])
        .env(WRITER, format!("{}|{process}|{count}", path.display()))
        .stdout(std::process::Stdio::null());
    command
}

#[test]
fn an_edit_of_a_text_that_is_not_toml_removes_the_cause_and_keeps_the_rest() {
    let unset = |key| replace(key, Value::Null);
    let set = |key| replace(key, json!("x"));
    for (text, edit, expected) in [
        ("model = 1 # a\nmodel = 2 # b\n[t]\na = 1\n", unset("model"), Some("[t]\na = 1\n")),
        ("model = 1 # a\nmodel = 2\nb = 1\n", set("model"), Some("model = \"x\" # a\nb = 1\n")),
        (
            "# c\nmodel = 1\n\"model\" = 2\n'model' = 3\n",
            set("model"),
            Some("# c\nmodel = \"x\"\n"),
        ),
        ("a = 1\nmodel = \"m\n# c\nb = 2\n", unset("model"), Some("a = 1\n# c\nb = 2\n")),
        (
            "a = 1\r\n model = \"m\r\nb = 2\r\n",
            set("model"),
            Some("a = 1\r\n model = \"x\"\r\nb = 2\r\n"),
        ),
        ("a = 1\nmodel =\nb = 2\n", set("model"), Some("a = 1\nmodel = \"x\"\nb = 2\n")),
        ("a = 1\nmodel\nb = 2\n", set("model"), Some("a = 1\nmodel = \"x\"\nb = 2\n")),
        ("model = yes", set("model"), Some("model = \"x\"\n")),
        ("l = [\"a\",\nb = 2\n", unset("l"), Some("b = 2\n")),
        ("[t]\nq = 1\n[u]\nq = 1\nq = 2\n", unset("u.q"), Some("[t]\nq = 1\n[u]\n")),
        ("[t]\nq = 1\n[u]\nr = 1\n[t]\ns = 2\n", unset("t"), Some("[u]\nr = 1\n")),
        ("\u{feff}model = 1\nmodel = 2\n", unset("model"), Some("\u{feff}")),
        // Another mistake stays, and is no reason to keep this one.
        ("model = \"m\nother = \"o\nb = 1\n", unset("model"), Some("other = \"o\nb = 1\n")),
        (
            "model = \"m\nother = \"o\nb = 1\n",
            set("model"),
            Some("model = \"x\"\nother = \"o\nb = 1\n"),
        ),
        // The edit is not the remedy.
        ("model = \"m\nother = 1\n", set("other"), None),
        ("model = \"m\nother = 1\n", unset("other"), None),
        ("model = \"m\nother = 1\n", set("new"), None),
        ("l = [\"a\",\n  \"b\"\nb = 2\n", unset("l"), None),
        // Lines that only look like the key.
        ("text = '''\nmodel = 1\n'''\nother = \"o\n", unset("model"), None),
        ("text = '''\nmodel = 1\n'''\nmodel = \"o\n", unset("model"), None),
    ] {
        let edited = apply(text, std::slice::from_ref(&edit));
        assert_eq!(edited.as_deref().ok(), expected, "{text:?} {edit:?} {edited:?}");
    }
    let both = [replace("a", Value::Null), replace("b", json!(1))];
    assert_eq!(apply("a = \nb = \nc = 1\n", &both).unwrap(), "b = 1\nc = 1\n");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.toml");
    std::fs::write(&path, "a = 1\na = 2\nmodel = \"m\n").unwrap();
    let error = put(&path, &[replace("b", json!(1))]).unwrap_err().diagnostic();
    assert!(
        error.contains("config.toml:2:1: not valid TOML: duplicate key; `a` is set"),
        "{error}"
    );
    assert!(error.contains("config.toml:3:11: not valid TOML: "), "{error}");
}

#[test]
fn a_number_in_a_key_names_an_element_of_a_list() {
    for (text, edit, expected) in [
        (
            "[[l]]\na = 1\n[[l]]\na = 2 # c\n",
            replace("l.1.a", json!(3)),
            Ok("[[l]]\na = 1\n[[l]]\na = 3 # c\n"),
        ),
        ("[[l]]\na = 1\n[[l]]\na = 2\n", replace("l.0", Value::Null), Ok("[[l]]\na = 2\n")),
        ("[[l]]\na = 1\n", replace("l.0", json!({ "b": 1 })), Ok("[[l]]\nb = 1\n")),
        ("l = [1, 2, 3]\n", replace("l.1", Value::Null), Ok("l = [1, 3]\n")),
        ("l = [1, 2]\n", replace("l.1", json!(5)), Ok("l = [1, 5]\n")),
        ("l = [{ a = 1, b = 2 }]\n", replace("l.0.a", Value::Null), Ok("l = [{ b = 2 }]\n")),
        ("l = [1]\n", replace("l.1", Value::Null), Ok("l = [1]\n")),
        (
            "l = [1]\n",
            replace("l.1", json!(5)),
            Err("`l` is an array, not a table; remove it first"),
        ),
        ("l = 1\n", replace("l.a", json!(5)), Err("`l` is a number, not a table; remove it first")),
        ("l = 1\n", replace("l.a", Value::Null), Ok("l = 1\n")),
        ("[l]\n", replace("l.0", json!(5)), Ok("[l]\n0 = 5\n")),
    ] {
        match (apply(text, &[edit]), expected) {
            (Ok(edited), Ok(expected)) => assert_eq!(edited, expected, "{text:?}"),
            (Err(error), Err(expected)) => assert!(error.to_string().contains(expected), "{error}"),
            (edited, expected) => panic!("{text:?}: {edited:?}, not {expected:?}"),
        }
    }
}

#[test]
fn two_processes_lose_no_update() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.toml");
    let count = 200;
    let mut writers: Vec<_> = (0..2).map(|n| second(&path, n, count).spawn().unwrap()).collect();
    for writer in &mut writers {
        assert!(writer.wait().unwrap().success());
    }
    let document: Value = json_of(&std::fs::read_to_string(&path).unwrap());
    for process in 0..2 {
        for task in 0..TASKS {
            for n in 0..count / TASKS {
                assert_eq!(document[format!("p{process}")][format!("t{task}")][format!("n{n}")], n);
            }
        }
    }
}

#[test]
fn a_killed_writer_leaves_a_complete_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.toml");
    for round in 0..10 {
        let mut writer = second(&path, round, 100_000).spawn().unwrap();
        let mut seen = 0;
        while seen <= round {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            seen = json_of(&text).as_object().unwrap().len();
        }
        writer.kill().unwrap();
        writer.wait().unwrap();
        put(&path, &[replace(&format!("after{round}"), json!(true))]).unwrap();
        std::fs::remove_file(&path).unwrap();
        put(&path, &(0..=round).map(|n| replace(&format!("k{n}"), json!(n))).collect::<Vec<_>>())
            .unwrap();
    }
}

fn json_of(text: &str) -> Value {
    let value: toml::Value = toml::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    serde_json::to_value(value).unwrap()
}

/// Applies the edits to plain JSON.
fn edit_json(document: &mut Value, edit: &Edit) -> bool {
    fn put(at: &mut Value, path: &[&str], value: &Value, merge: bool) -> bool {
        // There is nothing to remove.
        let Some(all) = at.as_object_mut() else { return value.is_null() };
        let (name, rest) = (path[0], &path[1..]);
        if !rest.is_empty() {
            if !all.contains_key(name) {
                if value.is_null() {
                    return true;
                }
                all.insert(name.to_owned(), json!({}));
            }
            return put(all.get_mut(name).unwrap(), rest, value, merge);
        }
        if value.is_null() {
            all.remove(name);
            return true;
        }
        match (all.get_mut(name), value) {
            (Some(Value::Object(_)), Value::Object(members)) if merge => {
                let inner = all.get_mut(name).unwrap();
                members.iter().all(|(key, value)| put(inner, &[key], value, merge))
            }
            _ => {
                all.insert(name.to_owned(), without_nulls(value));
                true
            }
        }
    }
    let path: Vec<&str> = edit.key_path.split('.').collect();
    put(document, &path, &edit.value, edit.strategy == How::Upsert)
}

/// Removes empty tables: removing the last key may remove its table.
fn pruned(value: Value) -> Value {
    match value {
        Value::Object(all) => {
            let kept = all.into_iter().map(|(key, value)| (key, pruned(value)));
            kept.filter(|(_, value)| *value != json!({})).collect()
        }
        other => other,
    }
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(all) => {
            let kept = all.iter().filter(|(_, value)| !value.is_null());
            kept.map(|(key, value)| (key.clone(), without_nulls(value))).collect()
        }
        other => other.clone(),
    }
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[ -~é\n\"']{0,8}".prop_map(Value::from),
        Just(Value::Null),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            proptest::collection::btree_map("[a-c]", inner, 0..3).prop_map(|all| json!(all)),
            proptest::collection::vec("[a-c]", 0..3).prop_map(|all| json!(all)),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn edits_match_edits_of_plain_json(
        edits in proptest::collection::vec(("[a-c](\\.[a-c]){0,2}", value(), any::<bool>()), 1..8),
        start in 0..4usize,
    ) {
        const STARTS: [&str; 4] = [
            "# a comment\n",
            "a = 1 # one\n[b]\nc = { a = 'x' } # two\n",
            "a.b.c = 1\nb = { a = 1 }\n\n# three\n[c.a]\nb = []\n",
            "[[a]]\nb = 1\n[[a]]\nc = 2\n[b.c]\na = 1\r\n",
        ];
        let edits: Vec<Edit> = edits
            .into_iter()
            .map(|(key, value, merge)| if merge { upsert(&key, value) } else { replace(&key, value) })
            .collect();
        let mut expected = json_of(STARTS[start]);
        let possible = edits.iter().all(|edit| edit_json(&mut expected, edit));
        match apply(STARTS[start], &edits) {
            Ok(text) => {
                prop_assert!(possible);
                prop_assert_eq!(pruned(json_of(&text)), pruned(expected), "{}", text);
                // A comment is removed only together with the key below it.
                let stays = !edits.iter().any(|edit| edit.key_path.starts_with('c'));
                let comments = ["# a comment", "# three"].into_iter().filter(|_| stays);
                for comment in comments.filter(|comment| STARTS[start].contains(comment)) {
                    prop_assert!(text.contains(comment), "{}", text);
                }
            }
            Err(error) => prop_assert!(!possible, "{} {}", error, expected),
        }
    }
}
