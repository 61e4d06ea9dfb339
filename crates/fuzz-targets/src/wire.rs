//! The wires of model servers: any events of any wire end once and pass every encoder; a request that is read is
//! written for every wire as JSON, and the same each time. The first byte is the wire; each line is an event.

use wire::{
    Decoder, EncodeContext, Encoder, Event, Failure, ResponseContext, Target, Wire, read_item,
    read_request, whole_response, write_request,
};

fn stream(wire: Wire, bytes: &[u8]) {
    let mut decoder = Decoder::new(wire, ResponseContext::default());
    let mut encoders =
        Wire::ALL.map(|wire| (Encoder::new(wire, EncodeContext::default()), String::new()));
    let mut response = wire::Response::default();
    let mut ends = 0;
    let mut sink = |event: Event<'_>| {
        assert_eq!(ends, 0, "nothing follows the end");
        ends += usize::from(matches!(event, Event::Ended(_) | Event::Failed { .. }));
        response.event(&event);
        encoders.iter_mut().for_each(|(encoder, out)| encoder.event(&event, out));
    };
    for data in bytes.split(|byte| *byte == b'\n') {
        decoder.event(data, &mut sink);
    }
    decoder.finish(&mut sink);
    assert_eq!(ends, 1);
    for wire in Wire::ALL {
        if let Ok(body) = whole_response(wire, &response, &EncodeContext::default()) {
            assert!(is_json(&body), "{body}");
        }
    }
    for (_, out) in &encoders {
        for line in out.lines().filter_map(|line| line.strip_prefix("data: ")) {
            assert!(line == "[DONE]" || is_json(line), "{line}");
        }
    }
    for (_, item) in &response.items {
        let json = item.to_json();
        assert!(read_item(&json, &mut wire::Warnings::default()).is_ok(), "{json}");
    }
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<serde_json::Value>(text).is_ok()
}

fn request(wire: Wire, bytes: &[u8]) {
    let (read, _) = match read_request(wire, "m", bytes) {
        Ok(read) => read,
        Err(error) => {
            assert!(is_json(&error.body(wire)));
            return;
        }
    };
    for to in Wire::ALL {
        let Ok(encoded) = write_request(to, &read, &Target::default()) else { continue };
        assert!(is_json(&encoded.body), "{}", encoded.body);
        assert_eq!(write_request(to, &read, &Target::default()).as_ref(), Ok(&encoded));
    }
}

/// Checks one input.
pub fn run(bytes: &[u8]) {
    let [wire, rest @ ..] = bytes else { return };
    let wire = Wire::ALL[usize::from(*wire) % Wire::ALL.len()];
    stream(wire, rest);
    request(wire, rest);
    for to in Wire::ALL {
        assert!(is_json(&Failure::read(400, rest).body(to)));
    }
    let mut decoder = Decoder::new(wire, ResponseContext::default());
    let mut ends = 0;
    decoder.document(rest, &mut |event| {
        ends += usize::from(matches!(event, Event::Ended(_) | Event::Failed { .. }));
    });
    assert_eq!(ends, 1);
}
