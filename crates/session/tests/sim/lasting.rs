//! What makes threads last: compaction, reviews, commands of the user, injected items, goals.

use session::{
    Author, CommandSource, Event, Failure, FailureKind, Fragment, GoalChange, GoalStatus, Input,
    Item, ItemStatus, Mark, ModelEvent, NotSteerable, Record, RefusalCause, TurnStatus,
};

use crate::response::{Output, call, completed, cut, exec, failed, respond, say, write};
use crate::script::{Script, text};
use crate::simulation::{Order, Simulation};

/// Runs `script`; before each step `when` may step in, once.
fn run(script: &Script, mut when: impl FnMut(&mut Simulation) -> Option<Input>) -> Simulation {
    let mut done = false;
    Simulation::run_with(script, Order::Timely, |sim| {
        if !done && let Some(input) = when(sim) {
            done = true;
            sim.step(input);
        }
    })
}

fn too_long() -> ModelEvent {
    ModelEvent::Failed(Failure::new(FailureKind::ContextWindowExceeded, "too long"))
}

/// A failed response.
fn refused() -> Vec<ModelEvent> {
    vec![too_long()]
}

fn kinds(sim: &Simulation) -> Vec<&'static str> {
    let kind = |item: &&Item| match item {
        Item::UserMessage { .. } => "user",
        Item::AgentMessage { .. } => "agent",
        Item::Command(_) => "command",
        Item::ContextCompaction { .. } => "compaction",
        Item::EnteredReviewMode { .. } => "entered",
        Item::ExitedReviewMode { .. } => "exited",
        _ => "other",
    };
    sim.items().iter().map(kind).collect()
}

/// The input of a request, as one text.
fn sent(sim: &Simulation, request: usize) -> String {
    sim.prompts[request].input.join("\n")
}

fn compact(sim: &mut Simulation) -> Option<Input> {
    let idle = sim.ends().len() == 1 && sim.machine.active_turn().is_none();
    idle.then(|| Input::Compact { reply: sim.reply() })
}

#[test]
fn a_compaction_keeps_user_messages_and_summarizes_the_rest() {
    let mut script = Script::new(&[
        &[exec("a", "print:noise")],
        &[say("done with it")],
        &[say("SUMMARY: all is well")],
        &[say("hello again")],
    ]);
    script.turns[0].text = "the first request".into();
    let mut next = false;
    let sim = Simulation::run_with(&script, Order::Timely, |sim| {
        if let Some(input) = compact(sim) {
            sim.step(input);
        } else if sim.ends().len() == 2 && !next {
            next = true;
            let reply = sim.reply();
            let content = text("the second request");
            let overrides = Default::default();
            sim.step(Input::Start {
                reply,
                author: Author::User,
                content,
                overrides,
                output_schema: None,
            });
        }
    });
    assert_eq!(sim.ends(), [TurnStatus::Completed; 3]);
    assert_eq!(kinds(&sim), ["user", "command", "agent", "compaction", "user", "agent"]);
    assert_eq!(sim.prompts[2].tools, sim.prompts[1].tools, "it begins as the request before it");
    assert!(sent(&sim, 2).contains("function_call_output"), "summed up with all that there is");
    let after = sent(&sim, 3);
    for kept in ["the first request", "SUMMARY: all is well", "the second request", "<permissions>"]
    {
        assert!(after.contains(kept), "{kept} in {after}");
    }
    assert!(!after.contains("function_call") && !after.contains("done with it"), "{after}");
    assert!(after.contains("do not start any of them again. Wait for"), "{after}");
    let order = |word: &str| after.find(word).unwrap();
    assert!(
        order("the first request") < order("SUMMARY") && order("SUMMARY") < order("the second")
    );
    let anew = sim
        .records
        .iter()
        .filter(|record| matches!(record, Record::HistoryReplaced { .. }))
        .count();
    assert_eq!(anew, 1);
}

