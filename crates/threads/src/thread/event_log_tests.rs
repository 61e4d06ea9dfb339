//! A client that reconnects at any position ends with the same state as one that stayed connected.

use jsonrpc::{DeltaFrame, encode_notification};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn id(text: &str) -> Id {
    text.into()
}

fn info(method: &str) -> &'static MessageInfo {
    protocol::lookup_notification(method).unwrap()
}

fn log() -> EventLog {
    EventLog::new("e".to_owned(), None, Vec::new())
}

fn whole(method: &str, number: u64) -> Outgoing {
    Outgoing::Whole(encode_notification(method, &json!({ "n": number })).unwrap())
}

fn frame(item: &str) -> DeltaFrame {
    DeltaFrame::new("item/agentMessage/delta", &json!({ "itemId": item }), "delta").unwrap()
}

/// The message as the client reads it, with its cursor.
fn read(message: Outgoing) -> (Value, EventPosition) {
    let mut bytes = Vec::new();
    jsonrpc::Queued::from(message).append_to(&mut bytes);
    let value: Value = serde_json::from_slice(&bytes).unwrap();
    let place = EventPosition::read(value["eventCursor"].as_str().unwrap()).unwrap();
    (value, place)
}

fn going<'a>(turn: &'a Id, item: &'a Id, phase: ItemPhase) -> EventSubject<'a> {
    EventSubject { turn: Some(turn), item: Some((item, phase)) }
}

fn missed(log: &EventLog, place: &EventPosition) -> Vec<Value> {
    log.since(place).unwrap().into_iter().map(|(_, message)| read(message).0).collect()
}

#[test]
fn a_client_that_saw_the_first_half_of_a_stream_is_sent_the_second() {
    let (mut log, turn, item) = (log(), id("t1"), id("i1"));
    let frame = frame("i1");
    let mut seen = Vec::new();
    for text in ["Hel", "lo \"w\"", "örld\n", "", "!"] {
        let about = going(&turn, &item, ItemPhase::Going);
        seen.push(read(log.add(info("item/agentMessage/delta"), &frame.delta(text), about)));
    }
    for (at, rest) in ["lo \"w\"örld\n!", "örld\n!", "!", "!"].iter().enumerate() {
        let missed = missed(&log, &seen[at].1);
        assert_eq!(missed.len(), 1, "in one piece");
        assert_eq!(missed[0]["params"]["delta"], *rest);
        assert_eq!(missed[0]["eventCursor"], log.cursor());
    }
    assert!(missed(&log, &seen[4].1).is_empty());
}

#[test]
fn a_position_inside_a_character_or_an_escape_is_invalid() {
    let (mut log, turn, item) = (log(), id("t1"), id("i1"));
    let about = going(&turn, &item, ItemPhase::Going);
    log.add(info("item/agentMessage/delta"), &frame("i1").delta("ö\n\u{1}x"), about);
    // ö is two bytes, \n two, \u0001 six.
    let fits: Vec<bool> = (0..=11)
        .map(|position| {
            let at = EventPosition { epoch: "e".into(), position, turn: None };
            log.since(&at).is_ok()
        })
        .collect();
    let expect = [true, false, true, false, true, false, false, false, false, false, true, true];
    assert_eq!(fits, expect);
}

#[test]
fn deltas_of_a_final_item_are_not_replayed() {
    let (mut log, turn) = (log(), id("t1"));
    let (first, second) = (id("i1"), id("i2"));
    let begin = EventPosition::read(&log.cursor()).unwrap();
    let (one, two) = (frame("i1"), frame("i2"));
    log.add(
        info("item/started"),
        &whole("item/started", 1),
        going(&turn, &first, ItemPhase::Started),
    );
    for text in ["a", "b"] {
        log.add(
            info("item/agentMessage/delta"),
            &one.delta(text),
            going(&turn, &first, ItemPhase::Going),
        );
        log.add(
            info("item/agentMessage/delta"),
            &two.delta(text),
            going(&turn, &second, ItemPhase::Going),
        );
    }
    log.add(
        info("item/completed"),
        &whole("item/completed", 1),
        going(&turn, &first, ItemPhase::Completed),
    );
    let methods: Vec<Value> = missed(&log, &begin).iter().map(|m| m["method"].clone()).collect();
    let expect =
        ["item/started", "item/agentMessage/delta", "item/agentMessage/delta", "item/completed"];
    assert_eq!(methods, expect);
    for item in missed(&log, &begin).iter().filter(|m| m["params"].get("delta").is_some()) {
        assert_eq!(item["params"]["itemId"], "i2");
    }
}

#[test]
fn only_the_newest_status_is_kept() {
    let mut log = log();
    let begin = EventPosition::read(&log.cursor()).unwrap();
    for number in 0..5 {
        let status = whole("thread/status/changed", number);
        log.add(info("thread/status/changed"), &status, EventSubject::default());
    }
    let missed = missed(&log, &begin);
    assert_eq!(missed.len(), 1);
    assert_eq!(missed[0]["params"]["n"], 4);
}

