//! Threads in PostgreSQL as a user has them: real servers on a real database, its outages, and `agentd store`.

use std::fs;
use std::process::{Command, Output};
use std::time::Instant;

use serde_json::{Value, json};

use crate::common::servers::{Certificate, Postgres, free_port};
use crate::common::{PATIENCE, Running, TestEnvironment, stderr, stdout};

/// A home whose threads are in a schema of the server at `url`.
fn home(url: &str, more: &str) -> TestEnvironment {
    let env = TestEnvironment::new();
    configure(&env, url, more);
    env
}

fn configure(env: &TestEnvironment, url: &str, more: &str) {
    let text = format!("[store]\nurl = {url:?}\n{more}\n");
    fs::write(env.home().join("config.toml"), text).unwrap();
}

fn migrate(env: &TestEnvironment) -> String {
    let output = env.run(&["store", "migrate"]);
    assert!(output.status.success(), "{}", stderr(&output));
    stdout(&output)
}

/// A model that says the last text of the user, and one that stops in the middle of its answer.
fn models(env: &TestEnvironment) -> (String, String) {
    let says = json!({ "on_exhausted": "repeat_last", "responses": [
        { "steps": [{ "message": "Said: {{last_user_text}}" }] },
    ] });
    let hangs =
        json!({ "responses": [{ "steps": [{ "message": "Begun." }, { "delay_ms": 600_000 }] }] });
    let write = |name: &str, script: Value| {
        let path = env.tmp().join(name);
        fs::write(&path, script.to_string()).unwrap();
        path.display().to_string()
    };
    (write("says.json", says), write("hangs.json", hangs))
}

fn input(thread: &str, text: &str) -> Value {
    json!({ "threadId": thread, "input": [{ "type": "text", "text": text }] })
}

fn run_turn(server: &mut Running, thread: &str, text: &str) {
    let started = server.call(7, "turn/start", input(thread, text));
    assert!(started.get("error").is_none(), "{started}");
    let ended = server.notification("turn/completed");
    assert_eq!(ended["turn"]["status"], "completed", "{ended}");
}

fn turns(server: &mut Running, thread: &str) -> Vec<Value> {
    let read = json!({ "threadId": thread, "includeTurns": true });
    let answer = server.call(8, "thread/read", read);
    assert!(answer.get("error").is_none(), "{answer}");
    answer["result"]["thread"]["turns"].as_array().unwrap().clone()
}

/// The statuses of turns, each with the text of its last item.
fn told(turns: &[Value]) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let of = |turn: &Value| {
        let last = turn["items"].as_array().and_then(|items| items.last());
        (text(&turn["status"]), last.map(|item| text(&item["text"])).unwrap_or_default())
    };
    turns.iter().map(of).collect()
}

/// The answer to a request once it is none of the errors that contain `passing`.
fn until_it_works(server: &mut Running, method: &str, params: &Value, passing: &str) -> Value {
    let began = Instant::now();
    loop {
        let answer = server.call(6, method, params.clone());
        let Some(error) = answer.get("error") else { return answer["result"].clone() };
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(passing) && began.elapsed() < PATIENCE, "{message}");
    }
}

fn has_database(env: &TestEnvironment) -> bool {
    env.home().join("threads.db").exists()
}

