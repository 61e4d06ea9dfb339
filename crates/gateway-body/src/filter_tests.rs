//! The usage chunk is removed and all else is kept, however the stream is split.

use proptest::prelude::*;

use super::super::answer::tests::{pieces, read, stream_like};
use super::*;

fn filter(parts: &[&[u8]]) -> (String, Outcome) {
    let mut filter = EventFilter::new(true, None);
    let mut out = Vec::new();
    for part in parts {
        filter.feed(Bytes::copy_from_slice(part), &mut out);
    }
    let FilterEnd { outcome, .. } = filter.finish(&mut out);
    assert!(out.iter().all(|piece| !piece.is_empty()));
    (String::from_utf8_lossy(&out.concat()).into_owned(), outcome)
}

const TEXT: &str =
    "data: {\"id\":\"c\",\"choices\":[{\"delta\":{\"content\":\"hi\"}}],\"usage\":null}\n\n";
const USAGE: &str = "data: {\"id\":\"c\",\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4}}\n\n";
const DONE: &str = "data: [DONE]\n\n";

#[test]
fn the_usage_chunk_is_removed() {
    let empty = "data: {\"choices\":[],\"usage\":null}\n\n";
    let both = "data: {\"choices\":[{}],\"usage\":{\"prompt_tokens\":1}}\n\n";
    let ping = ": ping\n\n";
    for end in ["\n", "\r\n", "\r"] {
        let stream = |parts: &[&str]| parts.concat().replace('\n', end);
        let all = stream(&[ping, TEXT, empty, both, USAGE, ping, DONE]);
        let kept = stream(&[ping, TEXT, empty, both, ping, DONE]);
        let (whole, outcome) = filter(&[all.as_bytes()]);
        assert_eq!(whole, kept);
        let usage = outcome.usage.unwrap();
        assert_eq!((usage.input_tokens, usage.output_tokens), (3, 4));
        assert!(outcome.complete);
        let single: Vec<&[u8]> = all.as_bytes().chunks(1).collect();
        assert_eq!(filter(&single), (kept, outcome));
    }
}

#[test]
fn events_are_forwarded_when_they_are_complete() {
    let mut filter = EventFilter::new(true, None);
    let mut out = Vec::new();
    let (begin, end) = TEXT.split_at(20);
    filter.feed(Bytes::from_static(begin.as_bytes()), &mut out);
    assert!(out.is_empty());
    filter.feed(Bytes::from_static(end.as_bytes()), &mut out);
    assert_eq!(out.concat(), TEXT.as_bytes());
    assert_eq!(filter.reader().id(), Some("c"));
    out.clear();
    let two = Bytes::from(TEXT.repeat(2));
    filter.feed(two.clone(), &mut out);
    assert_eq!(out, [two], "whole events are not cut");
}

#[test]
fn a_long_event_is_not_held() {
    let mut filter = EventFilter::new(true, None);
    let mut out = Vec::new();
    filter.feed(Bytes::from_static(b"data: {\"choices\":[],\"usage\":{},\"x\":\""), &mut out);
    let mut fed = 0;
    for _ in 0..100 {
        filter.feed(Bytes::from(vec![b'x'; 1000]), &mut out);
        fed += 1000;
        let forwarded: usize = out.iter().map(Bytes::len).sum();
        assert!(fed - forwarded.min(fed) <= MAX_HELD);
    }
    filter.feed(Bytes::from_static(b"\"}\n\n"), &mut out);
    assert!(out.concat().ends_with(b"\"}\n\n"));
    out.clear();
    filter.feed(Bytes::from_static(USAGE.as_bytes()), &mut out);
    assert!(out.is_empty(), "the next event is judged again");
}

#[test]
fn a_truncated_event_is_forwarded() {
    let (text, outcome) = filter(&[TEXT.as_bytes(), &USAGE.as_bytes()[..30]]);
    assert_eq!(text, format!("{TEXT}{}", &USAGE[..30]));
    assert!(!outcome.complete && outcome.usage.is_none());
}

const CREATED: &str = "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r\"}}\n\n";
const START: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{}}\n\n";
const STOP_EVENT: &str = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
const CANDIDATE: &str =
    "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"hi\"}]}}]}\n\n";

