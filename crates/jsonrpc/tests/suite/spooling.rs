//! A queue that passes through the disk: order, bounds of memory, what happens without room.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use jsonrpc::websocket::{MessageReader, Received, Role};
use jsonrpc::{CloseReason, Connection, DeltaFrame, Limits, Line, LineReader, Outbox, Spool};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, DuplexStream};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
const BUDGET: usize = 64 * KIB;

fn limits() -> Limits {
    Limits { outgoing_bytes: BUDGET, ..Limits::default() }
}

struct Disk {
    folder: tempfile::TempDir,
    failures: Arc<AtomicUsize>,
}

impl Disk {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), failures: Arc::default() }
    }

    fn spool(&self, bytes: usize) -> Arc<Spool> {
        let failures = self.failures.clone();
        Spool::new(self.folder.path().to_owned(), bytes, move |_| {
            failures.fetch_add(1, Ordering::Relaxed);
        })
    }
}

/// A connection that writes lines, and what reads them.
fn lines(spool: Option<Arc<Spool>>) -> (Outbox, DuplexStream) {
    let (ours, theirs) = tokio::io::duplex(4 * KIB);
    let connection = Connection::over(tokio::io::empty(), ours, limits());
    if let Some(spool) = spool {
        connection.outbox.spool_to(spool);
    }
    (connection.outbox, theirs)
}

fn message(number: usize, length: usize) -> Bytes {
    let filler = (b'a' + (number % 26) as u8) as char;
    format!("{number}:{}", filler.to_string().repeat(length)).into()
}

/// Messages of all sizes, most of them small.
fn lengths(count: usize) -> impl Iterator<Item = usize> {
    (0..count).map(|number| match number % 50 {
        49 => 3 * MIB,
        7 | 21 => 200 * KIB,
        _ => 50 * (number % 60),
    })
}

async fn read_all(theirs: DuplexStream, count: usize) {
    let mut reader = LineReader::new(theirs, 64 * MIB);
    for (number, length) in lengths(count).enumerate() {
        let Some(Line::Text(line)) = reader.next_line().await.unwrap() else {
            panic!("message {number} is missing")
        };
        assert!(line == message(number, length), "message {number}");
    }
    assert_eq!(reader.next_line().await.unwrap(), None);
}

