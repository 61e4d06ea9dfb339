//! A crash behind each commit of a job: the same call afterwards runs no row again that had its end,
//! and ends as it would have without the crash.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use testkit::TestEnvironment;

use super::{environment, job, prompts, report, results, started};
use crate::agents::{outputs, parsed};
use crate::says;

/// More crashes than there are commits.
const MOST_CRASHES: usize = 120;

/// The log of a store since it was opened, in which nothing was moved to the database.
struct CommitLog {
    database: Vec<u8>,
    log: Vec<u8>,
    /// The length of the log after each commit.
    commits: Vec<usize>,
}

impl CommitLog {
    /// The log of the store in a folder. `database`: its database when it was opened.
    fn read(folder: &Path, database: Vec<u8>) -> Self {
        let log = fs::read(folder.join("threads.db-wal")).unwrap();
        assert_eq!(fs::read(folder.join("threads.db")).unwrap(), database);
        let number = |at: usize| u32::from_be_bytes(log[at..at + 4].try_into().unwrap()) as usize;
        let frame = 24 + number(8);
        // The second number of a frame's header is the size of the database, in the last frame of a
        // commit only; the salts are those of the log, otherwise the rest is of an older log.
        let frames = (32..).step_by(frame).take_while(|at| at + frame <= log.len());
        let frames = frames.take_while(|at| log[at + 8..at + 16] == log[16..24]);
        let commits = frames.filter(|at| number(at + 4) != 0).map(|at| at + frame).collect();
        Self { database, log, commits }
    }

    /// Writes the store as it was after a commit; with 0, after none.
    fn restore(&self, folder: &Path, commits: usize) {
        let end = commits.checked_sub(1).map_or(0, |last| self.commits[last]);
        fs::write(folder.join("threads.db"), &self.database).unwrap();
        fs::write(folder.join("threads.db-wal"), &self.log[..end]).unwrap();
        let _ = fs::remove_file(folder.join("threads.db-shm"));
    }
}

/// The newest job of a store: status of the job, whether its call has its output, and the statuses
/// of its rows with their workers.
#[derive(Default, Debug, PartialEq)]
struct Stored {
    status: i64,
    is_delivered: bool,
    has_written: bool,
    rows: Vec<(i64, Option<String>)>,
}