#[test]
fn a_turn_that_grows_too_long_is_compacted_and_continues() {
    let mut script = Script::new(&[
        &[exec("a", &format!("print:{}", "x".repeat(4000)))],
        &[say("SUMMARY so far")],
        &[say("finished")],
    ]);
    script.limits.compact_at_tokens = Some(600);
    script.turns[0].text = "the only request".into();
    let sim = run(&script, |_| None);
    assert_eq!(sim.ends(), [TurnStatus::Completed]);
    assert_eq!(kinds(&sim), ["user", "command", "compaction", "agent"]);
    let after = sent(&sim, 2);
    assert!(after.contains("the first 0 are finished business"), "{after}");
    assert!(after.contains("Continue with the last 1"), "{after}");
}

#[test]
fn a_request_too_long_for_the_provider_is_compacted_once() {
    let mut script =
        Script::new(&[&[exec("a", "print:abc")], &[], &[say("SUMMARY")], &[say("ok")]]);
    script.responses[1] = refused();
    let sim = run(&script, |_| None);
    assert_eq!(sim.ends(), [TurnStatus::Completed]);
    assert_eq!(kinds(&sim), ["user", "command", "compaction", "agent"]);

    // When even that does not help, the turn fails with the provider's words.
    script.responses[3] = refused();
    let sim = run(&script, |_| None);
    assert_eq!(sim.ends(), [TurnStatus::Failed]);
    let errors = sim.events.iter().filter_map(|event| match event {
        Event::Error { error, .. } => Some(error.kind),
        _ => None,
    });
    assert_eq!(errors.collect::<Vec<_>>(), [FailureKind::ContextWindowExceeded]);
}

#[test]
fn an_oversized_summary_request_is_retried_with_less() {
    let mut script = Script::new(&[&[exec("a", "print:abc")], &[exec("b", "print:abc")], &[], &[]]);
    script.responses[2] = refused();
    script.responses[3] = refused();
    script.responses.push(refused());
    script.responses.push(respond(&[say("SUMMARY")]));
    script.responses.push(respond(&[say("ok")]));
    let sim = run(&script, |_| None);
    assert_eq!(sim.ends(), [TurnStatus::Completed]);
    let lengths: Vec<usize> = (3..=5).map(|request| sim.prompts[request].input.len()).collect();
    assert!(lengths[0] > lengths[1] && lengths[1] > lengths[2], "{lengths:?}");
    for request in 3..=5 {
        let input = sent(&sim, request);
        let count = |word: &str| input.matches(word).count();
        assert!(count("\"function_call_output\"") <= count("\"function_call\""), "{input}");
    }

    // Nothing of it fits.
    let mut script = Script::new(&[&[exec("a", "print:abc")]]);
    script.responses.extend(std::iter::repeat_n(refused(), 8));
    let sim = run(&script, |_| None);
    assert_eq!(sim.ends(), [TurnStatus::Failed]);
    let compactions = kinds(&sim).iter().filter(|kind| **kind == "compaction").count();
    assert_eq!(compactions, 1);
    assert!(!sim.records.iter().any(|record| matches!(record, Record::HistoryReplaced { .. })));
}

#[test]
fn an_interrupted_compaction_changes_nothing() {
    let mut script = Script::new(&[&[say("hi")], &[say("SUMMARY")], &[say("ok")]]);
    script.turns.push(crate::script::Start { text: "more".into(), ..Default::default() });
    let mut asked = false;
    let sim = Simulation::run_with(&script, Order::Timely, |sim| {
        if !asked && sim.ends().len() == 1 && sim.machine.active_turn().is_none() {
            asked = true;
            let reply = sim.reply();
            sim.step(Input::Compact { reply });
            let turn = sim.machine.active_turn().unwrap().to_string();
            let reply = sim.reply();
            sim.step(Input::Interrupt { reply, turn });
        }
    });
    assert!(sim.ends().contains(&TurnStatus::Interrupted), "{:?}", sim.ends());
    assert!(!sim.records.iter().any(|record| matches!(record, Record::HistoryReplaced { .. })));
}

