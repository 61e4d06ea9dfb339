//! Sessions: what they report, and their end.

use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::task::{Context, Wake};
use std::thread::Thread;
use std::time::SystemTime;

use file_search::{Hit, Index, Indexes, MAX_SESSIONS, Query, Refresh, Report, Session};

use crate::support::{LIMIT, add, folder};

#[derive(Debug)]
enum Event {
    Results(String, Vec<Hit>),
    Complete,
    Failed(String),
}

fn start(indexes: &Indexes, root: &Path) -> (Session, Receiver<Event>) {
    let (sender, events) = channel();
    let index = indexes.open(root).unwrap();
    let session = Session::start(indexes, vec![index], SystemTime::now, move |report| {
        let event = match report {
            Report::Results(query, hits) => Event::Results(query.to_owned(), hits),
            Report::Complete => Event::Complete,
            Report::Failed(error) => Event::Failed(error.to_string()),
        };
        let _ = sender.send(event);
    });
    (session.unwrap(), events)
}

/// The query and paths of the last results before the search is complete.
fn complete(events: &Receiver<Event>) -> (String, Vec<String>) {
    let mut last = None;
    loop {
        match events.recv_timeout(LIMIT).unwrap() {
            Event::Results(query, hits) => last = Some((query, hits)),
            Event::Complete => {
                let (query, hits) = last.unwrap();
                return (query, hits.into_iter().map(|hit| hit.path).collect());
            }
            Event::Failed(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_session_reports_the_results_of_its_last_query_and_then_changes() {
    let tree = folder(["src/main.rs", "src/mail.rs", "b"]);
    let indexes = Indexes::new(None);
    let (session, events) = start(&indexes, tree.path());
    let query = |text| Query::new(text).unwrap();
    session.update(1, query("main"));
    assert_eq!(complete(&events), ("main".to_owned(), vec!["src/main.rs".to_owned()]));
    session.update(2, query("none"));
    assert_eq!(complete(&events), ("none".to_owned(), vec![]));
    session.update(3, query("mai"));
    assert_eq!(complete(&events).1.len(), 2);
    // A query that was overtaken.
    session.update(1, query("b"));
    add(tree.path(), Path::new("src/maiden.rs"));
    indexes.open(tree.path()).unwrap().refresh_paths(&[tree.path().join("src/maiden.rs")]);
    let (query, found) = complete(&events);
    assert_eq!((&*query, found.len()), ("mai", 3));
}

#[test]
fn a_session_that_ends_frees_its_place() {
    let tree = folder(["a"]);
    let indexes = Indexes::new(None);
    let index = indexes.open(tree.path()).unwrap();
    let start = || Session::start(&indexes, vec![index.clone()], SystemTime::now, |_| {});
    let held: Vec<_> = (0..MAX_SESSIONS).map(|_| start().unwrap()).collect();
    let error = start().unwrap_err().to_string();
    assert!(error.contains("48 search sessions are in progress"), "{error}");
    drop(held);
    let deadline = std::time::Instant::now() + LIMIT;
    while start().is_err() {
        assert!(std::time::Instant::now() < deadline);
        std::thread::yield_now();
    }
}

#[test]
fn a_session_says_that_a_root_is_too_large() {
    let tree = folder((0..20).map(|at| format!("{at}/file")));
    let (session, events) = start(&Indexes::with_bound(None, 10), tree.path());
    session.update(1, Query::new("file").unwrap());
    let failed =
        std::iter::from_fn(|| events.recv_timeout(LIMIT).ok()).find_map(|event| match event {
            Event::Failed(error) => Some(error),
            _ => None,
        });
    assert!(failed.unwrap().contains("more than 10 entries"));
}

#[test]
fn a_session_goes_on_when_its_root_is_there_again() {
    let tree = folder(["root/main.rs"]);
    let root = tree.path().join("root");
    let indexes = Indexes::new(None);
    let (session, events) = start(&indexes, &root);
    session.update(1, Query::new("main").unwrap());
    assert_eq!(complete(&events).1, ["main.rs"]);
    let index = indexes.open(&root).unwrap();
    // Twice: what fails again is said again.
    for name in ["main2.rs", "main3.rs"] {
        std::fs::remove_dir_all(&root).unwrap();
        refresh(&index, &root);
        until(&events, |event| matches!(event, Event::Failed(_)));
        add(&root, Path::new(name));
        refresh(&index, &root);
        let is_found = |event| matches!(event, Event::Results(_, hits) if hits.iter().map(|hit| &*hit.path).eq([name]));
        until(&events, is_found);
    }
    // And a query finds it without the word of a watch.
    std::fs::remove_dir_all(&root).unwrap();
    refresh(&index, &root);
    until(&events, |event| matches!(event, Event::Failed(_)));
    add(&root, Path::new("mail.rs"));
    rested(&index);
    session.update(2, Query::new("mail").unwrap());
    until(&events, |event| matches!(event, Event::Results(_, hits) if hits.len() == 1));
}

/// Takes events up to one of these.
fn until(events: &Receiver<Event>, is_wanted: impl Fn(Event) -> bool) {
    while !is_wanted(events.recv_timeout(LIMIT).unwrap()) {}
}

/// As the watch of the root does.
fn refresh(index: &Arc<Index>, root: &Path) {
    let mut begun = index.refresh_paths(&[root.to_owned()]);
    while begun != Refresh::Begun {
        rested(index);
        begun = index.refresh_paths(&[]);
    }
}

/// Waits until nothing runs, as a task does.
fn rested(index: &Index) {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut rested = pin!(index.rested());
    while rested.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
        std::thread::park();
    }
}
