//! `agentd sandbox` and `agentd rules` as a user runs them.

use crate::common::{TestEnvironment, stderr, stdout};
use serde_json::Value;

#[test]
fn a_command_runs_under_the_policy() {
    let env = TestEnvironment::new();
    let made = env.work().join("made");
    let read_only = env.run(&["sandbox", "--", "sh", "-c", "echo out; touch made; exit 3"]);
    assert_eq!((read_only.status.code(), stdout(&read_only).as_str()), (Some(3), "out\n"));
    assert!(stderr(&read_only).contains("Read-only file system"), "{}", stderr(&read_only));
    assert!(!made.exists());
    let writes = env.run(&["sandbox", "--mode", "workspace-write", "--", "touch", "made"]);
    assert!(writes.status.success() && made.exists(), "{}", stderr(&writes));
    let piped = env.pipe(&["sandbox", "--", "tr", "a-z", "A-Z"], "typed");
    assert_eq!(stdout(&piped), "TYPED");
    let killed = env.run(&["sandbox", "--", "sh", "-c", "kill -9 $$"]);
    assert_eq!(killed.status.code(), Some(137));
}

#[test]
fn a_command_that_cannot_start_is_reported() {
    let env = TestEnvironment::new();
    let missing = env.run(&["sandbox", "--", "no-such-program"]);
    assert_eq!(missing.status.code(), Some(127));
    assert!(stderr(&missing).contains("was not found"), "{}", stderr(&missing));
    std::fs::write(env.work().join("data"), "").unwrap();
    let data = env.run(&["sandbox", "--", "./data"]);
    assert_eq!(data.status.code(), Some(126));
    let unknown = env.run(&["sandbox", "--permissions", "unknown", "--", "true"]);
    assert_eq!(unknown.status.code(), Some(125));
    assert!(stderr(&unknown).contains("the configuration has none"), "{}", stderr(&unknown));
    let mut bare = env.agentd(&["sandbox", "--mode", "workspace-write", "--", "/bin/true"]);
    let bare = bare.env("PATH", "/nowhere").output().unwrap();
    let landlock = bare.status.success();
    assert!(landlock || bare.status.code() == Some(125), "{}", stderr(&bare));
}

/// As other programs that SIGPIPE ends, in every command that prints.
#[test]
#[cfg(unix)]
fn a_reader_that_is_gone_ends_a_command_quietly() {
    let env = TestEnvironment::new();
    let model = env.script(&serde_json::json!([{ "steps": [{ "message": "Hello." }] }]));
    let offline = r#"model_provider="offline""#;
    let cases: &[&[&str]] = &[
        &["manual"],
        &["completions", "bash"],
        &["rules", "check", "ls"],
        &["threads", "cost"],
        &["exec", "-c", offline, "-m", &model, "--ephemeral", "hi"],
        &["exec", "-c", offline, "-m", &model, "--ephemeral", "--json", "hi"],
    ];
    for arguments in cases {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = env.agentd(arguments).stdout(writer).output().unwrap();
        assert_eq!(output.status.code(), Some(141), "{arguments:?}: {}", stderr(&output));
        let said = stderr(&output);
        assert!(!said.contains("Broken pipe") && !said.contains("no reader"), "{said}");
    }
    // What cannot be written is an error all the same.
    #[cfg(target_os = "linux")]
    {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = env.agentd(&["manual"]).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains("No space left"), "{}", stderr(&output));
    }
}

#[test]
fn rules_are_explained() {
    let env = TestEnvironment::new();
    let folder = env.home().join("rules");
    std::fs::create_dir(&folder).unwrap();
    let rule = "prefix_rule(pattern=['git', 'push'], decision='prompt', justification='ours')";
    std::fs::write(folder.join("a.rules"), rule).unwrap();
    let script = env.run(&["rules", "check", "ls && git push origin"]);
    let text = stdout(&script);
    assert!(text.starts_with("prompt: it needs approval (ours)\n"), "{text}");
    assert!(text.contains("a.rules:1"), "{text}");
    let words = env.run(&["rules", "check", "--json", "git", "push", "--force"]);
    let found: Value = serde_json::from_str(&stdout(&words)).unwrap();
    assert_eq!(found["decision"], "prompt", "{found}");
    assert_eq!(found["matching"][0]["command"], "git push --force", "{found}");
    assert_eq!(found["dangerous"], true, "{found}");
    let safe = stdout(&env.run(&["rules", "check", "ls"]));
    assert!(safe.starts_with("no rule decides\nit only reads"), "{safe}");
    std::fs::write(folder.join("b.rules"), "host_executable(name='git')").unwrap();
    let odd = env.run(&["rules", "check", "git push"]);
    assert!(odd.status.success(), "{}", stdout(&odd));
    assert!(stdout(&odd).contains("warning: "), "{}", stdout(&odd));
    std::fs::write(folder.join("b.rules"), "rule(").unwrap();
    let broken = env.run(&["rules", "check", "ls"]);
    assert_eq!(broken.status.code(), Some(1));
    assert!(stdout(&broken).contains("b.rules:1:1"), "{}", stdout(&broken));
    let doctor = env.run(&["doctor"]);
    assert!(!doctor.status.success());
    assert!(stdout(&doctor).contains("PROBLEM rules"), "{}", stdout(&doctor));
    assert!(stdout(&doctor).contains("sandbox: seccomp"), "{}", stdout(&doctor));
}

/// The examples in `docs/sandbox.md` are valid.
#[test]
fn examples_of_the_sandbox_page_hold() {
    let page = include_str!("../../../../docs/sandbox.md");
    let block = |heading: &str| {
        let (_, section) = page.split_once(&format!("\n## {heading}\n")).unwrap();
        let (_, rest) = section.split_once("\n```").unwrap();
        let (_, text) = rest.split_once('\n').unwrap();
        text.split_once("```").unwrap().0.to_owned()
    };
    let env = TestEnvironment::new();
    std::fs::create_dir(env.home().join("rules")).unwrap();
    std::fs::write(env.home().join("rules/page.rules"), block("Rules")).unwrap();
    std::fs::write(env.home().join("config.toml"), block("The managed network")).unwrap();
    let verdict = stdout(&env.run(&["rules", "check", "cargo test && git push"]));
    assert!(verdict.starts_with("prompt: it needs approval (it talks to the server)"));
    let words = stdout(&env.run(&["rules", "check", "--json", "git", "push", "--force"]));
    assert!(words.contains("\"decision\":\"prompt\""), "{words}");
    let online = env.run(&["sandbox", "--", "sh", "-c", "echo $HTTP_PROXY; touch here"]);
    assert_eq!(stdout(&online), "http://127.0.0.1:3128\n", "{}", stderr(&online));
    assert!(env.work().join("here").exists());
}
