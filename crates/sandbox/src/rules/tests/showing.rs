//! What commands are shown to do.

use super::{at, words};
use crate::rules::{Action, Invocation, Rules, assess};

fn shown(invocation: Invocation<'_>) -> Vec<String> {
    let found = assess(invocation, &at("/w"), &Rules::default());
    found.actions.iter().map(line).collect()
}

fn line(action: &Action) -> String {
    let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    match action {
        Action::Read { name, path, .. } => format!("read {name} {}", path.display()),
        Action::ListFiles { path, .. } => format!("list {}", or_none(path)),
        Action::Search { query, path, .. } => {
            format!("search {} in {}", or_none(query), or_none(path))
        }
        Action::Unknown { command } => format!("unknown {command}"),
    }
}

#[test]
fn scripts() {
    let check = |script: &str, expect: &[&str]| {
        assert_eq!(shown(Invocation::Script(script)), expect, "{script}");
    };
    check("cat a", &["read a /w/a"]);
    check("cat src/../a b", &["read a /w/a", "read b /w/b"]);
    check("cat /etc/x | head -5", &["read x /etc/x"]);
    check("sed -n '1,5p' a", &["read a /w/a"]);
    check("nl -ba a | sed -n 1,5p", &["read a /w/a"]);
    check("nl -b a x", &["read x /w/x"]);
    check("head -n 5 a", &["read a /w/a"]);
    check("tail -20 a", &["read a /w/a"]);
    check("cd src && cat a", &["read a /w/src/a"]);
    check("cd src; cat a", &["unknown cd src; cat a"]);
    check("ls", &["list -"]);
    check("ls -la src | head", &["list src"]);
    check("tree -L 2 src", &["list src"]);
    check("find . -type f", &["list ."]);
    check("find src -name '*.rs'", &["search *.rs in src"]);
    check("find . -delete", &["unknown find . -delete"]);
    check("rg --files src", &["list src"]);
    check("rg foo", &["search foo in -"]);
    check("rg -n -A 3 foo src | head -50", &["search foo in src"]);
    check("rg -e foo src", &["search foo in src"]);
    check("grep -rn foo . | sort | uniq -c", &["search foo in ."]);
    check("grep foo a | grep -v bar", &["search foo in a"]);
    check("git grep foo", &["search foo in -"]);
    check("git ls-files src", &["list src"]);
    check("git status", &["unknown git status"]);
    check("ls && cat a", &["list -", "read a /w/a"]);
    check("echo -- x && cat a", &["read a /w/a"]);
    check("cat a && cat a", &["read a /w/a"]);
    check("cat a && make", &["unknown cat a && make"]);
    check("cat a | sh", &["unknown cat a | sh"]);
    check("cat a > b", &["unknown cat a > b"]);
    check("cat $x", &["unknown cat $x"]);
    check("cat *.rs", &["unknown cat *.rs"]);
    check("cat", &["unknown cat"]);
    check("cd src", &["unknown cd src"]);
    check("echo hi", &["unknown echo hi"]);
    check("echo x | tee a", &["unknown echo x | tee a"]);
    check("", &["unknown "]);
}

#[test]
fn commands_of_actions_read_back() {
    let found = assess(Invocation::Script("cat 'a b' | head"), &at("/w"), &Rules::default());
    let Some(Action::Read { command, .. }) = found.actions.first() else {
        unreachable!("a read");
    };
    assert_eq!(command, "cat 'a b'");
}

#[test]
fn direct_programs() {
    let check = |line: &str, expect: &[&str]| {
        let argv = words(line);
        assert_eq!(shown(Invocation::Argv(&argv)), expect, "{line}");
    };
    check("cat a", &["read a /w/a"]);
    check("bash -lc ls", &["list -"]);
    check("make a;b", &["unknown make 'a;b'"]);
}
