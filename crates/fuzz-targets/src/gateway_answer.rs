//! Answers: in whatever pieces they come, the same is seen and the same is forwarded; what is taken
//! out of a stream is whole. The first byte is the length of the pieces.

use bytes::Bytes;
use gateway_body::{EventFilter, Outcome, Reader};

fn read(mut reader: Reader, bytes: &[u8], length: usize) -> Outcome {
    bytes.chunks(length).for_each(|piece| reader.feed(piece));
    reader.finish()
}

fn filter(bytes: &[u8], length: usize) -> (Vec<u8>, Outcome) {
    let (mut filter, mut out) = (EventFilter::new(true, None), Vec::new());
    for piece in bytes.chunks(length) {
        filter.feed(Bytes::copy_from_slice(piece), &mut out);
    }
    let outcome = filter.finish(&mut out).outcome;
    assert!(out.iter().all(|piece| !piece.is_empty()));
    (out.concat(), outcome)
}

/// Checks one input.
pub fn run(bytes: &[u8]) {
    let [length, answer @ ..] = bytes else { return };
    let (short, whole) = (usize::from(*length).max(1), answer.len().max(1));
    let json = read(Reader::json(), answer, whole);
    assert_eq!(read(Reader::json(), answer, short), json);
    let events = read(Reader::events(), answer, whole);
    assert_eq!(read(Reader::events(), answer, short), events);
    let (forwarded, outcome) = filter(answer, whole);
    assert_eq!(outcome, events);
    assert_eq!(filter(answer, short), (forwarded.clone(), outcome));
    if forwarded.len() < answer.len() {
        let again = filter(&forwarded, whole);
        assert_eq!(again.0, forwarded, "nothing is left to be taken out");
        assert!(events.usage.is_some() || answer.windows(7).any(|word| word == b"\"usage\""));
    }
}