fn refused(output: &Output, code: i32, expected: &[&str]) {
    let said = stderr(output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    for part in expected {
        assert!(said.contains(part), "{part:?} is not in: {said}");
    }
}

// Effect of `store.url`, `store.schema`.
#[test]
fn another_server_goes_on_with_threads_of_one_that_was_killed() {
    let postgres = Postgres::start();
    let one = home(&postgres.url(), "schema = \"team\"");
    let two = home(&postgres.url(), "schema = \"team\"");
    let (says, hangs) = models(&one);
    let output = one.run(&["exec", "-m", &says, "-c", "model_provider=offline", "Hi."]);
    refused(&output, 1, &["schema team of PostgreSQL at 127.0.0.1:", "agentd store migrate"]);
    assert!(migrate(&one).contains("created the tables, version 1"));
    assert!(migrate(&two).contains("nothing to do, the tables have version 1"));

    let mut server = Running::server(&one, &[]);
    let thread = server.thread(&says);
    run_turn(&mut server, &thread, "One.");
    let mut second = Running::server(&two, &[]);
    assert_eq!(told(&turns(&mut second, &thread)), [("completed".into(), "Said: One.".into())]);
    // The other home has no way to the server that has the thread open.
    let error = second.call(5, "thread/resume", json!({ "threadId": thread }));
    let message = error["error"]["message"].as_str().unwrap();
    assert!(message.contains("is open in another server (process "), "{message}");
    assert!(server.end().0.success());
    second.call(5, "thread/resume", json!({ "threadId": thread }));
    run_turn(&mut second, &thread, "Two.");

    let hanging = second.thread(&hangs);
    second.call(4, "turn/start", input(&hanging, "Begin."));
    second
        .message(|it| it["method"] == "item/completed" && it["params"]["item"]["text"] == "Begun.");
    second.signal("KILL");
    second.wait();
    let mut third = Running::server(&one, &[]);
    for id in [&thread, &hanging] {
        let resume = json!({ "threadId": id });
        until_it_works(&mut third, "thread/resume", &resume, "is open in another server");
    }
    let ended = told(&turns(&mut third, &hanging));
    assert_eq!(ended, [("interrupted".into(), "Begun.".into())]);
    run_turn(&mut third, &thread, "Three.");
    let all =
        ["Said: One.", "Said: Two.", "Said: Three."].map(|text| ("completed".into(), text.into()));
    assert_eq!(told(&turns(&mut third, &thread)), all);
    assert!(third.end().0.success());
    let listed = two.run(&["threads", "list"]);
    assert!(stdout(&listed).contains(&thread), "{}{}", stdout(&listed), stderr(&listed));
    assert!(!has_database(&one) && !has_database(&two), "nothing is in SQLite");
    let doctor = stdout(&one.run(&["doctor"]));
    assert!(
        doctor.contains("threads: version 1, in schema team of PostgreSQL at 127.0.0.1"),
        "{doctor}"
    );
}

#[test]
fn a_database_that_is_away_is_named_and_comes_back() {
    let mut postgres = Postgres::start();
    let env = home(&format!("postgres://me@127.0.0.1:{}/threads", free_port()), "");
    let (says, _) = models(&env);
    let began = Instant::now();
    let output = env.run(&["exec", "-m", &says, "-c", "model_provider=offline", "Hi."]);
    refused(
        &output,
        1,
        &["cannot use PostgreSQL at 127.0.0.1:", "/threads", "check that PostgreSQL runs"],
    );
    assert!(began.elapsed() < PATIENCE);
    let doctor = env.run(&["doctor"]);
    assert!(
        stdout(&doctor).contains("PROBLEM threads: cannot use PostgreSQL"),
        "{}",
        stdout(&doctor)
    );

    configure(&env, &postgres.url(), "");
    migrate(&env);
    let mut server = Running::server(&env, &[]);
    let thread = server.thread(&says);
    run_turn(&mut server, &thread, "One.");
    postgres.kill();
    let read = json!({ "threadId": thread, "includeTurns": true });
    let error = server.call(5, "thread/read", read.clone());
    let message = error["error"]["message"].as_str().expect("the database is away");
    assert!(message.contains("PostgreSQL at 127.0.0.1:"), "{message}");
    postgres.restart();
    let found = until_it_works(&mut server, "thread/read", &read, "PostgreSQL at");
    assert_eq!(found["thread"]["turns"][0]["status"], "completed");
    // The lease can have ended meanwhile; then the thread is opened again.
    let (resume, began) = (json!({ "threadId": thread }), Instant::now());
    let rename = json!({ "threadId": thread, "name": "Back" });
    loop {
        until_it_works(&mut server, "thread/resume", &resume, "");
        let renamed = server.call(4, "thread/name/set", rename.clone());
        let Some(error) = renamed.get("error") else { break };
        assert!(began.elapsed() < PATIENCE, "{error}");
    }
    run_turn(&mut server, &thread, "Two.");
    assert_eq!(told(&turns(&mut server, &thread)).len(), 2);
    assert!(server.end().0.success() && !has_database(&env));
}

// Effect of `store.env_key`, `store.ca_file`.
#[test]
fn the_password_comes_from_a_variable_and_the_certificate_is_verified() {
    let names = vec!["127.0.0.1".to_owned()];
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(names).unwrap();
    let (chain, key) = (cert.pem(), signing_key.serialize_pem());
    let postgres = Postgres::start_with_tls(&Certificate { chain: &chain, key: &key });
    let administer = |sql: &str| {
        let mut psql = Command::new(Postgres::program("psql"));
        let output = psql.args([&postgres.url(), "-qAt", "-c", sql]).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
    };
    administer("CREATE ROLE app LOGIN PASSWORD 'open sesame'");
    administer("CREATE DATABASE threads OWNER app");
    let rules =
        "'host all postgres 127.0.0.1/32 trust', 'hostssl all app 127.0.0.1/32 scram-sha-256'";
    administer(&format!(
        "DO $$ BEGIN EXECUTE format('COPY (SELECT unnest(ARRAY[%L, %L])) TO %L', {rules},
             current_setting('hba_file')); END $$"
    ));
    administer("SELECT pg_reload_conf()");

    let url = format!("postgres://app@127.0.0.1:{}/threads", postgres.port());
    let env = home(&url, "env_key = \"THREADS_PASSWORD\"\nca_file = \"ca.pem\"");
    fs::write(env.home().join("ca.pem"), &chain).unwrap();
    let run = |password: Option<&str>, arguments: &[&str]| {
        let mut command = env.agentd(arguments);
        command.envs(password.map(|password| ("THREADS_PASSWORD", password)));
        command.output().unwrap()
    };
    refused(&run(None, &["store", "migrate"]), 1, &["THREADS_PASSWORD", "is not set"]);
    let wrong = run(Some("wrong"), &["store", "migrate"]);
    refused(&wrong, 1, &["refuses the login", "check the user in the URL and the password"]);
    assert!(!stderr(&wrong).contains("wrong"), "{}", stderr(&wrong));
    let migrated = run(Some("open sesame"), &["store", "migrate"]);
    assert!(migrated.status.success(), "{}", stderr(&migrated));
    // Commands do not see the password.
    let says = env.tmp().join("says.json");
    let script = json!({ "responses": [
        { "steps": [{ "function_call": { "name": "exec_command", "arguments": { "cmd": "env" } } }] },
        { "steps": [{ "message": "{{last_tool_output}}" }] },
    ] });
    fs::write(&says, script.to_string()).unwrap();
    let says = says.display().to_string();
    let exec =
        ["exec", "-m", &says, "-c", "model_provider=offline", "--skip-git-repo-check", "Hi."];
    let said = run(Some("open sesame"), &exec);
    let listed = stdout(&said);
    assert!(said.status.success() && listed.contains("PATH="), "{listed}{}", stderr(&said));
    assert!(!listed.contains("sesame"), "{listed}");

    let other = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    fs::write(env.home().join("ca.pem"), other.cert.pem()).unwrap();
    let untrusted = run(Some("open sesame"), &["store", "migrate"]);
    refused(&untrusted, 1, &["cannot use PostgreSQL at 127.0.0.1:", "ertificate"]);
}

