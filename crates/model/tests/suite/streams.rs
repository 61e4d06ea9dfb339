//! Recorded streams in `streams/NAME.sse`, and the events that each one holds in `streams/NAME.events`.
//! A stream gives the same events however the network cuts it. `UPDATE_STREAMS=1` rewrites the expected
//! events; read the difference before you commit it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use model::{Decoder, Event};

/// The events of a stream that arrives in `pieces`.
fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<Event> {
    let (mut decoder, mut events) = (Decoder::new(), Vec::new());
    for piece in pieces {
        decoder.feed(piece, &mut events);
    }
    decoder.finish(&mut events);
    events
}

/// Every recorded stream, by its path, in the order of their names.
fn streams() -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/streams");
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|kind| kind == "sse")).collect();
    paths.sort();
    let read = |path: PathBuf| {
        let bytes = std::fs::read(&path).unwrap();
        (path, bytes)
    };
    paths.into_iter().map(read).collect()
}

#[test]
fn a_stream_has_the_expected_events() {
    let streams = streams();
    assert!(streams.len() >= 40, "only {} streams", streams.len());
    for (path, bytes) in streams {
        let mut found = String::new();
        for event in decode([&bytes[..]]) {
            writeln!(found, "{event:?}").unwrap();
        }
        let expected = path.with_extension("events");
        if std::env::var_os("UPDATE_STREAMS").is_some() {
            std::fs::write(&expected, &found).unwrap();
        }
        assert_eq!(found, std::fs::read_to_string(&expected).unwrap(), "{}", path.display());
    }
}

#[test]
fn a_stream_ends_exactly_once() {
    for (path, bytes) in streams() {
        let events = decode([&bytes[..]]);
        let ends = events.iter().filter(|event| event.is_terminal()).count();
        assert_eq!(ends, 1, "{}", path.display());
        assert!(events.last().unwrap().is_terminal(), "{}", path.display());
    }
}

#[test]
fn any_split_gives_the_same_events() {
    for (path, bytes) in streams() {
        let whole = decode([&bytes[..]]);
        assert_eq!(decode(bytes.chunks(1)), whole, "{} byte by byte", path.display());
        for at in 0..=bytes.len() {
            let (head, tail) = bytes.split_at(at);
            assert_eq!(decode([head, tail]), whole, "{} split at {at}", path.display());
        }
    }
}