#[test]
fn a_compaction_that_is_tried_again_asks_for_nothing_else() {
    let mut script = Script::new(&[&[say("hi")]]);
    script.responses.push(vec![failed(session::Retry::Stream)]);
    script.responses.push(respond(&[say("SUMMARY")]));
    let mut asked = false;
    let sim = Simulation::run_with(&script, Order::Timely, |sim| {
        if !asked && let Some(input) = compact(sim) {
            asked = true;
            sim.step(input);
        }
    });
    assert_eq!(sim.ends(), [TurnStatus::Completed; 2]);
    assert_eq!(sim.prompts.len(), 3, "the turn, and the summary twice");
}

#[test]
fn a_compaction_takes_no_input() {
    let script = Script::new(&[&[say("hi")], &[say("SUMMARY")]]);
    let mut asked = false;
    let mut refused = Vec::new();
    let sim = Simulation::run_with(&script, Order::Timely, |sim| {
        if !asked && sim.ends().len() == 1 && sim.machine.active_turn().is_none() {
            asked = true;
            let reply = sim.reply();
            sim.step(Input::Compact { reply });
            let expected_turn = sim.machine.active_turn().unwrap().to_string();
            let reply = sim.reply();
            sim.step(Input::Steer { reply, content: text("and this"), expected_turn });
            refused.push(reply);
            let reply = sim.reply();
            let (content, overrides) = (text("also"), Default::default());
            sim.step(Input::Start {
                reply,
                author: Author::User,
                content,
                overrides,
                output_schema: None,
            });
            refused.push(reply);
        }
    });
    assert_eq!(sim.ends(), [TurnStatus::Completed; 2]);
    for reply in refused {
        let refusal = sim.replies[&reply].clone().unwrap_err();
        assert_eq!(refusal.cause, RefusalCause::NotSteerable(NotSteerable::Compaction));
    }
    assert!(!sim.prompts.iter().any(|prompt| format!("{prompt:?}").contains("and this")));
}

#[test]
fn a_review_has_a_separate_history() {
    let mut script = Script::new(&[
        &[say("SECRET of the thread")],
        &[exec("a", "safe"), say("looking")],
        &[say("One finding.")],
        &[say("I see")],
    ]);
    script.turns[0].text = "first".into();
    let mut step = 0;
    let sim = Simulation::run_with(&script, Order::Timely, |sim| {
        let idle = sim.machine.active_turn().is_none();
        if step == 0 && idle && sim.ends().len() == 1 {
            step = 1;
            let (reply, model) = (sim.reply(), Some("judge".to_owned()));
            let (subject, prompt) = ("uncommitted changes".into(), Some("THE DIFF".into()));
            sim.step(Input::Review { reply, subject, prompt, model });
        } else if step == 1 && idle && sim.ends().len() == 2 {
            step = 2;
            let (reply, overrides) = (sim.reply(), Default::default());
            sim.step(Input::Start {
                reply,
                author: Author::User,
                content: text("and?"),
                overrides,
                output_schema: None,
            });
        }
    });
    assert_eq!(sim.ends(), [TurnStatus::Completed; 3]);
    let all = kinds(&sim);
    assert_eq!(all[2], "entered");
    assert!(all.contains(&"exited") && all.contains(&"command"), "{all:?}");
    let review = &sim.prompts[1];
    assert_eq!(review.model, "judge");
    assert!(review.instructions.contains("You review"));
    assert!(!review.tools.contains("apply_patch"));
    assert!(sent(&sim, 1).contains("THE DIFF") && !sent(&sim, 1).contains("SECRET"));
    assert!(sent(&sim, 2).contains("function_call_output"));
    let after = sent(&sim, 3);
    assert!(after.contains("SECRET") && after.contains("One finding."), "{after}");
    assert!(!after.contains("THE DIFF") && !after.contains("function_call"), "{after}");
    assert_eq!(sim.prompts[3].model, "m");
    let exited = sim.items().into_iter().find_map(|item| match item {
        Item::ExitedReviewMode { review, .. } => Some(review.clone()),
        _ => None,
    });
    assert_eq!(exited.as_deref(), Some("One finding."));
}

