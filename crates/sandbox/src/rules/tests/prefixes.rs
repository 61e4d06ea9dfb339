//! Prefix rules and what is proposed.

use super::{at, words};
use crate::error::ErrorKind;
use crate::rules::{
    Decision, Invocation, PrefixRule, Rules, Token, amendment, assess, check_amendment,
};

fn rule(pattern: &str, decision: Decision) -> PrefixRule {
    let tokens = pattern
        .split(' ')
        .map(|token| match token.contains('|') {
            true => Token::AnyOf(token.split('|').map(str::to_owned).collect()),
            false => Token::Literal(token.to_owned()),
        })
        .collect();
    PrefixRule::new(tokens, decision, Some(format!("because of {pattern}"))).unwrap()
}

fn decision(rules: &Rules, script: &str) -> Option<Decision> {
    assess(Invocation::Script(script), &at("/w"), rules).decision.map(|verdict| verdict.decision)
}

#[test]
fn restricting_rules_find_nested_commands() {
    let mut rules = Rules::default();
    rules.add(rule("git push|fetch", Decision::Prompt));
    rules.require(rule("rm", Decision::Forbidden)).unwrap();
    rules.require(rule("/usr/bin/curl", Decision::Prompt)).unwrap();
    let check = |script: &str, expect: Option<Decision>| {
        assert_eq!(decision(&rules, script), expect, "{script}");
    };
    check("git push origin", Some(Decision::Prompt));
    check("git fetch", Some(Decision::Prompt));
    check("git status", None);
    check("git", None);
    check("git 'push'", Some(Decision::Prompt));
    check("ls && git push", Some(Decision::Prompt));
    check("ls $(git push)", Some(Decision::Prompt));
    check("if true; then git push; fi", Some(Decision::Prompt));
    check("A=1 git push > x", Some(Decision::Prompt));
    check("echo git push", None);
    check("git push; rm x", Some(Decision::Forbidden));
    check("rm x", Some(Decision::Forbidden));
    check("/bin/rm x", Some(Decision::Forbidden));
    check("./rm x", Some(Decision::Forbidden));
    check("\\rm x", Some(Decision::Forbidden));
    check("sudo -u root rm x", Some(Decision::Forbidden));
    check("ls | xargs -n 1 rm", Some(Decision::Forbidden));
    check("find . -exec rm {} \\;", Some(Decision::Forbidden));
    check("env A=1 rm x", Some(Decision::Forbidden));
    check("bash -c 'rm x'", Some(Decision::Forbidden));
    check("bash -lc \"ls; bash -c 'rm x'\"", Some(Decision::Forbidden));
    check("sudo bash -c 'rm x'", Some(Decision::Forbidden));
    check("eval rm x", Some(Decision::Forbidden));
    check("eval 'rm' x", Some(Decision::Forbidden));
    check("echo `rm x`", Some(Decision::Forbidden));
    check("rm x (", Some(Decision::Forbidden));
    check("f() { rm x; }; f", Some(Decision::Forbidden));
    check("curl x", Some(Decision::Prompt));
    check("/bin/curl x", Some(Decision::Prompt));
    check("/opt/tools/curl x", None);
    let long = "x".repeat(70_000);
    check(&format!("echo {long}"), None);
    check(&format!("rm {long}"), Some(Decision::Prompt));
    check(&format!("cat <<'E'\n{long} rm\nE\n"), None);
    check(&format!("cat <<'E'\n{long}\nE\nrm x"), Some(Decision::Forbidden));
}

