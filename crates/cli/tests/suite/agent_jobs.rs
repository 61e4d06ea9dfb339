//! Jobs over the rows of a CSV file with the real program: killed with SIGKILL while workers run,
//! the job continues in the next process, and no row that has its result is worked on again.
//!
//! `cargo xtask soak` runs it with 1,000 rows and 10 kills, which takes minutes: it sets [`ROWS`] and
//! [`KILLS`].

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use crate::common::{Running, TestEnvironment, stderr, stdout};
use model_server::script::Script;
use serde_json::{Value, json};
use store::{JobItem, JobItemStatus, JobStatus, SqliteConfig, Store};
use tokio::runtime::Runtime;

/// Workers at once.
const WORKERS: usize = 8;

/// The environment variable with the number of rows.
const ROWS: &str = "SOAK_JOB_ROWS";
/// The environment variable with the number of kills.
const KILLS: &str = "SOAK_JOB_KILLS";

#[test]
fn a_job_killed_again_and_again_ends_with_each_row_done_once() {
    let number = |name, default| std::env::var(name).map_or(default, |it| it.parse().unwrap());
    survive_kills(number(ROWS, 60), number(KILLS, 3));
}

#[test]
fn exec_ends_when_the_job_does() {
    let env = TestEnvironment::new();
    std::fs::write(env.work().join("in.csv"), table(5)).unwrap();
    let script = env.script(&json!(responses(1)));
    let run = env.run(&[
        "exec",
        "-c",
        r#"model_provider="offline""#,
        "-m",
        &script,
        "--sandbox",
        "workspace-write",
        "Work on the table.",
    ]);
    assert!(run.status.success(), "{}", stderr(&run));
    assert!(stdout(&run).contains("All rows have ended."), "{}", stdout(&run));
    let results = std::fs::read_to_string(env.work().join("out.csv")).unwrap();
    assert_eq!(results.matches("completed").count(), 5, "{results}");
}

fn table(rows: usize) -> String {
    (1..=rows).fold("task\n".to_owned(), |text, row| format!("{text}task <{row}>\n"))
}

/// The first conversation calls the tool as often as `calls` says; all others report.
fn responses(calls: usize) -> Vec<Value> {
    let job = json!({ "csv_path": "in.csv", "instruction": "Do {task}.",
        "output_csv_path": "out.csv", "max_concurrency": WORKERS });
    let call = json!({ "conversation": 0, "steps": [
        { "function_call": { "name": "spawn_agents_on_csv", "arguments": job } }] });
    let end = json!({ "conversation": 0, "steps": [{ "message": "All rows have ended." }] });
    let report = json!({ "steps": [{ "delay_ms": 5 }, { "function_call": {
        "name": "report_agent_job_result", "arguments": { "result": { "ok": true } } } }] });
    let calls = std::iter::repeat_n(call, calls);
    calls.chain([end, report]).collect()
}