#[test]
fn a_command_of_the_user_is_a_turn_or_joins_one() {
    let shell = |sim: &mut Simulation, script: &str| Input::Shell {
        reply: sim.reply(),
        script: script.into(),
        cwd: "/w".into(),
        actions: Vec::new(),
    };
    // A turn of its own; the model hears of it with the next turn.
    let script = Script::new(&[&[say("hi")], &[say("I saw")]]).then("did you see?");
    let mut asked = false;
    let sim = Simulation::run_with(&script, Order::Timely, |sim| {
        if !asked {
            asked = true;
            let input = shell(sim, "print:OUTPUT");
            sim.step(input);
        }
    });
    let command = sim.items().into_iter().find_map(|item| match item {
        Item::Command(command) => Some(command.clone()),
        _ => None,
    });
    let command = command.unwrap();
    assert_eq!((command.source, command.status), (CommandSource::User, ItemStatus::Completed));
    assert!(sent(&sim, sim.prompts.len() - 1).contains("OUTPUT"));
    assert!(sim.ends().iter().all(|end| *end == TurnStatus::Completed), "{:?}", sim.ends());

    // During a turn: the model is asked again, with the command's result.
    let script = Script::new(&[&[exec("a", "after:3000")], &[say("ok")], &[say("and that")]]);
    let sim =
        run(&script, |sim| (sim.prompts.len() == 1).then(|| shell(sim, "print:OUTPUT after:100")));
    assert_eq!(sim.ends(), [TurnStatus::Completed]);
    assert!(sent(&sim, 1).contains("OUTPUT"));

    // An interrupt ends a command that is a turn.
    let mut script = Script::new(&[]);
    script.turns.clear();
    let mut sim = Simulation::new(&script, Order::Timely);
    let input = shell(&mut sim, "forever");
    sim.step(input);
    let turn = sim.machine.active_turn().unwrap().to_string();
    let reply = sim.reply();
    sim.step(Input::Interrupt { reply, turn });
    assert_eq!(sim.ends(), [TurnStatus::Interrupted]);
    assert!(sim.machine.is_quiet());
}

#[test]
fn the_model_cannot_poll_a_user_command() {
    // Such a call was never answered once: the command's end was reported to the user alone.
    let script = Script::new(&[&[exec("a", "after:50")], &[write("w", 2, "")], &[say("ok")]]);
    let sim = run(&script, |sim| {
        (sim.prompts.len() == 1).then(|| Input::Shell {
            reply: sim.reply(),
            script: "print:OUTPUT after:100".into(),
            cwd: "/w".into(),
            actions: Vec::new(),
        })
    });
    let users = sim.items().into_iter().find_map(|item| match item {
        Item::Command(command) if command.source == CommandSource::User => {
            command.process_id.clone()
        }
        _ => None,
    });
    assert_eq!(users.as_deref(), Some("2"));
    assert_eq!(sim.output_of("w"), "no command with session id 2 is running");
    assert_eq!(sim.ends(), [TurnStatus::Completed]);
}

#[test]
fn injected_items_reach_the_model_in_order() {
    let item = || {
        Fragment {
        text: r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"INJECTED"}]}"#.into(),
        mark: Mark::Summarized,
        stored: None, is_waiting: false,
    }
    };
    let script = Script::new(&[&[exec("a", "after:100")], &[say("ok")]]);
    let sim = run(&script, |sim| {
        (sim.prompts.len() == 1)
            .then(|| Input::Inject { reply: sim.reply(), fragments: vec![item()] })
    });
    let input = &sim.prompts[1].input;
    assert!(input.last().unwrap().contains("INJECTED"), "behind the output of the call");
    let outside = run(&Script::new(&[&[say("ok")]]), |sim| {
        Some(Input::Inject { reply: sim.reply(), fragments: vec![item()] })
    });
    assert!(sent(&outside, 0).contains("INJECTED"));
    let history = outside.records.iter().find_map(|record| match record {
        Record::History { turn, .. } => Some(turn.clone()),
        _ => None,
    });
    assert_eq!(history, Some(None), "stored outside of any turn");
}

