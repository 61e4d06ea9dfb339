//! Random resizes, keys, additions, questions and completions, a thousand at once: what is printed is the
//! thread, once.

use proptest::prelude::*;
use serde_json::{Value, json};
use tui::app::Event;
use tui::terminal::input::{Code, Input, Key};

use crate::harness::{Bench, THREAD, command, message};

#[derive(Clone, Debug)]
enum Step {
    Key(Key),
    Paste(String),
    Resize(usize, usize),
    Delta(String),
    /// The end of the message, and the beginning of the next.
    EndMessage,
    Command,
    Question,
    /// Another client answers.
    Resolve,
    Time(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let code = prop_oneof![
        prop::char::range('a', 'z').prop_map(Code::Char),
        Just(Code::Left),
        Just(Code::Backspace),
        Just(Code::Up),
        Just(Code::Home),
    ];
    prop_oneof![
        4 => code.prop_map(|code| Step::Key(Key::plain(code))),
        1 => "[a-z \n]{0,40}".prop_map(Step::Paste),
        2 => (1_usize..130, 1_usize..45).prop_map(|(columns, rows)| Step::Resize(columns, rows)),
        6 => "[0-9 ]{0,12}\n{0,2}".prop_map(Step::Delta),
        1 => Just(Step::EndMessage),
        1 => Just(Step::Command),
        1 => Just(Step::Question),
        1 => Just(Step::Resolve),
        1 => (0_u64..3_000).prop_map(Step::Time),
    ]
}

/// Plays the steps; returns the digits that the messages have, in their order, and those that were printed.
fn play(steps: Vec<Step>) -> (String, String) {
    let mut bench = Bench::open(80, 24);
    bench.begin_turn("go");
    let start = bench.printed.len();
    let (mut text, mut thread) = (String::new(), Vec::new());
    let (mut messages, mut commands, mut questions) = (0, 0, 0);
    begin_message(&mut bench, messages);
    for step in steps {
        match step {
            Step::Key(key) => bench.key(key),
            Step::Paste(text) => bench.event(Event::Input(Input::Paste(text))),
            Step::Resize(columns, rows) => bench.resize(columns, rows),
            Step::Delta(part) => {
                text.push_str(&part);
                let params = json!({ "threadId": THREAD, "turnId": "t1", "itemId": format!("m{messages}"), "delta": part });
                bench.notify("item/agentMessage/delta", params);
            }
            Step::EndMessage => {
                end_message(&mut bench, messages, &text);
                thread.push(std::mem::take(&mut text));
                messages += 1;
                begin_message(&mut bench, messages);
            }
            Step::Command => {
                commands += 1;
                let mut item = command("completed");
                item["id"] = json!(format!("c{commands}"));
                bench.item("item/completed", item);
            }
            Step::Question => {
                questions += 1;
                let params = json!({
                    "threadId": THREAD, "turnId": "t1", "itemId": "q", "startedAtMs": 0,
                    "command": "RM -RF BUILD", "cwd": "/WORK", "reason": "NEEDS TO WRITE",
                });
                bench.ask(questions, "item/commandExecution/requestApproval", params);
            }
            Step::Resolve => {
                let params = json!({ "threadId": THREAD, "requestId": questions });
                bench.notify("serverRequest/resolved", params);
            }
            Step::Time(ms) => {
                bench.now += ms;
                bench.event(Event::Tick);
            }
        }
    }
    for number in 1..=questions {
        bench.notify("serverRequest/resolved", json!({ "threadId": THREAD, "requestId": number }));
    }
    end_message(&mut bench, messages, &text);
    thread.push(text);
    bench.turn("turn/completed", "completed", Value::Null);
    // A narrow screen breaks lines anywhere.
    let printed = &bench.printed[start..];
    // How long the turn took is not of the thread.
    let printed = &printed[..printed.rfind("· Worked for").unwrap_or(printed.len())];
    let letters: String = printed.chars().filter(char::is_ascii_alphabetic).collect();
    assert_eq!(letters.matches("Rancargotestok").count(), commands);
    let digits = |text: &str| -> String { text.chars().filter(char::is_ascii_digit).collect() };
    (digits(&thread.concat()), digits(printed))
}

fn begin_message(bench: &mut Bench, number: usize) {
    let mut item = message("");
    item["id"] = json!(format!("m{number}"));
    bench.item("item/started", item);
}

fn end_message(bench: &mut Bench, number: usize, text: &str) {
    let mut item = message(text);
    item["id"] = json!(format!("m{number}"));
    bench.item("item/completed", item);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4, failure_persistence: None, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn a_storm_of_a_thousand_keeps_the_transcript(steps in prop::collection::vec(step(), 1_000)) {
        let (thread, printed) = play(steps);
        prop_assert_eq!(printed, thread);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_short_storm_keeps_the_transcript(steps in prop::collection::vec(step(), 0..60)) {
        let (thread, printed) = play(steps);
        prop_assert_eq!(printed, thread);
    }
}