impl Stored {
    fn read(environment: &TestEnvironment) -> Option<Self> {
        let conn = rusqlite::Connection::open(environment.home().join("threads.db")).unwrap();
        let sql = "SELECT pk, status, detail FROM job ORDER BY pk DESC LIMIT 1";
        let job = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        let (key, status, detail): (i64, i64, String) = conn.query_row(sql, [], job).ok()?;
        let item = parsed(&detail)["call"]["item"].as_str().unwrap().to_owned();
        let sql = "SELECT status IS 'completed' FROM item WHERE id = ?1";
        let is_delivered = conn.query_row(sql, [item], |row| row.get(0)).unwrap();
        let sql = "SELECT status, worker FROM job_item WHERE job = ?1 ORDER BY pk";
        let mut rows = conn.prepare(sql).unwrap();
        let rows = rows.query_map([key], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        let has_written = parsed(&detail)["written"][0].is_object();
        Some(Self { status, is_delivered, has_written, rows: rows.map(Result::unwrap).collect() })
    }

    /// Whether a row has its end: a result, an error, or the end of the job.
    fn is_final(&self, row: usize) -> bool {
        self.rows.get(row).is_some_and(|(status, _)| [2, 3, 5].contains(status))
    }
}

/// Runs a job with the reports of its workers, and again from each state that a crash could leave.
async fn crash_everywhere(csv: &str, workers: Vec<Vec<Value>>) -> Vec<String> {
    let arguments = json!({ "csv_path": "in.csv", "instruction": "Do {a}.",
        "output_csv_path": "out.csv", "max_concurrency": 1 });
    let mut thread = vec![says("Hello.")];
    for _ in 0..=MOST_CRASHES {
        thread.extend([job(arguments.clone()), says("Done.")]);
    }
    let rest = vec![report(json!({ "result": { "n": 1 } }))];
    let mut environment = environment(thread, workers, rest, csv).await;
    let server = environment.start();
    let mut peer = server.connect().await;
    let thread = started(&environment, &mut peer).await;
    peer.run_turn(&thread, "Hello.").await;
    // The next server begins with an empty log.
    server.stop().await;
    let database = fs::read(environment.home().join("threads.db")).unwrap();
    let server = environment.start();
    let mut peer = server.connect().await;
    peer.call("thread/resume", json!({ "threadId": thread })).await;
    peer.run_turn(&thread, "Go.").await;
    let path = environment.workspace().join("out.csv");
    let file = fs::read(&path).unwrap();
    let complete = results(&environment, &json!({ "output_csv_path": "out.csv" }));
    let rows = complete.len() - 1;
    let statuses: Vec<String> = complete.into_iter().skip(1).map(|row| row[1].clone()).collect();
    let log = CommitLog::read(environment.home(), database);
    let crashes = log.commits.len();
    assert!((10..MOST_CRASHES).contains(&crashes), "{crashes}");
    let mut undelivered = 0;
    environment.crash();
    let mut states: Vec<Option<Stored>> = Vec::new();
    for commits in 0..=crashes {
        log.restore(environment.home(), commits);
        states.push(Stored::read(&environment));
    }
    for (commits, before) in states.iter().enumerate() {
        // Of the commits between which nothing of the job changes, the first and the last.
        let is_same = |at: Option<usize>| at.and_then(|at| states.get(at)) == Some(before);
        if is_same(commits.checked_sub(1)) && is_same(Some(commits + 1)) {
            continue;
        }
        environment.crash();
        log.restore(environment.home(), commits);
        // The file is written after all rows have ended.
        match before {
            Some(before) if (0..rows).all(|row| before.is_final(row)) && before.has_written => {
                fs::write(&path, &file).unwrap();
            }
            _ if path.exists() => fs::remove_file(&path).unwrap(),
            _ => {}
        }
        let asked = prompts(&environment, &thread).len();
        let server = environment.start();
        let mut peer = server.connect().await;
        peer.call("thread/resume", json!({ "threadId": thread })).await;
        let end = peer.run_turn(&thread, "Go on.").await;
        assert_eq!(end["status"], "completed", "after {commits} commits");
        let asked = prompts(&environment, &thread).len() - asked;
        let output = parsed(outputs(&environment, &thread).last().unwrap());
        let unfinished =
            before.as_ref().filter(|before| before.status != 1 || !before.is_delivered);
        let context = format!("after {commits} commits: {unfinished:?}, {output}");
        assert_eq!(output["continued"], unfinished.is_some(), "{context}");
        let none = Stored::default();
        let before = unfinished.unwrap_or(&none);
        undelivered += usize::from(before.status == 1);
        let open = (0..rows).filter(|row| !before.is_final(*row)).count();
        assert_eq!(asked, open, "{context}");
        let after = Stored::read(&environment).unwrap();
        assert_eq!(after.status, 1, "{context}");
        for (row, ended) in before.rows.iter().enumerate().filter(|(row, _)| before.is_final(*row))
        {
            assert_eq!(after.rows[row], *ended, "{context}");
        }
        let written = results(&environment, &output);
        let is_stopped = before.rows.iter().any(|(status, _)| *status == 5);
        for (row, line) in written.iter().skip(1).enumerate() {
            let expected = if is_stopped { &statuses[row] } else { "completed" };
            assert_eq!(line[1], expected, "{context}");
        }
        server.stop().await;
    }
    assert!(undelivered > 0, "no crash came between the end of the job and the output of the call");
    statuses
}

#[tokio::test]
async fn a_job_goes_on_after_a_crash_at_any_stage() {
    let worker = vec![report(json!({ "result": { "n": 0 } }))];
    let statuses = crash_everywhere("a\n1\n2\n", vec![worker.clone(), worker]).await;
    assert_eq!(statuses, ["completed", "completed"]);
}

#[tokio::test]
async fn the_end_of_a_job_by_a_worker_survives_a_crash_at_any_stage() {
    let worker = vec![report(json!({ "result": { "n": 0 }, "stop": true }))];
    let statuses = crash_everywhere("a\n1\n2\n3\n", vec![worker]).await;
    assert_eq!(statuses, ["completed", "cancelled", "cancelled"]);
}
