//! What people expect to come first.

use std::time::{Duration, SystemTime};

use crate::support::{folder, found};

#[test]
fn results_are_ranked_as_people_expect() {
    for (why, query, expected) in [
        ("a name before a folder", "main", &["src/main.rs", "main/other.rs"][..]),
        ("the whole name first", "server", &["a/server.rs", "server_tests.rs", "my_server.rs"]),
        ("a file before a folder of the same name", "conn", &["x/conn.rs", "conn/"]),
        ("the start of a word", "conf", &["a/app_conf.rs", "a/disconform.rs"]),
        ("without gaps", "disp", &["a/dispatch.rs", "a/drift_span.rs"]),
        ("starts of words", "sct", &["a/sandbox_command_table.rs", "a/xsxcxtx.rs"]),
        ("camel case", "fbz", &["a/FooBarZip.java", "a/xfxbxz.java"]),
        ("the shorter path", "lib.rs", &["a/lib.rs", "a/b/lib.rs", "a/b/c/lib.rs"]),
        ("folders and the name", "handlers/fs", &["src/handlers/fs.rs", "handlers/a/foxes.rs"]),
        ("all words", "fs handlers", &["src/handlers/fs.rs"]),
        ("upper case is exact", "README", &["README.md"]),
        ("lower case is not", "readme", &["README.md", "docs/readme_first.txt"]),
        ("hidden files", ".env", &[".env", "a/.env.local", ".envrc"]),
    ] {
        let others = ["zz/zz", "src/other/lib_b.rs", "docs/readme_first.txt", "README.md"];
        let others = others.iter().filter(|path| !expected.contains(path));
        let tree = folder(expected.iter().chain(others));
        let expected: Vec<_> = expected.iter().map(|path| path.trim_end_matches('/')).collect();
        let mut found = found(tree.path(), query);
        // The order of what was not named here does not matter.
        found.retain(|path| expected.contains(&&**path));
        assert_eq!(found, expected, "{why}: {query}");
    }
}

#[test]
fn of_equal_matches_the_one_that_changed_recently_comes_first() {
    let tree = folder(["a/mod.rs", "b/c/mod.rs"]);
    let old = SystemTime::now() - Duration::from_secs(30 * 86_400);
    let set = |path: &str, time| {
        let file = std::fs::File::options().write(true).open(tree.path().join(path)).unwrap();
        file.set_modified(time).unwrap();
    };
    set("a/mod.rs", old);
    set("b/c/mod.rs", old);
    assert_eq!(found(tree.path(), "mod.rs"), ["a/mod.rs", "b/c/mod.rs"]);
    set("b/c/mod.rs", SystemTime::now() - Duration::from_secs(60));
    assert_eq!(found(tree.path(), "mod.rs"), ["b/c/mod.rs", "a/mod.rs"]);
    // A better match stays first.
    set("a/mod.rs", old);
    assert_eq!(found(tree.path(), "a/mod")[0], "a/mod.rs");
}

#[test]
fn an_empty_query_finds_what_is_near_the_root() {
    let tree = folder(["b.rs", "a/b/c/d.rs", "a/c.rs", "readme"]);
    assert_eq!(
        found(tree.path(), " "),
        ["b.rs", "a/c.rs", "readme", "a/b/c/d.rs", "a", "a/b", "a/b/c"]
    );
}
