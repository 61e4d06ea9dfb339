//! Commands of the client: the cost of starting `true`, what a thousand leave behind, how many run
//! at once, and ten thousand of all kinds in a row.

use std::time::Instant;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::client::Client;
use super::model_server::Script;
use super::process;
use super::report::{Figure, median, megabytes, milliseconds};
use super::scenario::Scenario;
use super::target::Run;
use super::target::Server;

pub(crate) const SCENARIO: Scenario =
    Scenario { name: "exec", script: Script::Deltas { count: 1, delay_ms: 0 }, measure };
pub(crate) const SOAK: Scenario =
    Scenario { name: "soak", script: Script::Deltas { count: 1, delay_ms: 0 }, measure: soak };

/// Commands before the measurement, so that one-time initialization is not counted.
const WARM: usize = 50;
const IN_A_ROW: usize = 1000;
const AT_ONCE: usize = 32;
const SOAKED: usize = 10_000;
/// Commands of the soak between two samples of the server's resources.
const LOOK_EVERY: usize = 1000;

fn exec(command: &Value, sandboxed: bool) -> (&'static str, Value) {
    let policy = match sandboxed {
        true => json!({ "type": "workspaceWrite" }),
        false => json!({ "type": "dangerFullAccess" }),
    };
    ("command/exec", json!({ "command": command, "sandboxPolicy": policy }))
}

fn measure(run: &Run<'_>) -> Result<Vec<Figure>> {
    let (mut server, _) = run.start_initialized()?;
    let client = &mut server.client;
    let command = json!(["true"]);
    for sandboxed in [false, true] {
        in_a_row(client, WARM, &command, sandboxed)?;
    }
    let before = left(&server)?;
    let client = &mut server.client;
    let plain = median(in_a_row(client, IN_A_ROW, &command, false)?);
    let confined = median(in_a_row(client, IN_A_ROW, &command, true)?);
    let after = left(&server)?;
    let client = &mut server.client;
    let mut figures = vec![
        figure("`command/exec` of `true`, unsandboxed", plain, "ms", Some(2.0)),
        figure("`command/exec` of `true`, sandboxed", confined, "ms", Some(7.0)),
    ];
    for (sandboxed, what) in [
        (false, "32 concurrent commands, unsandboxed: time per command"),
        (true, "32 concurrent commands, sandboxed: time per command"),
    ] {
        let mut shares = Vec::new();
        for _ in 0..run.repeats {
            let began = Instant::now();
            let calls = (0..AT_ONCE).map(|_| exec(&command, sandboxed)).collect();
            succeeded(&client.requests(calls)?)?;
            shares.push(milliseconds(began.elapsed()) / AT_ONCE as f64);
        }
        figures.push(figure(what, median(shares), "ms", None));
    }
    server.finish()?;
    figures.extend([
        figure(
            "processes left after 2,000 commands",
            after.processes - before.processes,
            "",
            Some(0.0),
        ),
        figure("descriptors left after 2,000 commands", after.files - before.files, "", Some(0.0)),
        figure(
            "memory retained after 2,000 commands",
            after.megabytes - before.megabytes,
            "MB",
            Some(1.0),
        ),
    ]);
    Ok(figures)
}

/// Runs commands one after the other; returns the time of each.
fn in_a_row(
    client: &mut Client,
    count: usize,
    command: &Value,
    sandboxed: bool,
) -> Result<Vec<f64>> {
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let (method, params) = exec(command, sandboxed);
        let began = Instant::now();
        let (result, at) = client.request(method, params)?;
        times.push(milliseconds(at.duration_since(began)));
        succeeded(&[result])?;
    }
    Ok(times)
}

fn succeeded(results: &[Value]) -> Result<()> {
    for result in results {
        ensure!(result["exitCode"] == 0, "`true` failed: {result}");
    }
    Ok(())
}

/// Runs commands of all kinds, eight at a time: successful and failing ones, with much output and
/// none, on terminals, stopped at their timeout, leaving processes behind.
fn soak(run: &Run<'_>) -> Result<Vec<Figure>> {
    let commands = [
        json!(["true"]),
        json!(["sh", "-c", "echo out; echo err >&2; exit 3"]),
        json!(["no-such-program"]),
        json!(["head", "-c", "300000", "/dev/zero"]),
        json!(["sh", "-c", "sleep 1000 & sleep 1000 & exit 0"]),
        json!(["sh", "-c", "kill -9 $$"]),
        json!(["sleep", "1000"]),
        json!(["cat", "/etc/passwd"]),
    ];
    let (mut server, _) = run.start_initialized()?;
    // Memory fluctuates with what the allocator keeps, so the minimum of each half is compared.
    let mut halves = [Resources::MOST, Resources::MOST];
    let began = Instant::now();
    let mut done = 0;
    while done < SOAKED {
        let calls = commands.iter().enumerate().map(|(at, command)| {
            let sandboxed = (done / commands.len() + at).is_multiple_of(2);
            let (method, mut params) = exec(command, sandboxed);
            if command[0] == "sleep" {
                params["timeoutMs"] = json!(5);
            }
            if at % 3 == 1 {
                params["tty"] = json!(true);
                params["processId"] = json!(format!("{done}-{at}"));
            }
            (method, params)
        });
        server.client.requests(calls.collect())?;
        done += commands.len();
        if done.is_multiple_of(LOOK_EVERY) {
            halves[usize::from(done > SOAKED / 2)].lower(&left(&server)?);
        }
    }
    let rate = SOAKED as f64 / began.elapsed().as_secs_f64();
    let [first, second] = halves;
    server.finish()?;
    Ok(vec![
        figure("10,000 mixed commands, eight concurrent: commands per second", rate, "", None),
        figure("processes left afterwards", second.processes - first.processes, "", Some(0.0)),
        figure("descriptors left afterwards", second.files - first.files, "", Some(0.0)),
        figure("memory retained afterwards", second.megabytes - first.megabytes, "MB", Some(1.0)),
    ])
}

/// Resources that a server holds.
struct Resources {
    processes: f64,
    files: f64,
    megabytes: f64,
}

impl Resources {
    const MOST: Resources = Resources { processes: f64::MAX, files: f64::MAX, megabytes: f64::MAX };

    fn lower(&mut self, other: &Resources) {
        self.processes = self.processes.min(other.processes);
        self.files = self.files.min(other.files);
        self.megabytes = self.megabytes.min(other.megabytes);
    }
}

/// Returns the minimum of several samples, so that processes about to end are not counted.
fn left(server: &Server) -> Result<Resources> {
    let mut least = Resources::MOST;
    for _ in 0..20 {
        let (processes, files) = process::held(server.pid());
        let megabytes = megabytes(process::resident(server.pid())?);
        least.lower(&Resources { processes: processes as f64, files: files as f64, megabytes });
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    Ok(least)
}

fn figure(what: &'static str, value: f64, unit: &'static str, goal: Option<f64>) -> Figure {
    Figure { what, value, unit, goal }
}