#[tokio::test]
async fn spooled_messages_arrive_whole_and_in_order_without_memory() {
    let disk = Disk::new();
    let (outbox, theirs) = lines(Some(disk.spool(1 << 30)));
    let count = 300;
    let mut most = 0;
    for (number, length) in lengths(count).enumerate() {
        // What makes messages without end waits for the disk too.
        outbox.room().await;
        outbox.push(message(number, length)).unwrap();
        most = most.max(outbox.held_bytes());
    }
    assert!(outbox.queued_bytes() > 20 * MIB, "{}", outbox.queued_bytes());
    assert!(most < 6 * MIB, "{most} bytes in memory");
    let flushing = tokio::spawn({
        let outbox = outbox.clone();
        async move { outbox.flushed().await }
    });
    outbox.close(CloseReason::Finished);
    read_all(theirs, count).await;
    flushing.await.unwrap().unwrap();
    assert_eq!(outbox.queued_bytes(), 0);
    assert_eq!(disk.failures.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn spooling_continues_while_reading_and_ends_when_the_client_catches_up() {
    let disk = Disk::new();
    let (outbox, theirs) = lines(Some(disk.spool(1 << 30)));
    let count = 400;
    let reading = tokio::spawn(read_all(theirs, count));
    for (number, length) in lengths(count).enumerate() {
        outbox.room().await;
        outbox.push(message(number, length)).unwrap();
        if number % 40 == 0 {
            outbox.flushed().await.unwrap();
        }
        tokio::task::yield_now().await;
    }
    outbox.close(CloseReason::Finished);
    reading.await.unwrap();
}

#[tokio::test]
async fn a_spooled_message_is_one_frame() {
    let disk = Disk::new();
    let (ours, theirs) = tokio::io::duplex(4 * KIB);
    let (reader, writer) = tokio::io::split(ours);
    let connection = Connection::websocket(reader, writer, Role::Server, b"", limits(), None);
    connection.outbox.spool_to(disk.spool(1 << 30));
    for (number, length) in lengths(60).enumerate() {
        connection.outbox.room().await;
        connection.outbox.push(message(number, length)).unwrap();
    }
    let (theirs, _keep) = tokio::io::split(theirs);
    let mut reader = MessageReader::new(theirs, Role::Client, 64 * MIB, b"");
    for (number, length) in lengths(60).enumerate() {
        match reader.next().await.unwrap() {
            Some(Received::Text(text)) => assert!(text == message(number, length), "{number}"),
            other => panic!("message {number}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn waiting_deltas_are_merged() {
    let disk = Disk::new();
    let (outbox, mut theirs) = lines(Some(disk.spool(1 << 30)));
    let frame = DeltaFrame::new("d", &json!({}), "delta").unwrap();
    for number in 0..100_000 {
        outbox.room().await;
        outbox.push(frame.delta(&format!("{number} "))).unwrap();
    }
    outbox.close(CloseReason::Finished);
    let mut all = String::new();
    theirs.read_to_string(&mut all).await.unwrap();
    let mut text = String::new();
    for line in all.lines() {
        let message: Value = serde_json::from_str(line).unwrap();
        text.push_str(message["params"]["delta"].as_str().unwrap());
    }
    assert!(text == (0..100_000).map(|number| format!("{number} ")).collect::<String>());
    assert!(all.lines().count() < 10_000, "{}", all.lines().count());
}

#[tokio::test]
async fn without_room_on_disk_the_sender_waits() {
    for (room, works) in [(10 * MIB, true), (0, true), (1 << 30, false)] {
        let disk = Disk::new();
        let spool = disk.spool(room);
        if !works {
            std::fs::remove_dir(disk.folder.path()).unwrap();
        }
        let (outbox, theirs) = lines(Some(spool));
        let count = 300;
        let waits = outbox.clone();
        let reading = tokio::spawn(async move {
            while !waits.is_full() {
                tokio::task::yield_now().await;
            }
            drop(waits);
            read_all(theirs, count).await;
        });
        for (number, length) in lengths(count).enumerate() {
            outbox.room().await;
            outbox.push(message(number, length)).unwrap();
            assert!(outbox.queued_bytes() < room + 16 * MIB);
        }
        outbox.close(CloseReason::Finished);
        reading.await.unwrap();
        assert_eq!(disk.failures.load(Ordering::Relaxed) > 0, !works);
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_is_closed_and_its_spool_released() {
    let disk = Disk::new();
    let spool = disk.spool(8 * MIB);
    let (outbox, _theirs) = lines(Some(spool.clone()));
    let began = tokio::time::Instant::now();
    outbox.push(message(1, 2 * MIB)).unwrap();
    assert_eq!(outbox.closed().await, CloseReason::Stalled);
    assert_eq!(Some(began.elapsed()), limits().stall);
    let (outbox, _theirs) = lines(Some(spool));
    outbox.push(message(1, 3 * MIB)).unwrap();
    assert_eq!(outbox.close_reason(), None);
}

#[tokio::test(start_paused = true)]
async fn without_a_stall_limit_a_connection_waits_for_its_reader() {
    let limits = Limits { stall: None, ..limits() };
    let (ours, theirs) = tokio::io::duplex(4 * KIB);
    let (reader, writer) = tokio::io::split(ours);
    let connection = Connection::over(reader, writer, limits);
    let count = 40;
    for (number, length) in lengths(count).enumerate() {
        // Without a disk, and without waiting for room.
        connection.outbox.push(message(number, length)).unwrap();
    }
    let room = connection.outbox.clone();
    let room = tokio::spawn(async move { room.room().await });
    // tidy: sleep because the clock is paused: it costs no time.
    tokio::time::sleep(Duration::from_secs(24 * 3600)).await;
    assert_eq!(connection.outbox.close_reason(), None);
    assert!(!room.is_finished());
    let reading = tokio::spawn(read_all(theirs, count));
    room.await.unwrap();
    drop(connection);
    reading.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_last_read_is_awaited_while_it_makes_progress() {
    for reads in [true, false] {
        let limits = Limits { stall: None, ..limits() };
        let (ours, mut theirs) = tokio::io::duplex(4 * KIB);
        let (reader, writer) = tokio::io::split(ours);
        let connection = Connection::over(reader, writer, limits);
        connection.outbox.push(message(1, 256 * KIB)).unwrap();
        connection.outbox.close(CloseReason::Finished);
        let reading = tokio::spawn(async move {
            let mut block = [0; 4 * KIB];
            while reads && theirs.read(&mut block).await.unwrap() > 0 {
                // tidy: sleep because the clock is paused: it costs no time.
                tokio::time::sleep(Duration::from_millis(900)).await;
            }
            theirs
        });
        connection.outbox.drained(Duration::from_secs(1)).await;
        let reason = if reads { CloseReason::Finished } else { CloseReason::Stalled };
        assert_eq!(connection.outbox.close_reason(), Some(reason));
        reading.await.unwrap();
    }
}
