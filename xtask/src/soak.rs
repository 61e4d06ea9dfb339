//! `cargo xtask soak`: a test of `cargo xtask test` at a size that takes minutes.

use std::path::Path;
use std::process::ExitCode;

use xtask::steps::When::InTurn;
use xtask::steps::{self, Outcome, Program, Step};

const STEPS: &[Step] = &[
    Step { name: "jobs", when: InTurn, check: jobs },
    Step { name: "pacing", when: InTurn, check: pacing },
    Step { name: "watching", when: InTurn, check: watching },
    Step { name: "kills", when: InTurn, check: kills },
    Step { name: "cuts and schemas", when: InTurn, check: cuts_and_schemas },
    Step { name: "endings", when: InTurn, check: endings },
    Step { name: "restarts", when: InTurn, check: restarts },
    Step { name: "two teams", when: InTurn, check: two_teams },
    Step { name: "failover", when: InTurn, check: failover },
    Step { name: "redis", when: InTurn, check: redis },
];

pub(crate) fn run(root: &Path) -> ExitCode {
    steps::run(root, STEPS)
}

/// A job of 1,000 rows whose server is killed ten times (`crates/cli/tests/suite/agent_jobs.rs`).
fn jobs(root: &Path) -> Outcome {
    let test = "agent_jobs::a_job_killed_again_and_again_ends_with_each_row_done_once";
    let options = ["test", "-p", "cli", "--test", "suite", "--", "--exact", test, "--nocapture"];
    let program = Program::cargo(root, &options);
    program.env("SOAK_JOB_ROWS", "1000").env("SOAK_JOB_KILLS", "10").run_tests(steps::libtest)
}

/// 50 threads that share a key with a limit of 20 requests a minute, for five minutes
/// (`crates/cli/tests/suite/pacing.rs`).
fn pacing(root: &Path) -> Outcome {
    let test = "pacing::threads_that_share_a_key_wait_for_its_limit_and_use_all_of_it";
    let options = ["test", "-p", "cli", "--test", "suite", "--", "--exact", test, "--nocapture"];
    Program::cargo(root, &options)
        .env("SOAK_PACING_THREADS", "50")
        .env("SOAK_PACING_RATE", "20")
        .env("SOAK_PACING_WARM_UP", "60")
        .env("SOAK_PACING_SECONDS", "240")
        .run_tests(steps::libtest)
}

/// The picture of a client that watches 50,000 files through a hundred checkouts and installations of packages,
/// an idle time, and a flood of 40,000 files (`crates/server/tests/suite/fs_watch/storm.rs`).
fn watching(root: &Path) -> Outcome {
    let options = [
        "test",
        "-p",
        "server",
        "--test",
        "suite",
        "--",
        "fs_watch::storm",
        "--nocapture",
        "--test-threads=1",
    ];
    Program::cargo(root, &options)
        .env("SOAK_WATCH_FILES", "50000")
        .env("SOAK_WATCH_RUNS", "100")
        .env("SOAK_WATCH_IDLE_SECONDS", "10")
        .env("SOAK_WATCH_FLOOD", "40000")
        .run_tests(steps::libtest)
}

/// 200 sequences of methods, 100 trees of agents, two times 200 points of turns, all with kills, and 1,000 writes
/// of the configuration by two servers (`sequences.rs`, `agents.rs`, `crash.rs` and `config_writes.rs` in
/// `crates/cli/tests/suite`).
fn kills(root: &Path) -> Outcome {
    let mut options = vec!["test", "-p", "cli", "--test", "suite", "--"];
    options.extend(["sequences::", "agents::", "crash::", "config_writes::"]);
    Program::cargo(root, &options)
        .env("AGENTD_TEST_SEQUENCES", "200")
        .env("AGENTD_AGENT_TREES", "100")
        .env("AGENTD_CRASH_POINTS", "200")
        .env("AGENTD_TEST_CONFIG_WRITES", "500")
        .run_tests(steps::libtest)
}

/// 1,000 cuts of connections, and 200 schemas from each way in (`reconnect.rs` and `schema_order.rs` in
/// `crates/server/tests/suite`).
fn cuts_and_schemas(root: &Path) -> Outcome {
    let mut options = vec!["test", "-p", "server", "--test", "suite", "--"];
    options.extend(["reconnect::", "schema_order::"]);
    Program::cargo(root, &options)
        .env("AGENTD_TEST_CUTS", "1000")
        .env("AGENTD_TEST_SCHEMAS", "200")
        .run_tests(steps::libtest)
}

/// 10,000 answers of the gateway that end in all ways, half of them with limits that two nodes share
/// (`crates/gateway/tests/suite/histories.rs`).
fn endings(root: &Path) -> Outcome {
    let options = ["test", "-p", "gateway", "--test", "suite", "--", "histories::", "--nocapture"];
    Program::cargo(root, &options).env("AGENTD_ENDINGS", "5000").run_tests(steps::libtest)
}

/// Two gateways with nginx in front of them, and one on a socket of systemd, each restarted 50 times under load
/// (`crates/cli/tests/suite/gateway_nodes.rs`).
fn restarts(root: &Path) -> Outcome {
    let options = ["test", "-p", "cli", "--test", "suite", "--", "gateway_nodes::", "--nocapture"];
    Program::cargo(root, &options).env("AGENTD_GATEWAY_RESTARTS", "50").run_tests(steps::libtest)
}

/// One team that is refused for every reason, and another one that sends two requests a second for five minutes
/// (`crates/gateway/tests/suite/isolation.rs`).
fn two_teams(root: &Path) -> Outcome {
    let options = ["test", "-p", "gateway", "--test", "suite", "--", "isolation::", "--nocapture"];
    Program::cargo(root, &options).env("AGENTD_TWO_TEAMS_SECONDS", "300").run_tests(steps::libtest)
}

/// Twenty kills of a backend under load (`crates/gateway/tests/suite/failover.rs`).
fn failover(root: &Path) -> Outcome {
    let options = ["test", "-p", "gateway", "--test", "suite", "--", "failover::", "--nocapture"];
    Program::cargo(root, &options).env("AGENTD_FAILOVERS", "20").run_tests(steps::libtest)
}

/// Ten restarts of Redis with its data and ten without, under load
/// (`crates/gateway/tests/suite/redis_restarts.rs`).
fn redis(root: &Path) -> Outcome {
    let tests = "redis_restarts::";
    let options = ["test", "-p", "gateway", "--test", "suite", "--", tests, "--nocapture"];
    Program::cargo(root, &options).env("AGENTD_REDIS_RESTARTS", "10").run_tests(steps::libtest)
}