/// A home with threads in SQLite: two of two turns, the second a fork, and an archived one.
fn filled(says: &str, env: &TestEnvironment) -> Vec<String> {
    let mut server = Running::server(env, &[]);
    let first = server.thread(says);
    run_turn(&mut server, &first, "One \u{1F980}.");
    let fork = server.call(3, "thread/fork", json!({ "threadId": first }));
    let fork = fork["result"]["thread"]["id"].as_str().unwrap().to_owned();
    run_turn(&mut server, &first, "Two.");
    run_turn(&mut server, &fork, "Other.");
    let archived = server.thread(says);
    run_turn(&mut server, &archived, "Old.");
    let answer = server.call(4, "thread/archive", json!({ "threadId": archived }));
    assert!(answer.get("error").is_none(), "{answer}");
    assert!(server.end().0.success());
    vec![first, fork, archived]
}

#[test]
fn threads_are_copied_compared_and_continued() {
    let postgres = Postgres::start();
    let env = TestEnvironment::new();
    let (says, _) = models(&env);
    let threads = filled(&says, &env);
    let before: Vec<_> = {
        let mut server = Running::server(&env, &[]);
        threads.iter().map(|id| turns(&mut server, id)).collect()
    };
    let (folder, url) = (env.home().display().to_string(), postgres.url());
    let copy = ["store", "copy", "--from", &folder, "--to", &url];
    refused(&env.run(&copy), 1, &["agentd store migrate"]);
    let target = home(&url, "");
    migrate(&target);

    // Killed at any time, it goes on.
    for wait in [0, 40, 80] {
        let mut killed = env.agentd(&copy).spawn().unwrap();
        // tidy: sleep to kill it at different points; the result is the same at each.
        std::thread::sleep(std::time::Duration::from_millis(wait));
        killed.kill().unwrap();
        killed.wait().unwrap();
    }
    let copied = env.run(&copy);
    assert!(copied.status.success(), "{}", stderr(&copied));
    assert!(
        stdout(&copied).contains("Compared: 3 threads, 5 turns, 10 items"),
        "{}",
        stdout(&copied)
    );
    let again = stdout(&env.run(&copy));
    assert!(
        again.contains("copied 0 threads") && again.contains("3 were there already"),
        "{again}"
    );
    let mut server = Running::server(&target, &[]);
    for (id, before) in threads.iter().zip(&before) {
        assert_eq!(&turns(&mut server, id), before);
    }
    let list = server.call(
        2,
        "thread/list",
        json!({ "archived": true, "sourceKinds": ["editor", "appServer"] }),
    );
    assert_eq!(list["result"]["data"][0]["id"], threads[2].as_str(), "{list}");

    // And back, into a folder.
    let back = env.work().join("back").display().to_string();
    let other = env.run(&["store", "copy", "--from", &url, "--to", &back]);
    assert!(stdout(&other).contains("copied 3 threads"), "{}", stderr(&other));

    // A thread that went on there is left as it is.
    server.call(5, "thread/resume", json!({ "threadId": threads[0] }));
    run_turn(&mut server, &threads[0], "Three.");
    let differs = format!("thread {} is in the target with other contents", threads[0]);
    refused(&env.run(&copy), 1, &[&differs, "the next one goes on"]);
    assert_eq!(turns(&mut server, &threads[0]).len(), 3);
    assert!(server.end().0.success());
}