/// Runs a job of `rows` rows in `kills` + 1 processes, of which all but the last are killed.
fn survive_kills(rows: usize, kills: usize) {
    let env = TestEnvironment::new();
    std::fs::write(env.work().join("in.csv"), table(rows)).unwrap();
    let model = Model::serve(&json!({ "responses": responses(kills + 1) }));
    std::fs::write(
        env.home().join("config.toml"),
        format!(
            "model = \"gpt-5\"\nmodel_provider = \"scripted\"\n\n[agents]\nmax_threads = \
             {WORKERS}\n\n[model_providers.scripted]\nname = \"Scripted\"\nbase_url = \"{}\"\n",
            model.base_url
        ),
    )
    .unwrap();
    let mut server = Running::server(&env, &[]);
    let params = json!({ "cwd": env.work(), "sandbox": "workspace-write" });
    let started = server.call(1, "thread/start", params);
    let thread = started["result"]["thread"]["id"].as_str().unwrap().to_owned();
    let turn = json!({ "threadId": thread, "input": [{ "type": "text", "text": "Go on." }] });
    let mut finished: BTreeMap<u32, JobItem> = BTreeMap::new();
    let mut seen = 0;
    for kill in 1..=kills {
        server.call(2, "turn/start", turn.clone());
        for _ in 0..rows / (kills + 1) {
            server.message(|message| {
                message["method"] == "thread/started"
                    && message["params"]["thread"]["threadSource"] == "subagent"
            });
        }
        server.signal("KILL");
        server.end();
        let requests = model.requests();
        check_requests(&requests[seen..], &finished);
        seen = requests.len();
        let (status, items) = stored(&env, &thread, Some(JobItemStatus::Completed));
        assert_eq!(status, JobStatus::Running);
        check_kept(&finished, &items);
        println!("kill {kill}: {} of {rows} rows have their result", items.len());
        finished = items;
        assert!(finished.len() < rows, "the job ended before it was killed");
        server = Running::server(&env, &[]);
        server.call(1, "thread/resume", json!({ "threadId": thread }));
    }
    assert!(!finished.is_empty(), "no row had its result before a kill");
    server.call(2, "turn/start", turn);
    let ended = server.message(|message| {
        message["method"] == "turn/completed" && message["params"]["threadId"] == thread.as_str()
    });
    assert_eq!(ended["params"]["turn"]["status"], "completed", "{ended}");
    assert!(server.end().0.success());
    let requests = model.requests();
    check_requests(&requests[seen..], &finished);
    let (status, items) = stored(&env, &thread, None);
    assert_eq!(status, JobStatus::Completed);
    check_kept(&finished, &items);
    assert_eq!(items.len(), rows);
    assert!(items.values().all(|item| item.status == JobItemStatus::Completed));
    let results = std::fs::read_to_string(env.work().join("out.csv")).unwrap();
    let mut lines = results.lines();
    assert_eq!(lines.next(), Some("task,status,result,error"));
    for (row, line) in (1..=rows).zip(&mut lines) {
        assert_eq!(line, format!("task <{row}>,completed,\"{{\"\"ok\"\":true}}\","));
    }
    assert_eq!(lines.next(), None);
    let workers = requests.iter().filter(|body| body.contains("task <")).count();
    println!(
        "{rows} rows, {kills} kills: {} results; {workers} requests of workers, {} rows were cut \
         off by a kill and run again",
        items.len(),
        workers - rows
    );
    assert!(workers <= rows + kills * WORKERS, "{workers}");
}

/// Rows that had their result keep it, with the worker that reported it.
fn check_kept(before: &BTreeMap<u32, JobItem>, now: &BTreeMap<u32, JobItem>) {
    for (number, item) in before {
        assert_eq!(now.get(number), Some(item));
    }
}

/// No request is about a row that had its result.
fn check_requests(requests: &[String], finished: &BTreeMap<u32, JobItem>) {
    for number in finished.keys() {
        let about = format!("Do task <{number}>.");
        assert!(!requests.iter().any(|body| body.contains(&about)), "row {number} ran again");
    }
}

/// The status of the only job of a thread, and its rows.
fn stored(
    env: &TestEnvironment,
    thread: &str,
    wanted: Option<JobItemStatus>,
) -> (JobStatus, BTreeMap<u32, JobItem>) {
    Runtime::new().unwrap().block_on(async {
        let owner = format!("test-{}", std::process::id());
        let store = Store::open(SqliteConfig::new(env.home(), 0, owner)).await.unwrap();
        let jobs = store.jobs(thread).await.unwrap();
        let [job] = &jobs[..] else { panic!("{jobs:?}") };
        let items = store.job_items(job.key, 0, wanted, u32::MAX).await.unwrap();
        store.close().await.unwrap();
        (job.status, items.into_iter().map(|item| (item.number, item)).collect())
    })
}

/// A scripted model that outlives the processes which ask it, and records their requests.
struct Model {
    base_url: String,
    log: Log,
    _runtime: Runtime,
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Model {
    fn serve(script: &Value) -> Self {
        let script = Script::parse("the test", &script.to_string()).unwrap();
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind(("127.0.0.1", 0))).unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let log = Log::default();
        let written = Box::new(log.clone());
        runtime.spawn(model_server::serve(listener, script, Some(written), std::future::pending()));
        Self { base_url, log, _runtime: runtime }
    }

    /// The requests so far.
    fn requests(&self) -> Vec<String> {
        let log = self.log.0.lock().unwrap();
        String::from_utf8_lossy(&log).lines().map(str::to_owned).collect()
    }
}