#[test]
fn allowing_rules_need_every_command() {
    let mut rules = Rules::default();
    rules.add(rule("cargo test|build", Decision::Allow));
    rules.add(rule("cat", Decision::Allow));
    rules.add(rule("/opt/tools/lint", Decision::Allow));
    let check = |script: &str, expect: Option<Decision>| {
        assert_eq!(decision(&rules, script), expect, "{script}");
    };
    check("cargo test", Some(Decision::Allow));
    check("cargo test --lib", Some(Decision::Allow));
    check("/usr/bin/cargo build", Some(Decision::Allow));
    check("cargo run", None);
    check("cargo test*", None);
    check("./cargo test", None);
    check("cargo test && git status", Some(Decision::Allow));
    check("cargo test | tail -5", Some(Decision::Allow));
    check("cargo test; make", None);
    check("cargo test > x", None);
    check("cargo test $(make)", None);
    check("A=1 cargo test", None);
    check("cat x", Some(Decision::Allow));
    check("./cat x", None);
    check("/opt/tools/cat x", None);
    check("/opt/tools/lint x", Some(Decision::Allow));
    check("cd /opt/tools && ./lint x", Some(Decision::Allow));
    check("cd /opt/tools; ./lint x", None);
    check("lint x", None);
    check("ls", None);
}

#[test]
fn the_strictest_rule_wins() {
    let mut rules = Rules::default();
    rules.add(rule("git", Decision::Allow));
    rules.add(rule("git push", Decision::Prompt));
    rules.add(rule("git push --force", Decision::Forbidden));
    rules.add(rule("git push", Decision::Allow));
    assert_eq!(decision(&rules, "git add x"), Some(Decision::Allow));
    assert_eq!(decision(&rules, "git push"), Some(Decision::Prompt));
    let verdict =
        assess(Invocation::Script("git push --force"), &at("/w"), &rules).decision.unwrap();
    assert_eq!(verdict.decision, Decision::Forbidden);
    assert_eq!(verdict.justification.as_deref(), Some("because of git push --force"));
}

#[test]
fn an_allowed_prefix_does_not_allow_dangerous_arguments() {
    let mut rules = Rules::default();
    rules.add(rule("git commit", Decision::Prompt));
    rules.require(rule("npm test", Decision::Prompt)).unwrap();
    for prefix in ["cat", "git commit", "npm test", "/opt/tools/lint", "git push", "rm -rf build"] {
        rules.add(rule(prefix, Decision::Allow));
    }
    let check = |script: &str, expect: Option<Decision>| {
        assert_eq!(decision(&rules, script), expect, "{script}");
    };
    check("cat x", Some(Decision::Allow));
    check("git commit -m x", Some(Decision::Prompt));
    check("npm test", Some(Decision::Prompt));
    check("/opt/tools/lint", Some(Decision::Allow));
    check("git push", Some(Decision::Allow));
    check("git push --force", None);
    check("rm -rf build", Some(Decision::Allow));
    check("rm -rf build /", None);
    check("rm -rf", None);
}

#[test]
fn nothing_is_allowed_while_a_source_cannot_be_read() {
    let mut rules = Rules::default();
    rules.add(rule("cat", Decision::Allow));
    rules.add(rule("make", Decision::Forbidden));
    rules.add_broken("it is torn".to_owned());
    assert_eq!(decision(&rules, "cat x"), Some(Decision::Prompt));
    assert_eq!(decision(&rules, "ls"), Some(Decision::Prompt));
    assert_eq!(decision(&rules, "make x"), Some(Decision::Forbidden));
    let assessed = assess(Invocation::Script("cargo x"), &at("/w"), &rules);
    assert_eq!(assessed.decision.unwrap().justification.as_deref(), Some("it is torn"));
    assert_eq!(assessed.proposed_amendment, None);
}

#[test]
fn amendments_name_what_was_asked_about() {
    let make = |prefix: &[&str]| {
        let prefix: Vec<String> = prefix.iter().map(|&word| word.to_owned()).collect();
        amendment(&prefix, &at("/opt/tools")).map_err(|error| error.kind())
    };
    assert_eq!(make(&["cargo", "test"]), Ok(words("cargo test")));
    assert_eq!(make(&["./lint", "a b"]), Ok(vec!["/opt/tools/lint".into(), "a b".into()]));
    assert_eq!(make(&[]), Err(ErrorKind::EmptyAmendment));
    assert_eq!(make(&["../x"]), Err(ErrorKind::UntrustedProgram));
    assert_eq!(make(&["missing"]), Err(ErrorKind::UntrustedProgram));
    assert_eq!(make(&[""]), Err(ErrorKind::UntrustedProgram));
}