#[test]
fn arguments_of_a_copy_that_cannot_work_are_refused() {
    let env = TestEnvironment::new();
    let url = "postgres://me@127.0.0.1:1/db";
    for (from, to, more, expected) in [
        ("postgres://me:secret@h/db", "x", vec![], "--from: must not contain a password"),
        ("postgres://me@h/db?password=secret", "x", vec![], "`--from-env-key`"),
        ("mysql://h/db", "x", vec![], "--from: must be the address of a PostgreSQL database"),
        ("nothing", url, vec![], "there are no threads in"),
        (url, url, vec![], "name the same threads"),
        (".", "../work", vec![], "name the same threads"),
        (
            url,
            "x",
            vec!["--from-env-key", "UNSET"],
            "--from-env-key: the environment variable UNSET",
        ),
        (".", url, vec!["--from-schema", "a"], "--from is a folder"),
        (
            "postgres://h/db?sslmode=disable",
            "x",
            vec!["--ca-file", "c"],
            "--from: has no effect with",
        ),
    ] {
        let arguments = [vec!["store", "copy", "--from", from, "--to", to], more].concat();
        let output = env.run(&arguments);
        refused(&output, 2, &[expected]);
        assert!(!stderr(&output).contains("secret"), "{}", stderr(&output));
    }
    refused(
        &env.run(&["store", "migrate"]),
        2,
        &["no database of threads is configured", "store.url"],
    );
    assert!(!env.work().join("x").exists() && !has_database(&env));
}

#[test]
fn a_store_with_a_mistake_never_becomes_another_one() {
    for (text, expected) in [
        ("[store]\nurl = 5\n", "`store.url`"),
        ("[store]\nurl = \"mysql://h/db\"\n", "`store.url`"),
        ("[store]\nschema = \"x\"\n", "`store.url`: is missing"),
        ("[store]\nurl = postgres://h/db\n", "config.toml:2"),
    ] {
        let env = TestEnvironment::new();
        fs::write(env.home().join("config.toml"), text).unwrap();
        refused(&env.run(&["threads", "list"]), 1, &[expected]);
        assert!(!has_database(&env), "{text}");
    }
    // Another mistake does not matter.
    let env = TestEnvironment::new();
    fs::write(env.home().join("config.toml"), "sandbox_mode = 5\n").unwrap();
    let listed = env.run(&["threads", "list"]);
    assert!(listed.status.success() && has_database(&env), "{}", stderr(&listed));
}
