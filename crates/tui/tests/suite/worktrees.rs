//! `/worktree`, and a start in a worktree.

use serde_json::{Value, json};
use tui::app::Start;
use tui::terminal::input::{Code, Key};

use crate::harness::{Bench, opened};

const PATH: &str = "/trees/work-1/retries";

fn in_worktree() -> Value {
    let mut opened = opened(&json!([]));
    opened["cwd"] = json!(PATH);
    let thread = &mut opened["thread"];
    thread["cwd"] = json!(PATH);
    thread["gitInfo"]["branch"] = json!("agentd/retries");
    thread["worktree"] =
        json!({ "path": PATH, "branch": "agentd/retries", "repository": "/work", "base": "abc" });
    opened
}

/// A program whose thread has a worktree.
fn open(columns: usize, rows: usize) -> Bench {
    let mut bench = Bench::start(columns, rows);
    bench.answer("config/read", json!({ "config": {}, "origins": {} }));
    bench.answer("thread/start", in_worktree());
    bench.answer("skills/list", json!({ "data": [] }));
    bench.calls.clear();
    bench
}

fn worktree(path: &str, branch: &str, uncommitted: &[&str]) -> Value {
    json!({
        "path": path, "branch": branch, "repository": "/work", "base": "abc", "createdAt": 0, "state": "ready",
        "threadIds": ["t1"], "locked": false, "ahead": 2, "behind": 1, "uncommitted": uncommitted,
    })
}

fn answer_list(bench: &mut Bench, uncommitted: &[&str]) {
    let mut other = worktree("/trees/work-1/old", "agentd/old", &[]);
    other["threadIds"] = json!([]);
    other["state"] = json!("missing");
    let data = json!([worktree(PATH, "agentd/retries", uncommitted), other]);
    bench.answer("worktree/list", json!({ "data": data, "folder": "/trees" }));
}

pub(crate) fn listed(columns: usize, rows: usize) -> Bench {
    let mut bench = open(columns, rows);
    bench.send("/worktree");
    answer_list(&mut bench, &["a.txt", "b.txt"]);
    bench
}

/// A worktree of the list was chosen.
pub(crate) fn chosen(columns: usize, rows: usize) -> Bench {
    let mut bench = listed(columns, rows);
    bench.key(Key::plain(Code::Enter));
    bench
}

pub(crate) fn merge(columns: usize, rows: usize) -> Bench {
    let mut bench = open(columns, rows);
    bench.send("/worktree merge");
    answer_list(&mut bench, &["a.txt", "src/new\u{202e}.rs"]);
    look(&mut bench);
    bench
}

/// Lets time pass in which a person reads what appeared.
fn look(bench: &mut Bench) {
    bench.now += 1_000;
}

pub(crate) fn remove(columns: usize, rows: usize) -> Bench {
    let mut bench = open(columns, rows);
    bench.send("/worktree remove");
    let files = ["1.txt", "2.txt", "3.txt", "4.txt", "5.txt", "6.txt"];
    answer_list(&mut bench, &files);
    look(&mut bench);
    bench
}

#[test]
fn the_first_thread_is_started_in_a_worktree() {
    let worktree = Some(protocol::ThreadWorktreeParams::named(
        None,
        Some("Add  retries to the uploader, please"),
    ));
    let mut bench = Bench::start_with(80, 24, Start { worktree, ..Start::default() });
    bench.answer("config/read", json!({ "config": {}, "origins": {} }));
    let params = bench.answer("thread/start", in_worktree());
    assert_eq!(params["worktree"], json!({ "name": "Add retries to the uploader," }));
    assert!(
        bench.shown().contains("agentd/retries"),
        "the status line has the branch: {}",
        bench.shown()
    );
}

#[test]
fn a_thread_is_started_in_a_worktree_of_the_same_repository() {
    let mut bench = Bench::open(80, 24);
    bench.calls.clear();
    bench.send("/worktree new retries");
    let (_, params) = bench.call("thread/start");
    assert_eq!(
        (&params["worktree"], &params["cwd"]),
        (&json!({ "name": "retries" }), &json!("/work"))
    );
    let mut bench = open(80, 24);
    bench.send("/worktree new");
    let (_, params) = bench.call("thread/start");
    // Not one inside the other.
    assert_eq!((&params["worktree"], &params["cwd"]), (&json!({}), &json!("/work")));
    let mut bench = Bench::open(80, 24);
    bench.calls.clear();
    bench.send("/worktree merge");
    assert!(bench.shown().contains("This thread has no worktree of its own"), "{}", bench.shown());
    bench.send("/worktree nonsense");
    assert!(bench.shown().contains("/worktree takes"), "{}", bench.shown());
    assert!(bench.calls.is_empty(), "{:?}", bench.calls);
}