#[test]
fn a_client_that_missed_more_than_the_log_keeps_gets_an_error() {
    let mut log = log();
    let begin = EventPosition::read(&log.cursor()).unwrap();
    let message =
        Outgoing::Whole(Bytes::from(format!("{{\"x\":\"{}\"}}", "x".repeat(KEPT_BYTES / 8))));
    for number in 0..20 {
        log.add(info("item/completed"), &message, EventSubject::default());
        assert!(log.bytes <= KEPT_BYTES);
        assert_eq!(log.since(&begin).is_err(), number >= 7, "{number}");
    }
    assert_eq!(log.since(&begin).unwrap_err(), ReplayGap::TooOld);
    let ahead = EventPosition { position: log.end + 1, ..begin.clone() };
    assert_eq!(log.since(&ahead).unwrap_err(), ReplayGap::TooOld);
    let other = EventPosition { epoch: "f".into(), ..begin };
    assert_eq!(log.since(&other).unwrap_err(), ReplayGap::Reloaded);
    let now = EventPosition::read(&log.cursor()).unwrap();
    assert!(log.since(&now).unwrap().is_empty());
    log.cut();
    assert_eq!(log.since(&now).unwrap_err(), ReplayGap::TooOld, "also who had seen everything");
}

#[test]
fn a_cursor_names_the_oldest_turn_that_may_still_change() {
    let (mut log, first, second, third) = (log(), id("t1"), id("t2"), id("t3"));
    let turn_of = |log: &EventLog| EventPosition::read(&log.cursor()).unwrap().turn;
    let started = |log: &mut EventLog, turn: &Id| {
        let about = EventSubject { turn: Some(turn), item: None };
        log.add(info("turn/started"), &whole("turn/started", 0), about);
    };
    assert_eq!(turn_of(&log), None);
    started(&mut log, &first);
    let item = id("background");
    log.add(
        info("item/started"),
        &whole("item/started", 1),
        going(&first, &item, ItemPhase::Started),
    );
    started(&mut log, &second);
    started(&mut log, &third);
    assert_eq!(turn_of(&log).as_deref(), Some("t1"), "its command still runs");
    log.add(
        info("item/completed"),
        &whole("item/completed", 1),
        going(&first, &item, ItemPhase::Completed),
    );
    assert_eq!(turn_of(&log).as_deref(), Some("t3"));
}

#[test]
fn an_invalid_cursor_is_not_parsed() {
    for text in ["", ".", "e", "e.1", "e.x.t", "e.-1.t", "e.99999999999999999999.t"] {
        assert_eq!(EventPosition::read(text), None, "{text}");
    }
    assert!(EventPosition::read("e.1.").is_some());
}

/// An event of a random history: a piece of one of three streams, the end of one, something else.
#[derive(Clone, Debug)]
enum Operation {
    Piece(usize, String),
    Final(usize),
    Other,
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        4 => (0..3usize, "[a-z\"\\\\\n\u{1}ö🙂]{0,12}").prop_map(|(s, t)| Operation::Piece(s, t)),
        1 => (0..3usize).prop_map(Operation::Final),
        1 => Just(Operation::Other),
    ]
}

proptest! {
    /// However a connection is cut: what was seen and what is sent again make the same texts.
    #[test]
    fn resuming_neither_skips_nor_repeats_events(
        all in prop::collection::vec(operation(), 1..60), cut in 0usize..60,
    ) {
        let (mut log, turn) = (log(), id("t1"));
        let mut generation = [0; 3];
        let mut frames: Vec<DeltaFrame> = (0..3).map(|s| frame(&format!("{s}-0"))).collect();
        let mut sent = vec![(Value::Null, EventPosition::read(&log.cursor()).unwrap())];
        for operation in &all {
            let item = |s: usize, generation: &[u32; 3]| id(&format!("{s}-{}", generation[s]));
            let message = match operation {
                Operation::Piece(s, text) => {
                    let item = item(*s, &generation);
                    let about = going(&turn, &item, ItemPhase::Going);
                    log.add(info("item/agentMessage/delta"), &frames[*s].delta(text), about)
                }
                Operation::Final(s) => {
                    let item = item(*s, &generation);
                    let about = going(&turn, &item, ItemPhase::Completed);
                    generation[*s] += 1;
                    frames[*s] = frame(&format!("{s}-{}", generation[*s]));
                    let done = json!({ "final": &*item });
                    let done = encode_notification("item/completed", &done).unwrap();
                    log.add(info("item/completed"), &Outgoing::Whole(done), about)
                }
                Operation::Other => log.add(info("warning"), &whole("warning", 1), EventSubject::default()),
            };
            sent.push(read(message));
        }
        let whole_view = view(sent.iter().map(|(message, _)| message));
        let cut = cut.min(sent.len() - 1);
        let again = missed(&log, &sent[cut].1);
        let resumed = view(sent[..=cut].iter().map(|(message, _)| message).chain(&again));
        prop_assert_eq!(whole_view, resumed);
    }
}

/// The texts of what is not final, the final ones, and how many other events there were.
fn view<'a>(
    messages: impl Iterator<Item = &'a Value>,
) -> (std::collections::BTreeMap<String, String>, Vec<String>, usize) {
    let (mut open, mut done, mut others) = (std::collections::BTreeMap::new(), Vec::new(), 0);
    for message in messages {
        let params = &message["params"];
        if let Some(item) = params["itemId"].as_str() {
            let text: &mut String = open.entry(item.to_owned()).or_default();
            text.push_str(params["delta"].as_str().unwrap());
        } else if let Some(item) = params["final"].as_str() {
            open.remove(item);
            done.push(item.to_owned());
        } else if message["method"] == "warning" {
            others += 1;
        }
    }
    open.retain(|_, text| !text.is_empty());
    (open, done, others)
}
