//! The outgoing queue: order, merging, budget, stalls, and how little a push costs.

use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use bytes::Bytes;
use jsonrpc::{CloseReason, DeltaFrame, Limits, Outbox, OutboxReceiver, Outgoing, outbox};
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::io::AsyncWrite;

const STALL: Duration = Duration::from_secs(30);

fn frame(name: &str) -> DeltaFrame {
    DeltaFrame::new(name, &json!({"id": name}), "delta").unwrap()
}

fn whole(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

/// What the queue holds, as text; the queue must not be empty.
async fn take_all(receiver: &mut OutboxReceiver) -> Vec<String> {
    assert!(receiver.take().await);
    let mut messages = Vec::new();
    while let Some(message) = receiver.next_queued() {
        let mut bytes = Vec::new();
        message.append_to(&mut bytes);
        assert_eq!(bytes.len(), message.len());
        messages.push(String::from_utf8(bytes).unwrap());
    }
    messages
}

/// Records each write; takes nothing while it is stuck.
#[derive(Clone, Default)]
struct Recorder {
    writes: Arc<Mutex<Vec<Vec<u8>>>>,
    stuck: bool,
    broken: bool,
}

impl Recorder {
    fn text(&self) -> String {
        String::from_utf8(self.writes.lock().unwrap().concat()).unwrap()
    }
}

impl AsyncWrite for Recorder {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.stuck {
            return Poll::Pending;
        }
        if self.broken {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        self.writes.lock().unwrap().push(bytes.to_vec());
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn queued_messages_are_written_at_once_in_order() {
    let (outbox, receiver) = outbox(&Limits::default());
    let frame = frame("a");
    outbox.push(whole("1")).unwrap();
    outbox.push(frame.delta("x\"")).unwrap();
    outbox.push(frame.delta("y")).unwrap();
    outbox.push(whole("2")).unwrap();
    outbox.close(CloseReason::Finished);
    assert_eq!(outbox.push(whole("3")), Err(CloseReason::Finished));
    let recorder = Recorder::default();
    receiver.run(recorder.clone(), STALL).await;
    let expect = r#"1
{"method":"a","params":{"id":"a","delta":"x\""}}
{"method":"a","params":{"id":"a","delta":"y"}}
2
"#;
    assert_eq!(recorder.text(), expect);
    assert_eq!(recorder.writes.lock().unwrap().len(), 1);
    outbox.flushed().await.unwrap();
    assert_eq!(outbox.queued_bytes(), 0);
}

#[tokio::test]
async fn a_large_message_is_not_copied_and_keeps_its_order() {
    let (outbox, receiver) = outbox(&Limits::default());
    let big = "b".repeat(300_000);
    for message in ["1", &big, "2"] {
        outbox.push(whole(message)).unwrap();
    }
    drop(outbox);
    let recorder = Recorder::default();
    receiver.run(recorder.clone(), STALL).await;
    assert_eq!(recorder.text(), format!("1\n{big}\n2\n"));
    assert_eq!(recorder.writes.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn deltas_for_a_slow_client_are_merged() {
    let limits = Limits { merge_above: 1000, ..Limits::default() };
    let (outbox, mut receiver) = outbox(&limits);
    let frame = frame("a");
    for _ in 0..10_000 {
        outbox.push(frame.delta("0123456789")).unwrap();
    }
    outbox.push(whole("between")).unwrap();
    for _ in 0..10 {
        outbox.push(frame.delta("+")).unwrap();
    }
    let messages = take_all(&mut receiver).await;
    assert!(messages.len() < 30, "{} messages", messages.len());
    let place = messages.iter().position(|message| message == "between").unwrap();
    assert_eq!(place, messages.len() - 2, "nothing is merged across another message");
    assert_eq!(messages[place + 1], r#"{"method":"a","params":{"id":"a","delta":"++++++++++"}}"#);
}

#[tokio::test]
async fn merging_stops_at_a_megabyte_a_message() {
    let limits = Limits { merge_above: 0, ..Limits::default() };
    let (outbox, mut receiver) = outbox(&limits);
    let frame = frame("a");
    let piece = "x".repeat(100_000);
    for _ in 0..30 {
        outbox.push(frame.delta(&piece)).unwrap();
    }
    // A batch is about as long.
    let mut messages = take_all(&mut receiver).await;
    messages.extend(take_all(&mut receiver).await);
    let lengths: Vec<_> = messages.iter().map(String::len).collect();
    assert_eq!(lengths.len(), 3, "{lengths:?}");
    assert!(lengths.iter().all(|length| *length < (1 << 20) + 100), "{lengths:?}");
}

#[tokio::test]
async fn pushing_twice_the_budget_without_waiting_closes_the_outbox() {
    let limits = Limits { outgoing_bytes: 100, ..Limits::default() };
    let (outbox, mut receiver) = outbox(&limits);
    let fifty = whole(&"x".repeat(50));
    outbox.push(fifty.clone()).unwrap();
    assert_eq!(take_all(&mut receiver).await.len(), 1);
    assert_eq!(outbox.queued_bytes(), 50, "what is being written still counts");
    assert!(!outbox.is_full());
    outbox.push(fifty.clone()).unwrap();
    assert!(outbox.is_full());
    for _ in 0..2 {
        outbox.push(fifty.clone()).unwrap();
    }
    assert_eq!(outbox.close_reason(), None);
    assert_eq!(outbox.push(fifty.clone()), Err(CloseReason::SlowClient));
    assert_eq!(outbox.push(fifty), Err(CloseReason::SlowClient));
    assert_eq!(outbox.closed().await, CloseReason::SlowClient);
    assert!(!receiver.take().await, "what was queued is dropped");
    drop(receiver);
    assert_eq!(outbox.flushed().await, Err(CloseReason::SlowClient));
}

#[tokio::test]
async fn messages_after_an_oversized_one_are_queued() {
    let (outbox, receiver) = outbox(&Limits { outgoing_bytes: 1000, ..Limits::default() });
    let big = "x".repeat(100_000);
    outbox.push(whole(&big)).unwrap();
    for text in ["1", "2", "3"] {
        outbox.push(whole(text)).unwrap();
    }
    drop(outbox);
    let recorder = Recorder::default();
    receiver.run(recorder.clone(), STALL).await;
    assert_eq!(recorder.text(), format!("{big}\n1\n2\n3\n"));
}

#[tokio::test(start_paused = true)]
async fn room_is_released_and_a_client_must_make_progress() {
    let (outbox, mut receiver) = outbox(&Limits { outgoing_bytes: 100, ..Limits::default() });
    let hundred = whole(&"x".repeat(100));
    outbox.push(hundred.clone()).unwrap();
    let mut room = Box::pin(outbox.room());
    assert!(poll_once(room.as_mut()).is_pending());
    assert_eq!(take_all(&mut receiver).await.len(), 1);
    let waiting = outbox.clone();
    let taking = tokio::spawn(async move { receiver.take().await });
    room.await;
    outbox.push(hundred.clone()).unwrap();
    taking.await.unwrap();
    // The receiver is gone with its task, which closes; so another one, that takes nothing.
    drop(waiting);
    let (outbox, _receiver) = jsonrpc::outbox(&Limits { outgoing_bytes: 100, ..Limits::default() });
    outbox.push(hundred).unwrap();
    let began = tokio::time::Instant::now();
    outbox.room().await;
    assert_eq!(outbox.close_reason(), Some(CloseReason::SlowClient));
    assert_eq!(began.elapsed(), Duration::from_secs(2));
}

#[tokio::test]
async fn answers_are_counted_until_they_are_written() {
    let (outbox, mut receiver) = outbox(&Limits::default());
    outbox.push_answer(whole(&"x".repeat(60))).unwrap();
    outbox.push(whole(&"y".repeat(60))).unwrap();
    outbox.push_answer(whole(&"x".repeat(60))).unwrap();
    outbox.answers_below(121).await;
    let mut below = pin!(outbox.answers_below(61));
    assert!(poll_once(below.as_mut()).is_pending());
    assert_eq!(take_all(&mut receiver).await.len(), 3);
    assert!(poll_once(below.as_mut()).is_pending(), "taken is not written");
    let mut taking = pin!(receiver.take());
    assert!(poll_once(taking.as_mut()).is_pending());
    assert!(poll_once(below.as_mut()).is_ready());
}

#[tokio::test]
async fn one_message_may_be_larger_than_the_budget() {
    let (outbox, receiver) = outbox(&Limits { outgoing_bytes: 10, ..Limits::default() });
    outbox.push(whole(&"x".repeat(1000))).unwrap();
    drop(outbox);
    let recorder = Recorder::default();
    receiver.run(recorder.clone(), STALL).await;
    assert_eq!(recorder.text().len(), 1001);
}

#[tokio::test(start_paused = true)]
async fn a_write_without_progress_closes() {
    let (outbox, receiver) = outbox(&Limits::default());
    outbox.push(whole("1")).unwrap();
    let start = tokio::time::Instant::now();
    receiver.run(Recorder { stuck: true, ..Recorder::default() }, STALL).await;
    assert_eq!(start.elapsed(), STALL);
    assert_eq!(outbox.close_reason(), Some(CloseReason::Stalled));
    assert_eq!(outbox.flushed().await, Err(CloseReason::Stalled));
}

#[tokio::test]
async fn an_abrupt_close_interrupts_the_write() {
    let (outbox, receiver) = outbox(&Limits::default());
    outbox.push(whole("1")).unwrap();
    let writing =
        tokio::spawn(receiver.run(Recorder { stuck: true, ..Recorder::default() }, STALL));
    tokio::task::yield_now().await;
    outbox.close(CloseReason::Finished);
    outbox.close(CloseReason::Aborted);
    outbox.close(CloseReason::Shutdown);
    writing.await.unwrap();
    assert_eq!(outbox.closed().await, CloseReason::Aborted);
}

#[tokio::test]
async fn a_failed_write_closes_with_its_kind() {
    let (outbox, receiver) = outbox(&Limits::default());
    outbox.push(whole("1")).unwrap();
    receiver.run(Recorder { broken: true, ..Recorder::default() }, STALL).await;
    let reason = CloseReason::WriteFailed(io::ErrorKind::BrokenPipe);
    assert_eq!(outbox.closed().await, reason);
    assert_eq!(outbox.push(whole("2")), Err(reason));
}

#[tokio::test]
async fn flushed_waits_for_earlier_messages() {
    let (outbox, receiver) = outbox(&Limits::default());
    outbox.push(whole("1")).unwrap();
    let recorder = Recorder::default();
    let mut flushed = pin!(outbox.flushed());
    assert!(poll_once(flushed.as_mut()).is_pending());
    let writing = tokio::spawn(receiver.run(recorder.clone(), STALL));
    flushed.await.unwrap();
    assert_eq!(recorder.text(), "1\n");
    outbox.close(CloseReason::Finished);
    writing.await.unwrap();
}

#[tokio::test]
async fn without_a_receiver_nothing_is_accepted() {
    let (outbox, receiver) = outbox(&Limits::default());
    outbox.push(whole("1")).unwrap();
    drop(receiver);
    assert_eq!(outbox.push(whole("2")), Err(CloseReason::Aborted));
    assert_eq!(outbox.flushed().await, Err(CloseReason::Aborted));
}

struct CountWakes(AtomicUsize);

impl Wake for CountWakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn only_a_sleeping_writer_is_woken() {
    let (outbox, mut receiver) = outbox(&Limits::default());
    let wakes = Arc::new(CountWakes(AtomicUsize::new(0)));
    let waker = Waker::from(wakes.clone());
    let mut taking = Box::pin(receiver.take());
    assert!(taking.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    for _ in 0..1000 {
        outbox.push(whole("x")).unwrap();
    }
    assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
    assert!(taking.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
    drop(taking);
    outbox.push(whole("x")).unwrap();
    assert_eq!(wakes.0.load(Ordering::Relaxed), 1, "while it writes, a push wakes no task");
}

#[test]
fn messages_of_each_thread_keep_their_order() {
    let (outbox, receiver) = outbox(&Limits::default());
    let recorder = Recorder::default();
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            let outbox: Outbox = outbox.clone();
            std::thread::spawn(move || {
                for number in 0..2000 {
                    outbox.push(whole(&format!("{thread} {number}"))).unwrap();
                }
            })
        })
        .collect();
    drop(outbox);
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap()
        .block_on(receiver.run(recorder.clone(), STALL));
    for thread in threads {
        thread.join().unwrap();
    }
    let text = recorder.text();
    assert_eq!(text.lines().count(), 8000);
    for thread in 0..4 {
        let prefix = format!("{thread} ");
        let numbers = text.lines().filter_map(|line| line.strip_prefix(&prefix));
        assert!(numbers.eq((0..2000).map(|n| n.to_string())), "thread {thread}");
    }
}

#[derive(Clone, Debug)]
enum Step {
    Whole(u8),
    Delta(usize, String),
    Take,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => any::<u8>().prop_map(Step::Whole),
        6 => (0..3_usize, "[a-z\"é]{0,6}").prop_map(|(frame, text)| Step::Delta(frame, text)),
        1 => Just(Step::Take),
    ]
}

/// Consecutive deltas of one frame become one, as a client would append them.
fn appended(messages: impl IntoIterator<Item = String>) -> Vec<(String, String)> {
    let mut seen: Vec<(String, String)> = Vec::new();
    for message in messages {
        let json: Value = serde_json::from_str(&message).unwrap();
        let name = json["method"].as_str().map_or_else(|| message.clone(), str::to_owned);
        let text = json["params"]["delta"].as_str().unwrap_or_default();
        match seen.last_mut() {
            Some((last, sofar)) if *last == name && json["method"].is_string() => {
                sofar.push_str(text);
            }
            _ => seen.push((name, text.to_owned())),
        }
    }
    seen
}

proptest! {
    #[test]
    fn nothing_is_lost_or_reordered(
        steps in prop::collection::vec(step(), 0..80), merge_above in 0_usize..400,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (outbox, mut receiver) = outbox(&Limits { merge_above, ..Limits::default() });
        let frames = ["a", "b", "c"].map(frame);
        let (mut sent, mut received) = (Vec::new(), Vec::new());
        let mut waiting = false;
        for step in steps.into_iter().chain([Step::Take]) {
            let message = match step {
                Step::Whole(number) => Outgoing::Whole(whole(&number.to_string())),
                Step::Delta(frame, text) => frames[frame].delta(&text),
                Step::Take => {
                    if std::mem::take(&mut waiting) {
                        received.extend(runtime.block_on(take_all(&mut receiver)));
                    }
                    continue;
                }
            };
            sent.push(match &message {
                Outgoing::Whole(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
                Outgoing::Delta { head, text, tail } => {
                    String::from_utf8([&head[..], text, tail].concat()).unwrap()
                }
            });
            outbox.push(message).unwrap();
            waiting = true;
        }
        prop_assert!(received.len() <= sent.len());
        prop_assert_eq!(appended(received), appended(sent));
    }
}