#[test]
fn an_event_of_another_wire_ends_what_is_forwarded() {
    let streams = [
        (Kind::Responses, CREATED),
        (Kind::Chat, TEXT),
        (Kind::Messages, START),
        (Kind::Gemini, CANDIDATE),
    ];
    for (wire, own) in streams {
        for (other, foreign) in streams {
            let stream = format!(": hello\n\n{own}{foreign}{own}");
            for length in [1, 7, stream.len()] {
                let (mut filter, mut out) = (EventFilter::new(false, Some(wire)), Vec::new());
                for piece in stream.as_bytes().chunks(length) {
                    filter.feed(Bytes::copy_from_slice(piece), &mut out);
                }
                let found = filter.other_wire();
                filter.finish(&mut out);
                let text = String::from_utf8(out.concat()).unwrap();
                let is_same = wire == other;
                assert_eq!(found, (!is_same).then_some(other), "{wire:?} {other:?} {length}");
                assert_eq!(text.matches(own).count(), if is_same { 3 } else { 1 }, "{text}");
                assert_eq!(text.contains(foreign), is_same, "{text}");
            }
        }
    }
}

#[test]
fn the_beginning_of_an_event_is_not_forwarded_where_the_wire_matters() {
    let end = |stream: &str| {
        let (mut filter, mut out) = (EventFilter::new(false, Some(Kind::Messages)), Vec::new());
        filter.feed(Bytes::copy_from_slice(stream.as_bytes()), &mut out);
        let end = filter.finish(&mut out);
        (String::from_utf8(out.concat()).unwrap(), end.outcome.complete, end.is_inside)
    };
    let whole = format!("{START}{STOP_EVENT}");
    assert_eq!(end(&whole), (whole.clone(), true, false));
    // Some servers leave out the blank line after the last event.
    let bare = whole.trim_end();
    assert_eq!(end(bare), (bare.to_owned(), true, false));
    for cut in [whole.len() - 4, START.len() + 3, START.len() - 2] {
        let expected = if cut < START.len() { "" } else { START };
        assert_eq!(end(&whole[..cut]), (expected.to_owned(), false, false), "{cut}");
    }
    let long = format!("data: {{\"x\":\"{}", "x".repeat(MAX_HELD));
    assert_eq!(end(&long), (long.clone(), false, true));
}

/// Its ledger says that it is complete, and so must its client.
#[test]
fn an_answer_that_told_why_it_stops_gets_its_last_event() {
    let reason = "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n";
    let failed = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\"}}\n\n";
    let whole = format!("{START}{reason}{STOP_EVENT}");
    for (stream, expected) in [
        (whole.clone(), whole.clone()),
        (format!("{START}{reason}"), whole.clone()),
        (format!("{START}{}", reason.trim_end()), whole),
        (format!("{START}{reason}{failed}"), format!("{START}{reason}{failed}")),
    ] {
        let (mut filter, mut out) = (EventFilter::new(false, Some(Kind::Messages)), Vec::new());
        filter.feed(Bytes::copy_from_slice(stream.as_bytes()), &mut out);
        let end = filter.finish(&mut out);
        assert_eq!(String::from_utf8(out.concat()).unwrap(), expected);
        assert!(end.is_over && (end.outcome.complete || end.outcome.failed), "{stream}");
    }
    let (mut filter, mut out) = (EventFilter::new(false, Some(Kind::Messages)), Vec::new());
    filter.feed(Bytes::from_static(START.as_bytes()), &mut out);
    assert!(!filter.finish(&mut out).is_over, "it gave no reason");
    assert_eq!(out.concat(), START.as_bytes());
}

#[test]
fn signs_of_life_are_no_progress_and_pass_at_once() {
    let (mut filter, mut out) = (EventFilter::new(false, Some(Kind::Messages)), Vec::new());
    for (piece, is_progress, events) in [
        (": ping\n\n", false, 0),
        (":\n", false, 0),
        ("event: ping\ndata: {\"type\":\"ping\"}\n\n", false, 1),
        (START, true, 2),
    ] {
        out.clear();
        filter.feed(Bytes::from_static(piece.as_bytes()), &mut out);
        assert_eq!(out.concat(), piece.as_bytes());
        assert_eq!((filter.take_progress(), filter.events()), (is_progress, events), "{piece}");
    }
}

proptest! {
    #[test]
    fn any_split_gives_the_same(
        bytes in stream_like(),
        usage in any::<bool>(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let mut bytes = bytes;
        if usage {
            bytes.splice(0..0, format!("{TEXT}{USAGE}").bytes());
        }
        let whole = filter(&[&bytes]);
        prop_assert_eq!(&filter(&pieces(&bytes, &cuts)), &whole);
        prop_assert_eq!(&whole.1, &read(Reader::events(), &[&bytes]));
    }
}