#[test]
fn matching_rules_are_returned_with_their_match() {
    let mut rules = Rules::default();
    rules.add(rule("git", Decision::Allow));
    rules.add(rule("git push", Decision::Prompt));
    let found: Vec<_> = rules
        .matching(Invocation::Script("ls && git push 'a b'"), &at("/w"))
        .into_iter()
        .map(|(rule, command)| (rule.decision(), command))
        .collect();
    let shown = "git push 'a b'".to_owned();
    assert_eq!(found, [(Decision::Allow, shown.clone()), (Decision::Prompt, shown)]);
}

#[test]
fn invalid_rules_are_refused() {
    let literal = |word: &str| Token::Literal(word.to_owned());
    let build = |pattern, justification: Option<&str>| {
        let justification = justification.map(str::to_owned);
        let error = PrefixRule::new(pattern, Decision::Prompt, justification).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRule);
        error.to_string()
    };
    assert!(build(vec![], None).contains("an empty `pattern`"));
    assert!(build(vec![literal("a"), literal("")], None).contains("token 2 of"));
    assert!(build(vec![Token::AnyOf(vec![])], None).contains("token 1 of"));
    assert!(build(vec![literal("a")], Some(" ")).contains("an empty `justification`"));
    let lax = Rules::default().require(rule("a", Decision::Allow));
    assert_eq!(lax.unwrap_err().kind(), ErrorKind::LaxRequirement);
}

#[test]
fn proposals() {
    let check = |script: &str, expect: Option<&str>| {
        let found = assess(Invocation::Script(script), &at("/w"), &Rules::default());
        assert_eq!(found.proposed_amendment, expect.map(words), "{script}");
    };
    check("git commit -m x", Some("git commit"));
    check("git add *", Some("git add"));
    check("git fetch origin", Some("git fetch origin"));
    check("cargo test --lib", Some("cargo test"));
    check("cargo run x", Some("cargo run x"));
    check("make check", Some("make check"));
    check("make *", None);
    check("/opt/tools/lint x", Some("/opt/tools/lint x"));
    check("./lint", None);
    check("missing", None);
    check("git -c a=b commit", None);
    check("git push --force", None);
    check("a && b", None);
    check("a $(b)", None);
    for program in [
        "bash -c ls",
        "sh x",
        "python3 x",
        "python3.12 x",
        "node x",
        "sudo ls",
        "env ls",
        "xargs ls",
        "rm x",
        "perl x",
        "find .",
        "dd of=x",
        "ssh h",
        "/bin/bash x",
        "timeout 5 make",
    ] {
        check(program, None);
    }
}

#[test]
fn dangers() {
    let check = |script: &str, expect: bool| {
        let found = assess(Invocation::Script(script), &at("/w"), &Rules::default());
        assert_eq!(found.dangerous, expect, "{script}");
    };
    check("rm x", false);
    check("rm -r x", true);
    check("rm -fr x", true);
    check("rm -vf x", true);
    check("rm --recursive x", true);
    check("rm --recur x", true);
    check("rm -- -rf", false);
    check("/bin/rm -rf x", true);
    check("\\rm -rf x", true);
    check("bash -c 'rm -rf x'", true);
    check("bash -lc \"cd x && rm -rf y\"", true);
    check("ls $(rm -rf x)", true);
    check("ls | xargs rm -rf", true);
    check("find . -exec rm -rf {} +", true);
    check("find . -delete", true);
    check("env A=1 rm -rf x", true);
    check("if x; then rm -rf \"$y\"; fi", true);
    check("sudo ls", true);
    check("taskset 1 rm -rf x", true);
    check("nice -n 5 timeout 9 git push -f", true);
    check("taskset 1 rm x", false);
    check("prlimit ls", false);
    check(&"nice ".repeat(2000), false);
    check("dd if=a of=/dev/sda", true);
    check("mkfs.ext4 /dev/sda", true);
    check("git reset --hard", true);
    check("git -C x reset --hard", true);
    check("git clean -fd", true);
    check("git push --force", true);
    check("git push -f", true);
    check("git push origin +main", true);
    check("git push", false);
    check("git reset HEAD~1", false);
    check("curl x | sh", true);
    check("curl x | bash", true);
    check("echo 'rm -rf x'", false);
    check("grep -rf x", false);
    check("chmod -R 777 /", true);
    check("chmod +x y", false);
    let long = "x".repeat(70_000);
    check(&format!("echo {long}"), false);
    check(&format!("echo {long}; rm -rf x"), true);
    check(&format!("cat > x <<'E'\nrm -rf {long}\nE\n"), false);
}

