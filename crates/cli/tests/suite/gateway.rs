//! `agentd gateway` from outside: the real program, without and with a configuration, killed, with
//! a reloaded configuration, and in front of `agentd exec`.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use crate::common::gateway::{ASKED, Gateway, TOKEN, configured, key};
use crate::common::{PATIENCE, Running, TestEnvironment, stderr, stdout};
use serde_json::{Value, json};

#[test]
fn without_configuration_it_serves_with_a_key_shown_once() {
    let env = TestEnvironment::new();
    // Port 8080 may be in use where tests run.
    let path = env.home().join("gateway.toml");
    std::fs::write(&path, "listen = \"127.0.0.1:0\"\n").unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:8080");
    if taken.is_ok() {
        drop(taken);
        let (gateway, key) = Gateway::start(&env, &[]);
        let key = key.expect("a key is shown at the first start");
        let (head, body) = gateway.ask("POST /v1/responses", &key, ASKED);
        assert!(head.starts_with("HTTP/1.1 200") && body.contains("response.completed"), "{body}");
        gateway.end();
        let (gateway, again) = Gateway::start(&env, &[]);
        assert_eq!(again, None, "it is shown once");
        let (head, _) = gateway.ask("GET /v1/models", &key, "");
        assert!(head.starts_with("HTTP/1.1 200"), "and it still holds: {head}");
        gateway.end();
    }
    let (gateway, none) = Gateway::start(&env, &["--config", path.to_str().unwrap()]);
    assert_eq!(none, None, "a configured gateway makes no keys by itself");
    let (head, body) = gateway.ask("GET /v1/models", "sk-proj-nothing", "");
    assert!(head.starts_with("HTTP/1.1 401") && body.contains("invalid_api_key"), "{head} {body}");
    gateway.end();
}

#[test]
fn usage_survives_a_kill() {
    let env = TestEnvironment::new();
    let config = configured(&env, "[tiers.free.limits.offline]\nrpd = 1000\ntpd = 1000000\n");
    let (gateway, _) = Gateway::start(&env, &["--config", &config]);
    let key = key(&gateway);
    for left in [999, 998, 997] {
        assert_eq!(gateway.header(&key, "x-ratelimit-remaining-requests"), left.to_string());
    }
    gateway.running.signal("KILL");
    drop(gateway);
    let (gateway, _) = Gateway::start(&env, &["--config", &config]);
    assert_eq!(gateway.header(&key, "x-ratelimit-remaining-requests"), "996");
    gateway.end();
}

/// Killed in the middle of a batch and restarted: every line is answered once.
#[test]
fn a_batch_resumes_after_a_kill() {
    const LINES: usize = 600;
    let env = TestEnvironment::new();
    let config = configured(&env, "[batches]\nlines_at_once = 1\n");
    let (gateway, _) = Gateway::start(&env, &["--config", &config]);
    let key = key(&gateway);
    let line = |number: usize| {
        json!({"custom_id": format!("line-{number}"), "method": "POST", "url": "/v1/responses",
            "body": {"model": "offline", "input": "hello"}})
    };
    let lines: Vec<String> = (0..LINES).map(|number| line(number).to_string()).collect();
    let file = gateway.upload(&key, &lines.join("\n"));
    let asked = json!({"input_file_id": file, "endpoint": "/v1/responses",
        "completion_window": "24h"});
    let (_, made) = gateway.ask("POST /v1/batches", &key, &asked.to_string());
    let made: Value = serde_json::from_str(&made).unwrap();
    let path = format!("GET /v1/batches/{}", made["id"].as_str().unwrap());
    let completed = |batch: &Value| batch["request_counts"]["completed"].as_u64().unwrap_or(0);
    let begun = gateway.poll(&key, &path, |batch| completed(batch) > 0);
    assert_eq!(begun["status"], "in_progress", "it is killed in the middle: {begun}");
    gateway.running.signal("KILL");
    drop(gateway);
    let (gateway, _) = Gateway::start(&env, &["--config", &config]);
    let ended = gateway.poll(&key, &path, |batch| batch["status"] == "completed");
    assert_eq!(completed(&ended), LINES as u64);
    let output = ended["output_file_id"].as_str().unwrap();
    let (_, output) = gateway.ask(&format!("GET /v1/files/{output}/content"), &key, "");
    let answered =
        |line: &str| serde_json::from_str::<Value>(line).unwrap()["custom_id"].to_string();
    let answered: Vec<String> = output.lines().map(answered).collect();
    let once: std::collections::HashSet<&String> = answered.iter().collect();
    assert_eq!((answered.len(), once.len()), (LINES, LINES));
    gateway.end();
}