fn set_goal(sim: &mut Simulation, objective: &str, token_budget: Option<i64>) -> Input {
    let change = GoalChange {
        objective: Some(objective.into()),
        status: Some(GoalStatus::Active),
        token_budget: Some(token_budget),
    };
    Input::SetGoal { reply: sim.reply(), change }
}

#[test]
fn a_goal_starts_turns_until_it_is_reached() {
    let complete = call("c", "update_goal", serde_json::json!({ "status": "complete" }));
    let mut script = Script::new(&[
        &[exec("a", "safe")],
        &[say("not yet")],
        &[exec("b", "safe"), complete],
        &[say("reached")],
    ]);
    script.turns.clear();
    let mut sim = Simulation::new(&script, Order::Timely);
    let input = set_goal(&mut sim, "make it work", None);
    sim.step(input);
    let sim = run_on(sim);
    assert_eq!(sim.ends(), [TurnStatus::Completed; 2], "one by itself, one that went on");
    let goal = sim.machine.goal().unwrap();
    assert_eq!(goal.status, GoalStatus::Complete);
    // Each of the first three responses: 10 tokens in, 4 of them cached, 3 out.
    assert_eq!(goal.tokens_used, 3 * 9);
    assert!(goal.time_used_ms > 0);
    assert!(sent(&sim, 0).contains("make it work") && sent(&sim, 0).contains("goal_continuation"));
    assert!(sim.prompts[0].tools.contains("update_goal"));
    assert!(!sim.prompts[3].tools.contains("update_goal"), "reached: no longer offered");
}

#[test]
fn a_goal_without_progress_or_budget_stops() {
    let mut script = Script::new(&[&[say("I do not know what to do")]]);
    script.turns.clear();
    let mut sim = Simulation::new(&script, Order::Timely);
    let input = set_goal(&mut sim, "x", None);
    sim.step(input);
    let sim = run_on(sim);
    assert_eq!(sim.ends().len(), 1, "a turn that called no tool is not gone on with");

    let mut script = Script::new(&[&[exec("a", "safe")], &[exec("b", "safe")], &[say("stopped")]]);
    script.turns.clear();
    let mut sim = Simulation::new(&script, Order::Timely);
    let input = set_goal(&mut sim, "x", Some(15));
    sim.step(input);
    let sim = run_on(sim);
    assert_eq!(sim.ends().len(), 1);
    let goal = sim.machine.goal().unwrap();
    assert_eq!((goal.status, goal.tokens_used), (GoalStatus::BudgetLimited, 18));
    assert!(sent(&sim, 2).contains("token budget is used up"));
}

#[test]
fn an_interrupt_pauses_the_goal() {
    let mut script = Script::new(&[&[exec("a", "forever")]]);
    script.turns.clear();
    let mut sim = Simulation::new(&script, Order::Timely);
    let input = set_goal(&mut sim, "x", None);
    sim.step(input);
    let turn = sim.machine.active_turn().unwrap().to_string();
    let reply = sim.reply();
    sim.step(Input::Interrupt { reply, turn });
    assert_eq!(sim.machine.goal().unwrap().status, GoalStatus::Paused);
    assert!(sim.machine.active_turn().is_none());
    let reply = sim.reply();
    sim.step(Input::ClearGoal { reply });
    assert_eq!(sim.machine.goal(), None);
}

fn run_on(mut sim: Simulation) -> Simulation {
    sim.run_out();
    sim
}

