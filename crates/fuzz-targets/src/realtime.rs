//! Messages of a provider of the realtime API, one a line, with texts of the user between them: what is sent
//! to the provider is JSON with a type, never more than the queue has room for, and a session starts once.

use realtime::{Conversation, Effect, Input, Report};
use serde_json::Value;

use crate::input::text;

/// Checks one input.
pub fn run(bytes: &[u8]) {
    let text = text(bytes);
    let mut conversation = Conversation::in_call();
    let mut starts = 0;
    let mut check = |effects: Vec<Effect>, most: usize| {
        let mut sent = 0;
        for effect in effects {
            match effect {
                Effect::Send(message) => {
                    let message: Value = serde_json::from_str(&message).expect("JSON");
                    assert!(message["type"].is_string());
                    sent += 1;
                }
                Effect::Report(Report::Started { .. }) => starts += 1,
                Effect::Report(Report::Audio { audio, .. }) => assert!(audio.samples() > 0),
                Effect::Report(_) => {}
            }
        }
        assert!(sent <= most && starts <= 1);
    };
    check(conversation.begin(), 0);
    for line in text.lines() {
        match line.strip_prefix('>') {
            Some(text) => check(conversation.input(Input::Text(text.to_owned())), 2),
            // A message that is not an event ends a session.
            None => match conversation.receive(line) {
                Ok(effects) => check(effects, 1),
                Err(_) => return,
            },
        }
    }
}