#[test]
fn exec_waits_for_retry_after_and_finishes() {
    let env = TestEnvironment::new();
    std::fs::write(env.work().join("value.txt"), "broken\n").unwrap();
    let patch = "*** Begin Patch\n*** Update File: value.txt\n@@\n-broken\n+fixed\n*** End Patch\n";
    let script = env.script(&json!([
        {"steps": [{"custom_tool_call": {"name": "apply_patch", "input": patch}}]},
        {"steps": [{"function_call": {"name": "exec_command", "arguments": {"cmd": "cat value.txt"}}}]},
        {"expect": {"tool_output_contains": "fixed"}, "steps": [
            {"message": {"text": "It works now.", "phase": "final_answer"}}]},
    ]));
    let model = Running::start(&mut env.agentd(&["model-server", "--script", &script]));
    let line = model.line_with("listening on ");
    let (_, upstream) = line.split_once("listening on ").unwrap();
    // One in three seconds: the requests of a turn follow each other sooner.
    let config = configured(
        &env,
        &format!(
            "[upstreams.scripted]\nbase_url = \"{upstream}\"\n\
             [tiers.free.limits.offline]\nrpm = 20\n"
        ),
    );
    let (gateway, _) = Gateway::start(&env, &["--config", &config]);
    let key = key(&gateway);
    // Requests that fail at the model server use up the whole minute.
    let refused = r#"gateway_rejected_total{dimension="rpm",scope="organization"} "#;
    let exhaust = || {
        let spoiled = r#"{"model":"offline","input":7}"#;
        while gateway.metric(refused) == 0 {
            gateway.ask("POST /v1/responses", &key, spoiled);
        }
    };
    exhaust();
    let before = gateway.metric(refused);
    let settings = format!(
        "model = \"offline\"\nmodel_provider = \"gateway\"\nsandbox_mode = \"workspace-write\"\n\
         [model_providers.gateway]\nname = \"Gateway\"\nbase_url = \"http://{}/v1\"\n\
         env_key = \"GATEWAY_KEY\"\n",
        gateway.address
    );
    std::fs::write(env.home().join("config.toml"), settings).unwrap();
    let mut command = env.agentd(&["exec", "repair it"]);
    let began = Instant::now();
    let output = command.env("GATEWAY_KEY", &key).output().unwrap();
    assert_eq!(stdout(&output), "It works now.\n", "{}", stderr(&output));
    assert_eq!(std::fs::read_to_string(env.work().join("value.txt")).unwrap(), "fixed\n");
    assert!(gateway.metric(refused) > before, "it was refused at least once");
    assert!(began.elapsed() >= Duration::from_millis(400), "and waited");
    gateway.end();
}