#[test]
fn a_joining_client_sees_unfinished_items() {
    let mut script = Script::new(&[]);
    let mut events = cut(&[
        Output::Reasoning { summary: vec!["thinking".into()], content: vec![] },
        say("half a word"),
    ]);
    events.truncate(events.len() - 1);
    events.push(completed());
    script.responses = vec![events];
    let mut live = Vec::new();
    Simulation::run_with(&script, Order::Timely, |sim| {
        let seen = sim.machine.live();
        if let Some((_, Item::AgentMessage { text, .. })) = seen.items.last() {
            live.push((seen.turns.len(), text.clone()));
        }
    });
    assert!(live.contains(&(1, "half ".into())), "{live:?}");
}

#[test]
fn a_tool_of_the_client_is_called_and_answered() {
    let script = Script::new(&[
        &[
            call("a", "works", serde_json::json!({ "x": 1 })),
            call("b", "fails", serde_json::json!({})),
            call("c", "breaks", serde_json::json!({})),
            call("d", "unknown", serde_json::json!({})),
        ],
        &[say("ok")],
    ]);
    let sim = run(&script, |_| None);
    assert_eq!(sim.ends(), [TurnStatus::Completed]);
    let shown: Vec<_> = sim
        .items()
        .into_iter()
        .filter_map(|item| match item {
            Item::DynamicCall(call) => {
                let success = call.answer.as_ref().map(|answer| answer.success);
                Some((call.tool.clone(), call.status, success))
            }
            _ => None,
        })
        .collect();
    let expected = [
        // Not a tool at all: known as soon as it is called.
        ("unknown".to_owned(), ItemStatus::Failed, None),
        ("works".to_owned(), ItemStatus::Completed, Some(true)),
        ("fails".to_owned(), ItemStatus::Failed, Some(false)),
        ("breaks".to_owned(), ItemStatus::Failed, None),
    ];
    assert_eq!(shown, expected);
    assert!(sim.output_of("a").contains("input_text"));
    assert!(sim.output_of("c").contains("broken"));
    assert!(sim.output_of("d").contains("works, fails, breaks"));
}

#[test]
fn calls_to_other_agents_are_shown_and_answered() {
    let spawn = serde_json::json!({ "message": "count", "fork_context": true, "model": "small" });
    let wait = serde_json::json!({ "targets": ["agent"], "timeout_ms": 50 });
    let script = Script::new(&[
        &[
            call("a", "spawn_agent", spawn),
            call("b", "wait_agent", wait),
            call("c", "close_agent", serde_json::json!({ "target": "none" })),
        ],
        &[say("ok")],
    ]);
    let sim = run(&script, |_| None);
    assert_eq!(sim.ends(), [TurnStatus::Completed]);
    let shown: Vec<_> = sim
        .items()
        .into_iter()
        .filter_map(|item| match item {
            Item::AgentCall(call) => Some((call.tool, call.status, call.reason.is_some())),
            _ => None,
        })
        .collect();
    let expected = [
        (session::AgentTool::Spawn, ItemStatus::Completed, false),
        (session::AgentTool::Close, ItemStatus::Failed, true),
        (session::AgentTool::Wait, ItemStatus::Completed, false),
    ];
    assert_eq!(shown, expected);
    assert!(sim.output_of("c").contains("no agent `none`"));
}

#[test]
fn a_turn_that_ends_cancels_its_calls_to_other_agents() {
    let wait = serde_json::json!({ "targets": ["agent"], "timeout_ms": 60_000 });
    let script = Script::new(&[&[call("a", "wait_agent", wait)]]);
    // The checker sees to it that the call is cancelled once, and its answer ignored.
    let sim = run(&script, |sim| {
        let is_call = |(_, item): &(_, Item)| matches!(item, Item::AgentCall(_));
        let runs = sim.machine.live().items.iter().any(is_call);
        let turn = sim.machine.active_turn().filter(|_| runs)?.to_string();
        Some(Input::Interrupt { reply: sim.reply(), turn })
    });
    assert_eq!(sim.ends(), [TurnStatus::Interrupted]);
    let items = sim.items();
    let Some(Item::AgentCall(call)) = items.last() else { panic!("{items:?}") };
    assert_eq!(call.status, ItemStatus::Failed);
}