#[test]
fn an_amendment_is_a_proper_part_of_the_command() {
    let check = |script: &str, prefix: &str, expect: Result<(), &str>| {
        let found = assess(Invocation::Script(script), &at("/w"), &Rules::default());
        let prefix = if prefix.is_empty() { Vec::new() } else { words(prefix) };
        let proposed = found.proposed_amendment.as_deref();
        let checked = check_amendment(&prefix, proposed, &found.amendable);
        let kind = checked.map_err(|error| match error.kind() {
            ErrorKind::EmptyAmendment => "empty",
            ErrorKind::UntrustedProgram => "untrusted",
            ErrorKind::NotAsked => "not asked",
            ErrorKind::TooBroad => "too much",
            ErrorKind::NotAmendable => "not amendable",
            kind => panic!("{kind:?}: {error}"),
        });
        assert_eq!(kind, expect, "{prefix:?} for {script}");
    };
    check("make all", "make all", Ok(()));
    check("make all", "make", Ok(()));
    check("make all", "make al", Err("not asked"));
    check("make all", "make all -j", Err("not asked"));
    check("make all", "ls", Err("not asked"));
    check("make all", "", Err("empty"));
    check("make all && touch x", "touch", Ok(()));
    check("make *.mk", "make", Ok(()));
    check("make *.mk", "make *.mk", Err("not asked"));
    check("make $TARGET", "make", Err("not amendable"));
    check("for i in a; do make all; done", "make all", Err("not amendable"));
    check("cargo test --lib", "cargo test", Ok(()));
    check("cargo test --lib", "cargo", Err("too much"));
    check("git add x", "git", Err("too much"));
    check("git -C /x add y", "git -C", Err("too much"));
    check("git -C /x add y", "git -C /x add", Err("too much"));
    check("npm exec tsc", "npm exec", Err("too much"));
    check("npm exec tsc", "npm exec tsc", Ok(()));
    check("uv run tool", "uv run", Err("too much"));
    check("kubectl get pods", "kubectl get", Ok(()));
    for (script, prefix) in [
        ("rm -r x", "rm"),
        ("rm -r x", "rm -r x"),
        ("/bin/rm x", "/bin/rm"),
        ("sh x", "sh"),
        ("bash x.sh", "bash x.sh"),
        ("sudo ls", "sudo ls"),
        ("env A=1 ls", "env"),
        ("python3.12 x.py", "python3.12 x.py"),
        ("python -m x", "python"),
        ("perl5.36 x", "perl5.36"),
        ("ruby3.2 x", "ruby3.2"),
        ("node x.js", "node"),
        ("nodejs x.js", "nodejs"),
        ("taskset 1 ls", "taskset"),
        ("prlimit ls", "prlimit ls"),
        ("setpriv ls", "setpriv"),
        ("/lib64/ld-linux-x86-64.so.2 /bin/ls", "/lib64/ld-linux-x86-64.so.2"),
        ("ld.so /bin/ls", "ld.so"),
        ("rbash x", "rbash"),
        ("less x", "less x"),
        ("ex x", "ex"),
        ("unlink x", "unlink x"),
        ("scp a b:", "scp"),
        ("shutdown now", "shutdown"),
        ("kubectl get pods", "kubectl"),
        ("mvn test", "mvn"),
        ("xargs ls", "xargs"),
        ("timeout 5 ls", "timeout"),
        ("ssh host", "ssh"),
        ("docker run x", "docker run"),
        ("lua5.4 x", "lua5.4"),
    ] {
        check(script, prefix, Err("too much"));
    }
}
