//! Which scripts run without asking.

use super::{at, words};
use crate::rules::{Invocation, Rules, assess};

/// One script a line.
const SAFE: &str = include_str!("safe.txt");
/// One script a line.
const UNSAFE: &str = include_str!("unsafe.txt");

fn is_safe(script: &str, cwd: &'static str) -> bool {
    assess(Invocation::Script(script), &at(cwd), &Rules::default()).known_safe
}

#[test]
fn harmless_commands_do_not_ask() {
    let rows = SAFE.lines().map(str::trim).filter(|line| !line.is_empty());
    let asked: Vec<&str> = rows.filter(|script| !is_safe(script, "/w")).collect();
    assert_eq!(asked, Vec::<&str>::new());
}

#[test]
fn other_commands_ask() {
    let rows = UNSAFE.lines().map(str::trim).filter(|line| !line.is_empty());
    let passed: Vec<&str> = rows.filter(|script| is_safe(script, "/w")).collect();
    assert_eq!(passed, Vec::<&str>::new());
}

#[test]
fn scripts_of_several_lines() {
    let check = |script: &str, expect: bool| {
        assert_eq!(is_safe(script, "/w"), expect, "{script:?}");
    };
    check("ls\npwd\n", true);
    check("# look\nls # here\n\npwd", true);
    check("ls \\\n  -l", true);
    check("ls &&\n pwd", true);
    check("grep -n \"a\nb\" x", true);
    check("ls\nrm x", false);
    check("ls\\\n-l", false);
    check("cat a\\ \\\nb", false);
    check("ls\r\nrm x", false);
    check("ls\rpwd", false);
    check("ls \u{b}pwd", false);
    check("ls \u{c}pwd", false);
    check("ls\0", false);
    check("ls\u{a0}-l", false);
    check("ls \u{202e}x", false);
    check("ls \u{200b}x", false);
    check("\u{feff}ls", false);
    check("cat <<EOF\nx\nEOF", false);
    check("cat <<'EOF'\nx\nEOF", false);
    check("", false);
    check("# only a comment", false);
    check(&"ls;".repeat(300), false);
    check(&format!("echo {}", "x".repeat(70_000)), false);
    check(&format!("{}ls{}", "(".repeat(500), ")".repeat(500)), false);
}

#[test]
fn repositories_that_name_programs_ask() {
    let check = |script: &str, cwd: &'static str, expect: bool| {
        assert_eq!(is_safe(script, cwd), expect, "{script} at {cwd}");
    };
    check("git status", "/w", true);
    check("git status", "/hostile", false);
    check("git log", "/hostile/deep", false);
    check("git -C /hostile status", "/w", false);
    check("git -C .. -C hostile status", "/w", false);
    check("git -C /w status", "/hostile", true);
    check("cd /hostile && git status", "/w", false);
    check("cd /hostile; git status", "/w", false);
    check("cd /w || true; git status", "/hostile", false);
    check("cd /w && git status", "/hostile", true);
    check("cd /w; git status", "/hostile", false);
    check("cd && git status", "/w", false);
    check("git status", "/modules", false);
    check("git diff", "/modules", false);
    check("git log -p", "/modules", true);
    check("bash -c 'cd /hostile && git status'", "/w", false);
    check("bash -lc 'git status'", "/w", true);
}

#[test]
fn direct_programs() {
    let check = |line: &str, expect: bool| {
        let argv = words(line);
        let found = assess(Invocation::Argv(&argv), &at("/w"), &Rules::default());
        assert_eq!(found.known_safe, expect, "{line}");
    };
    check("ls -l", true);
    check("/bin/ls -l", true);
    check("./ls -l", false);
    check("bash -lc ls", true);
    check("/bin/bash -c ls", true);
    check("sh -l -c ls", true);
    check("/opt/tools/bash -lc ls", false);
    check("./bash -lc ls", false);
    check("fish -c ls", false);
    check("bash -ic ls", false);
    check("bash -lc rm", false);
    check("bash -lc ls rm", false);
    check("bash ls", false);
    check("bash --rcfile x -c ls", false);
    check("ls ; rm", true);
    check("ls $(rm)", true);
    check("find . -name *.rs", true);
    check("find . -exec rm", false);
    check("rm -rf x", false);
}
