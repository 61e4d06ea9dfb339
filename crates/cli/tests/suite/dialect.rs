//! `agentd app-server --dialect codex` and `agentd exec --experimental-json` in raw lines. The published
//! clients are run by `cargo xtask interop`.

use std::collections::BTreeSet;

use crate::common::{Running, TestEnvironment, listing, stderr, stdout};
use serde_json::{Value, json};

const DIALECT: [&str; 3] = ["app-server", "--dialect", "codex"];

fn hello() -> Value {
    json!({"clientInfo": {"name": "by_hand", "version": "1"}, "capabilities": {"experimentalApi": true}})
}

fn server(env: &TestEnvironment) -> Running {
    let mut server = Running::start(&mut env.agentd(&DIALECT));
    server.call(0, "initialize", hello());
    server.send(r#"{"method":"initialized"}"#);
    server
}

fn say(thread: &str, text: &str) -> Value {
    json!({"threadId": thread, "input": [{"type": "text", "text": text}]})
}

#[test]
fn a_conversation_in_the_other_names() {
    let env = TestEnvironment::new();
    let mut server = Running::start(&mut env.agentd(&DIALECT));
    let opened = server.call(0, "initialize", hello());
    assert_eq!(opened["result"]["codexHome"], env.home().to_str().unwrap());
    assert_eq!(opened["result"].get("agentHome"), None);
    let agent = opened["result"]["userAgent"].as_str().unwrap();
    assert!(agent.starts_with("by_hand/0.163.0 ("), "{agent}");
    let refusal =
        json!([{"steps": [{"error": {"status": 401, "code": "x", "message": "editor"}}]}]);
    let script = env.script(&refusal);
    let started = server.call(
        1,
        "thread/start",
        json!({"modelProvider": "offline", "model": script, "approvalPolicy": "on-request"}),
    );
    let started = &started["result"];
    assert_eq!(
        (&started["approvalPolicy"], &started["thread"]["source"]),
        (&json!("on-request"), &json!("vscode"))
    );
    let announced = server.notification("thread/started");
    assert_eq!(announced["thread"]["source"], "vscode");
    let thread = started["thread"]["id"].as_str().unwrap();
    server.call(2, "turn/start", say(thread, "agentErrorInfo"));
    let failed = server.notification("error");
    assert_eq!(failed["error"]["codexErrorInfo"], "unauthorized", "{failed}");
    let ended = server.notification("turn/completed");
    assert_eq!(ended["turn"]["error"]["codexErrorInfo"], "unauthorized", "{ended}");
    let read = server.call(3, "thread/read", json!({"threadId": thread, "includeTurns": true}));
    let turn = &read["result"]["thread"]["turns"][0];
    assert_eq!(turn["error"]["codexErrorInfo"], "unauthorized", "{turn}");
    assert_eq!(turn["items"][0]["content"][0]["text"], "agentErrorInfo");
    for kind in ["vscode", "editor"] {
        let found = server.call(4, "thread/list", json!({"sourceKinds": [kind]}));
        assert_eq!(found["result"]["data"][0]["source"], "vscode", "{kind}");
    }
    let both = json!({"sourceKinds": ["vscod"]});
    assert_eq!(server.call(5, "thread/list", both)["error"]["code"], -32602);
    assert!(server.end().0.success());
}

#[test]
fn resume_and_fork_return_turns_unless_excluded() {
    let env = TestEnvironment::new();
    let mut server = server(&env);
    let script = env.script(&json!([
        {"steps": [{"message": "One."}]},
        {"steps": [{"message": "Two."}, "idle"]},
    ]));
    let thread = server.thread(&script);
    server.call(2, "turn/start", say(&thread, "first"));
    server.notification("turn/completed");
    let running = server.call(3, "turn/start", say(&thread, "second"))["result"]["turn"].clone();
    server.message(|message| {
        message["method"] == "item/completed" && message["params"]["item"]["text"] == "Two."
    });
    // Requests that hold a permit for a long answer wait for the thread that a resume stops.
    for round in 0..8 {
        let read = json!({"id": 100 + round, "method": "thread/read",
            "params": {"threadId": thread, "includeTurns": true}});
        server.send(&read.to_string());
        let resumed = server.call(10, "thread/resume", json!({"threadId": thread}));
        let turns = resumed["result"]["thread"]["turns"].as_array().unwrap();
        let texts = |turn: &Value| -> Vec<Value> {
            turn["items"].as_array().unwrap().iter().map(|item| item["text"].clone()).collect()
        };
        assert_eq!(turns.len(), 2, "{resumed}");
        assert_eq!((&texts(&turns[0])[1], &texts(&turns[1])[1]), (&json!("One."), &json!("Two.")));
        assert_eq!((&turns[1]["id"], &turns[1]["status"]), (&running["id"], &json!("inProgress")));
    }
    let excluded = json!({"threadId": thread, "excludeTurns": true});
    let count = |answer: &Value| answer["result"]["thread"]["turns"].as_array().unwrap().len();
    assert_eq!(count(&server.call(11, "thread/resume", excluded.clone())), 0);
    let stop = json!({"threadId": thread, "turnId": running["id"]});
    server.call(12, "turn/interrupt", stop);
    server.notification("turn/completed");
    assert_eq!(count(&server.call(13, "thread/fork", json!({"threadId": thread}))), 2);
    assert_eq!(count(&server.call(14, "thread/fork", excluded)), 0);
    let params = json!({"modelProvider": "offline", "model": "echo", "ephemeral": true});
    let short = server.call(15, "thread/start", params)["result"]["thread"]["id"].clone();
    assert_eq!(count(&server.call(16, "thread/resume", json!({"threadId": short}))), 0);
    assert!(server.end().0.success());
}

#[test]
fn without_the_flag_nothing_changes() {
    let env = TestEnvironment::new();
    let mut server = Running::start(&mut env.agentd(&["app-server"]));
    let opened = server.call(0, "initialize", hello());
    assert_eq!(opened["result"]["agentHome"], env.home().to_str().unwrap());
    assert!(!opened["result"]["userAgent"].as_str().unwrap().contains("0.163"), "{opened}");
    let thread = server.thread("echo");
    server.call(2, "turn/start", say(&thread, "first"));
    server.notification("turn/completed");
    let resumed = server.call(3, "thread/resume", json!({"threadId": thread}));
    assert_eq!(resumed["result"]["thread"]["turns"], json!([]));
    assert_eq!(resumed["result"]["thread"]["source"], "editor");
    let listed = server.call(4, "thread/list", json!({"sourceKinds": ["vscode"]}));
    assert_eq!(listed["error"]["code"], -32602);
    assert!(server.end().0.success());
}

#[test]
fn the_environment_chooses_the_dialect_and_its_home() {
    let env = TestEnvironment::new();
    let other = env.tmp().join("other-home");
    std::fs::create_dir(&other).unwrap();
    let home = |variables: &[(&str, &str)], arguments: &[&str]| {
        let mut command = env.agentd(arguments);
        command.env_remove("AGENT_HOME").envs(variables.iter().copied());
        let mut server = Running::start(&mut command);
        let opened = server.call(0, "initialize", hello())["result"].clone();
        assert!(server.end().0.success());
        let home = |member: &str| opened[member].as_str().map(str::to_owned);
        (home("codexHome"), home("agentHome"))
    };
    let (named, ours) = (other.to_str().unwrap(), env.home());
    let ours = ours.to_str().unwrap();
    let dialect = ("AGENTD_DIALECT", "codex");
    let found = |path: &str| Some(path.to_owned());
    let plain = ["app-server"];
    assert_eq!(home(&[dialect, ("CODEX_HOME", named)], &plain), (found(named), None));
    assert_eq!(home(&[("CODEX_HOME", named)], &DIALECT), (found(named), None));
    let both = [dialect, ("CODEX_HOME", named), ("AGENT_HOME", ours)];
    assert_eq!(home(&both, &plain), (found(ours), None));
    let user = env.home().parent().unwrap().join(".agent");
    assert_eq!(
        home(&[("CODEX_HOME", named), ("AGENTD_DIALECT", "")], &plain),
        (None, found(user.to_str().unwrap()))
    );
    let mut command = env.agentd(&plain);
    let refused = command.env("AGENTD_DIALECT", "latin").output().unwrap();
    assert_eq!((refused.status.code(), stdout(&refused).as_str()), (Some(1), ""));
    assert!(
        stderr(&refused).contains("AGENTD_DIALECT: there is no dialect `latin`; set it to codex")
    );
    let refused = env.run(&["app-server", "--dialect", "latin"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("possible values: codex"), "{}", stderr(&refused));
}

#[test]
fn the_schema_has_a_folder_in_the_other_names() {
    let env = TestEnvironment::new();
    let names = |arguments: &[&str]| -> BTreeSet<String> {
        let out = env.tmp().join("schema");
        let all = [arguments, &["--out", out.to_str().unwrap()]].concat();
        let output = env.run(&all);
        assert!(output.status.success(), "{}", stderr(&output));
        let files = listing(&out);
        std::fs::remove_dir_all(&out).unwrap();
        files
            .into_iter()
            .map(|(path, _)| path.strip_prefix(&out).unwrap().to_str().unwrap().to_owned())
            .collect()
    };
    let plain = names(&["app-server", "generate-json-schema", "--experimental"]);
    assert_eq!(plain, ["agentd.schema.json", "methods.json"].map(str::to_owned).into());
    for arguments in [
        ["app-server", "--dialect", "codex", "generate-json-schema", "--experimental"],
        ["app-server", "generate-json-schema", "--dialect", "codex", "--experimental"],
    ] {
        let files = names(&arguments);
        assert!(files.is_superset(&plain) && files.contains("v2/TurnStartParams.json"));
    }
}

#[test]
fn configuration_of_the_command_line_adds_up_in_either_name() {
    let env = TestEnvironment::new();
    let address = r#"openai_base_url="http://127.0.0.1:9/v1""#;
    let shown = |dialect: &str| {
        let line = ["--config", address, "config", "show", "-c", "model=\"m\""];
        let output = env.agentd(&line).env("AGENTD_DIALECT", dialect).output().unwrap();
        stdout(&output) + &stderr(&output)
    };
    let found = shown("codex");
    assert!(
        found.contains("default_provider_base_url") && found.contains("127.0.0.1:9"),
        "{found}"
    );
    assert!(found.contains("\"m\""), "{found}");
    // Understood without the dialect as well, as in a file that a person brings along.
    assert!(shown("").contains("default_provider_base_url"), "{}", shown(""));
}

fn events(output: &std::process::Output) -> Vec<Value> {
    stdout(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

const EXEC: [&str; 5] =
    ["exec", "--experimental-json", "--skip-git-repo-check", "-c", r#"model_provider="offline""#];

#[test]
fn exec_prints_the_events_of_the_dialect() {
    let env = TestEnvironment::new();
    let run = |model: &str, more: &[&str]| {
        let arguments = [&EXEC[..], &["-m", model], more].concat();
        let output = env.run(&arguments);
        let found = events(&output);
        let types: Vec<String> =
            found.iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect();
        (output.status.code(), types, found)
    };
    let (code, types, found) = run("echo", &["--thread-source", "user", "hello"]);
    let expected = ["thread.started", "turn.started", "item.completed", "turn.completed"];
    assert_eq!((code, types), (Some(0), expected.map(str::to_owned).to_vec()));
    let id = found[0]["thread_id"].as_str().unwrap();
    let (code, types, found) = run("echo", &["resume", id, "more"]);
    assert_eq!((code, types), (Some(0), expected.map(str::to_owned).to_vec()));
    assert_eq!((&found[0]["thread_id"], &found[2]["item"]["text"]), (&json!(id), &json!("more")));
    let (_, _, found) = run("echo", &["resume", "--last", "the last"]);
    assert_eq!(found[0]["thread_id"], id);

    let script =
        env.script(&json!([{"steps": [{"error": {"status": 400, "message": "no such thing"}}]}]));
    let (code, types, found) = run(&script, &["hello"]);
    assert_eq!((code, types.last().unwrap().as_str()), (Some(1), "turn.failed"));
    assert!(found.last().unwrap()["error"]["message"].as_str().unwrap().contains("no such thing"));
    let (code, types, found) = run("echo", &["resume", "nothing", "more"]);
    assert_eq!((code, types), (Some(1), vec!["error".to_owned()]));
    assert!(found[0]["message"].as_str().unwrap().contains("thread not found"), "{found:?}");
}

#[test]
fn an_error_without_a_turn_is_an_event() {
    let env = TestEnvironment::new();
    let check = |more: &[&str], code: i32, expect: &str| {
        let output = env.pipe(&[&EXEC[..], more].concat(), "");
        let found = events(&output);
        assert_eq!((output.status.code(), found.len()), (Some(code), 1), "{more:?}: {found:?}");
        assert_eq!(found[0]["type"], "error", "{more:?}: {found:?}");
        assert!(found[0]["message"].as_str().unwrap().contains(expect), "{more:?}: {found:?}");
        assert!(stderr(&output).contains(expect), "{more:?}: {}", stderr(&output));
    };
    check(&["-m", "echo"], 2, "the prompt is empty");
    check(&["-m", "echo", "resume", "none"], 2, "the prompt is empty");
    check(&["-c", r#"sandbox_mode="zork""#, "hello"], 2, "sandbox_mode");
    check(&["--enable", "zork", "hello"], 2, "zork");
    check(&["--output-schema", "none.json", "hello"], 2, "none.json: No such file");
    check(&["--add-dir", "nowhere", "hello"], 2, "--add-dir: cannot use");
    check(&["--model-provider", "nobody", "hello"], 2, "nobody");
    check(&["-m", "echo", "resume", "none", "hello"], 1, "thread not found");
}

#[test]
fn exec_reads_the_key_and_the_home_of_the_dialect() {
    let env = TestEnvironment::new();
    let script = env.script(&json!([{
        "expect": {"header": {"authorization": "Bearer theirs"}}, "steps": [{"message": "In."}]
    }]));
    let model = Running::start(&mut env.agentd(&["model-server", "--script", &script]));
    let line = model.line_with("http://");
    let (_, address) = line.split_once("listening on ").unwrap();
    let address = format!("openai_base_url={address}");
    let mut command = env.agentd(&[EXEC[0], EXEC[1], EXEC[2], "--config", &address, "hello"]);
    command.env("CODEX_API_KEY", "theirs").env("AGENT_API_KEY", "ours");
    let other = env.tmp().join("other-home");
    let output = command.env_remove("AGENT_HOME").env("CODEX_HOME", &other).output().unwrap();
    let found = events(&output);
    assert_eq!(found[2]["item"]["text"], "In.", "{found:?} {}", stderr(&output));
    assert!(other.is_dir());
}

#[test]
fn invalid_arguments_of_exec_are_one_error_event_before_a_thread() {
    let env = TestEnvironment::new();
    std::fs::write(env.work().join("text"), "no image").unwrap();
    let check = |more: &[&str], expect: &str| {
        let output = env.run(&[&EXEC[..], &["-m", "echo"], more].concat());
        let found = events(&output);
        assert_eq!(output.status.code(), Some(2), "{more:?} {found:?} {}", stderr(&output));
        let [event] = found.as_slice() else { panic!("{more:?} {found:?}") };
        assert_eq!(event["type"], "error", "{more:?}");
        let message = event["message"].as_str().unwrap();
        assert!(message.contains(expect), "{more:?} {message}");
        assert!(!message.contains("Usage:"), "{message}");
        assert!(stderr(&output).contains(expect), "{more:?} {}", stderr(&output));
    };
    check(&["--image", "none.png", "hello"], "none.png: No such file");
    check(&["--image", "text", "hello"], "text: ");
    check(&["--image", ".", "hello"], "it is a folder");
    check(&["--model-provider", "zork", "hello"], "there is no provider `zork`");
    check(&["--thread-source", "", "hello"], "`threadSource`");
    check(&["-o", "none/last", "hello"], "none");
    check(&["review", ""], "`target.instructions`");
    check(&["review", "--base", " "], "`target.branch`");
    check(&["review", "--uncommitted"], "is not in a git repository");
    // Refused by the parser.
    check(&["--zork", "hello"], "--zork");
    check(&["-s", "zork", "hello"], "zork");
    check(&["--cd", "", "hello"], "--cd");
    check(&["resume"], "<THREAD_ID>");
    check(&["one", "two"], "two");
    check(&["review"], "INSTRUCTIONS");
    let output = env.run(&["exec", "--experimental-json", "-m", "", "hello"]);
    assert_eq!((output.status.code(), events(&output).len()), (Some(2), 1), "{}", stderr(&output));
    let output = env.run(&["exec", "--experimental-json", "--help"]);
    assert!(output.status.success() && stdout(&output).starts_with("Run one turn"));
}

#[test]
fn exec_leaves_the_final_message_to_the_program_of_the_dialect() {
    let env = TestEnvironment::new();
    let schema = r#"{"type":"object","properties":{},"required":[],"additionalProperties":false}"#;
    std::fs::write(env.work().join("schema.json"), schema).unwrap();
    // One message: a second request would fail.
    let script = env.script(&json!([{"steps": [{"message": "No JSON."}]}]));
    let output =
        env.run(&[&EXEC[..], &["-m", &script, "--output-schema", "schema.json", "hello"]].concat());
    let found = events(&output);
    assert_eq!(output.status.code(), Some(0), "{found:?} {}", stderr(&output));
    assert_eq!(found[2]["item"]["text"], "No JSON.");
}

#[test]
fn exec_of_the_dialect_asks_for_a_git_repository() {
    let env = TestEnvironment::new();
    let run = || env.run(&["exec", "--experimental-json", EXEC[3], EXEC[4], "-m", "echo", "hello"]);
    let refused = run();
    let found = events(&refused);
    assert_eq!((refused.status.code(), found.len()), (Some(2), 1), "{found:?}");
    for text in [found[0]["message"].as_str().unwrap(), &stderr(&refused)] {
        assert!(text.contains("Not inside a trusted directory: "), "{text}");
        assert!(text.contains("--skip-git-repo-check"), "{text}");
    }
    // A worktree has a file in place of the folder.
    std::fs::write(env.work().join(".git"), "gitdir: /elsewhere\n").unwrap();
    assert!(run().status.success());
}

#[test]
fn exec_lets_commands_write_in_further_folders() {
    let env = TestEnvironment::new();
    let extra = env.home().parent().unwrap().join("extra");
    std::fs::create_dir(&extra).unwrap();
    let file = extra.join("made");
    let command = format!("touch {} also-here", file.display());
    let script = env.script(&json!([
        {"steps": [{"function_call": {"name": "exec_command", "arguments": {"cmd": command}}}]},
        {"steps": [{"message": "Done."}]},
    ]));
    let closed = r#"sandbox_workspace_write={exclude_slash_tmp=true,exclude_tmpdir_env_var=true}"#;
    let base = [&EXEC[..], &["-c", closed, "-m", &script]].concat();
    let run = |more: &[&str]| env.run(&[&base, more].concat());
    let extra = extra.to_str().unwrap();
    run(&["--sandbox", "workspace-write", "touch"]);
    assert!(!file.exists());
    let output = run(&["--sandbox", "read-only", "--add-dir", extra, "touch"]);
    assert!(!file.exists());
    assert!(stderr(&output).contains("--add-dir has no effect"), "{}", stderr(&output));
    let here = env.work().join("also-here");
    std::fs::remove_file(&here).unwrap();
    let first = run(&["--sandbox", "workspace-write", "--ephemeral", "--add-dir", extra, "touch"]);
    assert!(file.exists(), "{} {}", stdout(&first), stderr(&first));
    // The working folder stays writable.
    assert!(here.exists());
}

#[test]
fn exec_reviews() {
    let env = TestEnvironment::new();
    let git = |arguments: &[&str]| {
        let done = std::process::Command::new("git")
            .args(["-c", "user.name=t", "-c", "user.email=t@localhost"])
            .args(arguments)
            .env("HOME", env.home())
            .current_dir(env.work())
            .status();
        assert!(done.unwrap().success(), "git {arguments:?}");
    };
    git(&["init", "-q"]);
    std::fs::write(env.work().join("zebra.txt"), "stripes\n").unwrap();
    let script = env.script(&json!([
        {"expect": {"contains": "zebra.txt"}, "steps": [{"message": "Looks good to me."}]}
    ]));
    let base = ["exec", "-c", r#"model_provider="offline""#, "-m", &script];
    let output = env.run(&[&base[..], &["review", "--uncommitted"]].concat());
    let errors = stderr(&output);
    assert_eq!(
        (output.status.code(), stdout(&output).as_str()),
        (Some(0), "Looks good to me.\n"),
        "{errors}"
    );
    assert!(!errors.contains("Looks good to me."), "{errors}");
    let arguments = [&EXEC[..], &["-m", &script, "review", "the file zebra.txt"]].concat();
    let found = events(&env.run(&arguments));
    let messages = found.iter().filter(|event| event["item"]["type"] == "agent_message");
    let texts: Vec<&Value> = messages.map(|event| &event["item"]["text"]).collect();
    assert_eq!(texts, ["Looks good to me."], "{found:?}");
    let piped = env.pipe(&[&base[..], &["review", "-"]].concat(), "the file zebra.txt");
    assert_eq!(stdout(&piped), "Looks good to me.\n", "{}", stderr(&piped));
}
