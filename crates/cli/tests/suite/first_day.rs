//! A first day at the terminal, on a real pseudo-terminal with a scripted model: from the first start to a
//! changed file, an approval that is refused with words, a plan that is carried out, undo, review and resume.
//! Nothing sleeps: each step waits for what the screen says.

use std::process::Command;

use crate::common::{Running, TestEnvironment};
use crate::terminal::Terminal;
use serde_json::{Value, json};

fn patch(text: &str) -> Value {
    let input = format!("*** Begin Patch\n{text}\n*** End Patch\n");
    json!({ "function_call": { "name": "apply_patch", "arguments": { "input": input } } })
}

fn update(from: &str, to: &str) -> Value {
    patch(&format!("*** Update File: value.txt\n@@\n-{from}\n+{to}"))
}

fn script() -> Value {
    let answer = |expect: Value, steps: Value| json!({ "expect": expect, "steps": steps });
    json!([
        answer(
            json!({ "user_text_contains": "repair value.txt" }),
            json!([update("broken", "fixed")])
        ),
        answer(json!({ "contains": "write mended instead" }), json!([update("broken", "mended")])),
        answer(json!({}), json!([{ "message": "The value is mended." }])),
        answer(
            json!({ "user_text_contains": "test the value" }),
            json!([{ "message": "<proposed_plan>\n1. Add test.sh\n</proposed_plan>" }])
        ),
        answer(
            json!({ "user_text_contains": "Implement the plan." }),
            json!([patch("*** Add File: test.sh\n+grep -q mended value.txt")])
        ),
        answer(json!({}), json!([{ "message": "The test is there." }])),
        answer(json!({ "user_text_contains": "spoil it" }), json!([update("mended", "spoiled")])),
        answer(json!({}), json!([{ "message": "The value is spoiled." }])),
        answer(
            json!({ "contains": "test.sh" }),
            json!([{ "message": "Not yet.\n\n- [P2] The value has no unit — value.txt:1" }])
        ),
        answer(
            json!({ "user_text_contains": "the next morning" }),
            json!([{ "message": "We mended the value." }])
        ),
    ])
}

fn git(env: &TestEnvironment, arguments: &[&str]) {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=t", "-c", "user.email=t@localhost"]).args(arguments);
    let done = command.env("HOME", env.home()).current_dir(env.work()).status().unwrap();
    assert!(done.success(), "git {arguments:?}");
}

#[test]
fn a_first_day_from_the_first_start_to_the_next_morning() {
    let env = TestEnvironment::new();
    let value = || std::fs::read_to_string(env.work().join("value.txt")).unwrap();
    std::fs::write(env.work().join("value.txt"), "broken\n").unwrap();
    git(&env, &["init", "-q", "-b", "main"]);
    git(&env, &["add", "."]);
    git(&env, &["commit", "-qm", "start"]);
    let script = env.script(&script());
    let model = Running::start(&mut env.agentd(&["model-server", "--script", &script]));
    let address = model.line_with("listening on ").replace("listening on ", "");

    // The first start: what the agent may do, and the way to a model, at an address of one's own.
    let (mut terminal, before) = Terminal::open(&env, &["repair value.txt"]);
    terminal.expect("What may the agent do in ");
    terminal.press_until("a", "Choose a model provider");
    terminal.press_until("u", "address:");
    terminal.enter(&address);
    terminal.expect("From now on the provider is `127-0-0-1-");

    // An approval is refused with words, which the model follows.
    terminal.expect("Change value.txt?");
    terminal.press_until("s", "Enter sends,");
    terminal.enter("write mended instead");
    terminal.expect("Change value.txt?");
    assert_eq!(value(), "broken\n");
    terminal.press_until("y", "The value is mended.");
    assert_eq!(value(), "mended\n");

    // A plan, and the turn that carries it out.
    terminal.enter("/plan test the value");
    terminal.expect("Implement this plan?");
    assert!(!env.work().join("test.sh").exists());
    terminal.press_until("y", "Create test.sh?");
    terminal.press_until("y", "The test is there.");
    assert!(env.work().join("test.sh").exists());

    // Undo offers the record of files, and then restores them.
    terminal.enter("/undo");
    terminal.expect("features.undo is off");
    terminal.press_until("f", "recorded from the next turn on");
    terminal.enter("spoil it");
    terminal.expect("Change value.txt?");
    terminal.press_until("y", "The value is spoiled.");
    assert_eq!(value(), "spoiled\n");
    terminal.enter("/undo");
    terminal.expect("restore 1 file");
    terminal.press_until("r", "1 file restored");
    assert_eq!(value(), "mended\n");

    // A review, and the end of the day.
    terminal.enter("/review");
    terminal.expect("The value has no unit");
    terminal.send("\x04");
    terminal.expect("To continue: agentd resume ");
    terminal.ends(0, &before);

    // The next morning nothing is asked, and the thread goes on.
    let (mut terminal, before) = Terminal::open(&env, &["--continue"]);
    terminal.expect("The value is mended.");
    terminal.expect("The value has no unit");
    terminal.enter("what was the next morning for?");
    terminal.expect("We mended the value.");
    terminal.send("\x04");
    terminal.ends(0, &before);
    for asked in ["What may the agent do", "Choose a model provider", "The value is spoiled."] {
        assert!(!terminal.all.contains(asked), "{asked}: {:?}", terminal.all);
    }
}