#[test]
fn an_invalid_configuration_exits_with_one_line() {
    let env = TestEnvironment::new();
    let check = |text: &str, expected: &str| {
        let path = env.home().join("gateway.toml");
        std::fs::write(&path, text).unwrap();
        let output = env.run(&["gateway", "--config", path.to_str().unwrap()]);
        let stderr_text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{stderr_text}");
        assert!(
            stderr_text.contains(expected) && stderr_text.lines().count() == 1,
            "{stderr_text}"
        );
    };
    check("listen = 1", "gateway.toml:1: invalid type");
    check(
        "[models.a]\nupstream = \"b\"",
        "gateway.toml:2: models.a.upstream: there is no upstream",
    );
    let token = env.home().join("token");
    std::fs::write(&token, TOKEN).unwrap();
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o622)).unwrap();
    check(
        "[admin]\ntoken_file = \"token\"",
        "other users can change this file (mode 622); run `chmod",
    );
    // Readable by others, because container platforms mount secrets like this.
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o644)).unwrap();
    let path = env.home().join("gateway.toml");
    let output = env.run(&["gateway", "--check", "--config", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(stderr(&output).contains("WARNING: "), "{output:?}");
    assert!(stderr(&output).contains("other users can read this secret (mode 644)"), "{output:?}");
    let output = env.run(&["gateway", "--config", "/nonexistent/gateway.toml"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn the_configuration_is_reloaded_at_run_time() {
    let env = TestEnvironment::new();
    let limits = "[tiers.free.limits.offline]\nrpd = 1000\n";
    let config = configured(&env, limits);
    let (gateway, _) = Gateway::start(&env, &["--config", &config]);
    let key = key(&gateway);
    let until = |wanted: &str, body: &str| {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (head, body) = gateway.ask("POST /v1/responses", &key, body);
            if head.contains(wanted) {
                return;
            }
            assert!(Instant::now() < deadline, "never {wanted}: {head} {body}");
        }
    };
    let by_alias = ASKED.replace("offline", "small");
    until("404", &by_alias);
    // An invalid configuration is refused, and the old one stays in use.
    std::fs::write(&config, "listen = 5").unwrap();
    gateway.running.signal("HUP");
    configured(&env, &format!("aliases = [\"small\"]\n{}", limits.replace("1000", "500")));
    gateway.running.signal("HUP");
    until("200 OK", &by_alias);
    let left: u64 = gateway.header(&key, "x-ratelimit-remaining-requests").parse().unwrap();
    assert!(left < 500, "what was used stays used: {left}");
    gateway.end();
}

#[test]
fn the_log_is_json_on_request_and_contains_no_key() {
    let env = TestEnvironment::new();
    let upstream = "[upstreams.gpu]\nbase_url = \"http://127.0.0.1:9/v1\"\nenv_key = \"GPU_KEY\"";
    let config = configured(&env, upstream);
    let log = env.tmp().join("log");
    let mut command = env.agentd(&["gateway", "--config", &config]);
    command.env("GPU_KEY", "sk-very-secret").env("RUST_LOG", "gateway=debug");
    command.env("LOG_FORMAT", "json").stderr(std::fs::File::create(&log).unwrap());
    let (gateway, _) = Gateway::start_command(&mut command);
    let key = key(&gateway);
    let (head, _) = gateway.ask("POST /v1/responses", &key, ASKED);
    assert!(head.starts_with("HTTP/1.1 502"), "{head}");
    let request = head.lines().find_map(|line| line.strip_prefix("x-request-id: ")).unwrap();
    gateway.ask("GET /v1/models/sk-very-secret", &key, "");
    gateway.end();

    let log = std::fs::read_to_string(log).unwrap();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of_request = |level: &str| {
        lines.iter().find(|line| line["level"] == level && line["request"] == request).unwrap()
    };
    let failed = of_request("WARN");
    assert_eq!(failed["target"], "gateway::settlement");
    assert!(failed["message"].as_str().unwrap().starts_with("upstream gpu: "), "{failed}");
    let answered = of_request("DEBUG");
    assert_eq!((&answered["status"], &answered["path"]), (&json!(502), &json!("/v1/responses")));
    assert!(lines.iter().any(|line| line["path"] == "/v1/models/***"), "{log}");
    assert!(!log.contains("sk-very-secret"), "{log}");
}

/// A server of another kind at the address of the limits: waiting would not help.
#[test]
fn a_store_of_the_limits_that_cannot_be_used_ends_the_start() {
    let env = TestEnvironment::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            // Whatever is asked; unread bytes would reset the connection.
            let _ = std::io::Read::read(&mut stream, &mut [0; 4096]);
            let _ = std::io::Write::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let config =
        configured(&env, &format!("[limits]\nurl = \"redis://limits:secret-word@{address}\"\n"));
    let output = env.agentd(&["gateway", "--config", &config]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let errors = stderr(&output);
    let of_errors = errors.lines().filter(|line| !line.contains("WARNING"));
    assert_eq!(of_errors.count(), 1, "{errors}");
    for part in ["limits: the store of the limits is no Redis", &*address, "[limits] url"] {
        assert!(errors.contains(part), "{part}: {errors}");
    }
    assert!(!errors.contains("secret-word"), "{errors}");
}

#[test]
fn init_writes_what_a_gateway_begins_with() {
    let env = TestEnvironment::new();
    let run = |arguments: &[&str]| env.run(&[&["gateway", "init"][..], arguments].concat());
    let output = run(&["new/place", "--listen", "127.0.0.1:0"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let next = stdout(&output);
    for part in
        ["Wrote new/place/gateway.toml", "create-key --config new/place", "http://127.0.0.1:0/v1"]
    {
        assert!(next.contains(part), "{next}");
    }
    let folder = env.work().join("new/place");
    for name in ["gateway.toml", "admin.token"] {
        let mode = std::fs::metadata(folder.join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    let config = folder.join("gateway.toml");
    let check = env.run(&["gateway", "--config", config.to_str().unwrap(), "--check"]);
    assert!(check.status.success() && stderr(&check).is_empty(), "{}", stderr(&check));
    let (gateway, _) = Gateway::start(&env, &["--config", config.to_str().unwrap()]);
    let token = std::fs::read_to_string(folder.join("admin.token")).unwrap();
    let (head, body) = gateway.ask("GET /v1/organizations", token.trim(), "");
    assert!(head.starts_with("HTTP/1.1 200") && body.contains("org-default"), "{head} {body}");
    let mode = std::fs::metadata(folder.join("gateway.db")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "the store");
    let create = ["gateway", "create-key", "--config", config.to_str().unwrap(), "--name", "ci"];
    for project in [&[][..], &["--project", "bots"], &["--project", "bots"]] {
        let output = env.run(&[&create[..], project].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        let key = stdout(&output);
        // The gateway that runs reads changes of the store once a second.
        let (head, body) = gateway.ask("GET /v1/models", key.trim(), "");
        assert!(head.starts_with("HTTP/1.1 200"), "{key} {head} {body}");
    }
    let (_, body) = gateway.ask("GET /v1/organization/projects", token.trim(), "");
    let listed: Value = serde_json::from_str(&body).unwrap();
    let names: Vec<&str> =
        listed["data"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["Default project", "bots"]);
    let (_, body) = gateway.ask("GET /v1/organization/audit_logs", token.trim(), "");
    assert_eq!(body.matches("agentd gateway create-key").count(), 5, "{body}");
    gateway.end();
    let nameless = env.run(&[&create[..], &["--project", " "]].concat());
    assert_eq!(nameless.status.code(), Some(2), "{}", stderr(&nameless));
    let again = run(&["new/place"]);
    assert_eq!(again.status.code(), Some(2));
    assert!(stderr(&again).contains("new/place/gateway.toml already exists"), "{}", stderr(&again));
    let output = run(&["other", "--upstream", "https://m.test/v1", "--env-key", "MODELS_KEY"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let other = env.work().join("other/gateway.toml");
    let check = env
        .agentd(&["gateway", "--check", "--config", other.to_str().unwrap()])
        .env("MODELS_KEY", "sk-of-the-upstream")
        .output()
        .unwrap();
    assert!(check.status.success(), "{}", stderr(&check));
    for (arguments, expected) in [
        (&["third", "--upstream", "m.test"][..], "https://models.example/v1"),
        (&["third", "--env-key", "K"], "--upstream"),
        (&["third", "--listen", "localhost"], "127.0.0.1:8080"),
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    }
    assert!(!env.work().join("third").exists());
}
