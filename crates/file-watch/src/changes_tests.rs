//! Folding and bounds, with a clock of their own.

use super::*;

fn changes() -> Arc<Changes> {
    Changes::new("/w".into(), Budget::new(1 << 20))
}

fn paths(names: &[&str]) -> Change {
    Change { paths: names.iter().map(PathBuf::from).collect(), overflow: false }
}

/// How long after `start` changes are due.
async fn due(changes: &Changes, start: Instant) -> Duration {
    changes.ready().await;
    start.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_burst_is_one_change_without_repetitions_in_order() {
    let (changes, start) = (changes(), Instant::now());
    for name in ["/w/b", "/w/a", "/w/b"] {
        tokio::time::advance(Duration::from_millis(20)).await;
        changes.add(Path::new(name));
    }
    let waited = due(&changes, start).await;
    assert!(waited >= Duration::from_millis(60) + QUIET && waited < LONGEST_DELAY, "{waited:?}");
    assert_eq!(changes.take(), paths(&["/w/a", "/w/b"]));
    assert_eq!(changes.take(), Change::default());
}

#[tokio::test(start_paused = true)]
async fn a_stream_without_a_pause_is_reported_too() {
    let (changes, start) = (changes(), Instant::now());
    let writer = changes.clone();
    let stream = tokio::spawn(async move {
        loop {
            writer.add(Path::new("/w/log"));
            tokio::time::sleep(QUIET / 5).await;
        }
    });
    let waited = due(&changes, start).await;
    assert!(waited >= LONGEST_DELAY && waited < LONGEST_DELAY + QUIET, "{waited:?}");
    stream.abort();
}

#[tokio::test(start_paused = true)]
async fn each_bound_leads_to_an_overflow_that_names_the_watched_path() {
    let overflow = Change { paths: vec!["/w".into()], overflow: true };
    let long = "x".repeat(MAX_BYTES / 100);
    for (count, suffix, small) in [(MAX_PATHS, "", false), (100, &*long, false), (100, "", true)] {
        let budget = Budget::new(if small { 400 } else { usize::MAX });
        let changes = Changes::new("/w".into(), budget.clone());
        for number in 0..=count {
            changes.add(Path::new(&format!("/w/{number}{suffix}")));
        }
        changes.ready().await;
        assert_eq!(changes.take(), overflow);
        assert_eq!(budget.used.load(Ordering::Relaxed), 0);
        changes.add(Path::new("/w/later"));
        changes.ready().await;
        assert_eq!(changes.take(), paths(&["/w/later"]));
        changes.add(Path::new("/w/unread"));
        drop(changes);
        assert_eq!(budget.used.load(Ordering::Relaxed), 0);
    }
}