#[test]
fn a_worktree_is_merged_after_a_question() {
    for (letter, strategy) in [('m', "mergeCommit"), ('s', "squash"), ('f', "fastForward")] {
        let mut bench = merge(80, 24);
        assert!(bench.shown().contains("Merge this worktree?"), "{}", bench.shown());
        bench.press(letter);
        let merged = json!({ "into": "main", "commit": "def", "merged": 3 });
        let params = bench.answer("worktree/merge", merged);
        let expected = json!({
            "path": PATH, "strategy": strategy, "commitMessage": "Changes of agentd/retries",
        });
        assert_eq!(params, expected);
        assert!(bench.printed.contains("Merged 3 commits into main."), "{}", bench.printed);
    }
    let mut bench = merge(80, 24);
    bench.key(Key::plain(Code::Esc));
    assert!(bench.calls.is_empty(), "{:?}", bench.calls);
    let mut bench = open(80, 24);
    bench.send("/worktree merge");
    answer_list(&mut bench, &[]);
    look(&mut bench);
    bench.press('m');
    let params = bench.call("worktree/merge").1;
    assert_eq!(params.get("commitMessage"), None, "nothing is uncommitted");
}

#[test]
fn a_worktree_is_removed_after_a_question_and_the_thread_gives_way() {
    let mut bench = remove(80, 24);
    assert!(bench.shown().contains("Remove this worktree?"), "{}", bench.shown());
    bench.press('y');
    bench.refuse("worktree/remove", "the worktree has uncommitted files: 1.txt");
    assert!(
        bench.printed.contains("It was not removed: the worktree has uncommitted"),
        "{}",
        bench.printed
    );
    bench.send("/worktree remove");
    answer_list(&mut bench, &["1.txt"]);
    look(&mut bench);
    bench.press('f');
    let saved = json!({ "ref": "refs/agentd/removed/retries", "commit": "def" });
    let params = bench.answer("worktree/remove", json!({ "saved": saved }));
    assert_eq!(params, json!({ "path": PATH, "force": true }));
    assert!(
        bench.printed.contains("refs/agentd/removed/retries brings it back"),
        "{}",
        bench.printed
    );
    assert_eq!(bench.call("thread/start").1["cwd"], "/work");
    let mut bench = remove(80, 24);
    bench.key(Key::plain(Code::Esc));
    assert!(bench.calls.is_empty(), "{:?}", bench.calls);
}

#[test]
fn worktrees_of_other_threads_are_chosen_from_a_list() {
    let mut bench = listed(80, 24);
    assert!(bench.shown().contains("2 ahead, 1 behind, 2 uncommitted files"), "{}", bench.shown());
    bench.key(Key::plain(Code::Down));
    bench.key(Key::plain(Code::Enter));
    // It has no thread to open, and no folder to merge.
    assert!(!bench.shown().contains("Open its thread"), "{}", bench.shown());
    assert!(!bench.shown().contains("Merge it"), "{}", bench.shown());
    bench.press('r');
    bench.press('y');
    let params = bench.answer("worktree/remove", json!({ "saved": null }));
    assert_eq!(params["path"], "/trees/work-1/old");
    assert!(bench.calls.is_empty(), "the thread stays: {:?}", bench.calls);
    let mut bench = listed(80, 24);
    bench.key(Key::plain(Code::Enter));
    bench.press('o');
    assert_eq!(bench.call("thread/resume").1["threadId"], "t1");
}

#[test]
fn the_named_worktree_is_merged_or_removed() {
    for name in ["old", "agentd/old", "/trees/work-1/old"] {
        let mut bench = open(80, 24);
        bench.send(&format!("/worktree remove {name}"));
        answer_list(&mut bench, &[]);
        assert!(bench.shown().contains("agentd/old  /trees/work-1/old"), "{}", bench.shown());
        look(&mut bench);
        bench.press('y');
        let params = bench.answer("worktree/remove", json!({ "saved": null }));
        assert_eq!(params["path"], "/trees/work-1/old");
        assert!(bench.calls.is_empty(), "the thread stays: {:?}", bench.calls);
    }
    // A thread without a worktree names one.
    let mut bench = Bench::open(80, 24);
    bench.calls.clear();
    bench.send("/worktree merge retries");
    answer_list(&mut bench, &[]);
    assert!(bench.shown().contains("agentd/retries  /trees"), "{}", bench.shown());
    let mut bench = open(80, 24);
    bench.send("/worktree merge nowhere");
    answer_list(&mut bench, &[]);
    assert!(bench.printed.contains("There is no worktree `nowhere`"), "{}", bench.printed);
}

#[test]
fn enter_keeps_the_worktree_and_words_are_for_the_message() {
    for open in [merge, remove] {
        let mut bench = open(80, 24);
        bench.key(Key::plain(Code::Enter));
        assert!(bench.calls.is_empty(), "{:?}", bench.calls);
        assert!(!bench.shown().contains("this worktree?"), "{}", bench.shown());
        let mut bench = open(80, 24);
        bench.type_text("merge it, yes");
        look(&mut bench);
        bench.key(Key::plain(Code::Enter));
        assert!(
            bench.shown().contains("this worktree?"),
            "Enter is the message's: {}",
            bench.shown()
        );
        bench.key(Key::plain(Code::Esc));
        assert!(bench.calls.is_empty(), "{:?}", bench.calls);
        assert!(bench.shown().contains("merge it, yes"), "{}", bench.shown());
    }
    // At once, it may be the end of something else.
    let mut bench = open(80, 24);
    bench.send("/worktree remove");
    answer_list(&mut bench, &[]);
    bench.press('y');
    assert!(bench.calls.is_empty(), "{:?}", bench.calls);
}
