//! What a verdict of a reviewer covers, what it may cost, and what of it survives: one action, a bounded
//! number of requests, and a restart between an approval and its use.

use serde_json::json;
use session::{
    ApprovalPolicy, ApprovalsReviewer, ApprovedAction, Author, Decision, Effect, Grant, GrantScope,
    Input, ItemStatus, Mode, Overrides, Permissions, ReadAccess, Record, Restored, ReviewStatus,
    SandboxPolicy, TurnStatus,
};

use crate::auto_review_stories::{
    after_denials, approve, one_command, request, reviews, runs, turn, warnings,
};
use crate::response::{Output, call, exec, request as permissions, respond, say};
use crate::script::{Review, Script, Start, judged, text, verdict};
use crate::simulation::{Order, Simulation};
use crate::stories::{run, statuses};

fn good() -> Review {
    judged(verdict("approve", "low", "high"))
}

fn bad() -> Review {
    judged(verdict("deny", "high", "unknown"))
}

/// Whether each connection was allowed, in the order of the answers.
pub(crate) fn allowed(sim: &Simulation) -> Vec<bool> {
    let answers = sim.effects.iter().filter_map(|effect| match effect {
        Effect::NetworkAnswer { allowed, .. } => Some(*allowed),
        _ => None,
    });
    answers.collect()
}

/// The commands that the reviewer was shown.
fn shown(sim: &Simulation) -> Vec<String> {
    let commands = (0..sim.reviews.len()).map(|at| request(sim, at)["data"]["action"].clone());
    commands.map(|action| action["command"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Commands that want to reach one host at once.
fn reaching(reviews: &[Review]) -> Script {
    let commands = [exec("a", "reach:a after:50"), exec("b", "reach:a after:60")];
    Script::new(&[&commands]).asking(ApprovalPolicy::OnRequest).reviewed(reviews)
}

#[test]
fn a_verdict_about_a_host_is_for_the_command_that_was_shown() {
    for (verdicts, expected) in [([good(), bad()], [true, false]), ([bad(), good()], [false, true])]
    {
        let sim = run(&reaching(&verdicts));
        assert_eq!(shown(&sim), ["reach:a after:50", "reach:a after:60"]);
        assert_eq!((allowed(&sim), sim.asks()), (expected.to_vec(), 0));
    }
    // Connections of the command that was shown have one verdict.
    let commands = [exec("a", "reach:a reach:a after:50")];
    let script = Script::new(&[&commands]).asking(ApprovalPolicy::OnRequest).reviewed(&[good()]);
    let sim = run(&script);
    assert_eq!((allowed(&sim), sim.reviews.len()), (vec![true, true], 1));
    // The user's approval is for all that wait, as the prompt says nothing of a command.
    let mut script = reaching(&[]);
    script.settings.reviewer = ApprovalsReviewer::User;
    let sim = run(&script);
    assert_eq!((allowed(&sim), sim.asks()), (vec![true, true], 1));
}

/// A prompt that the user did not answer goes to the reviewer, with several commands waiting.
#[test]
fn commands_that_joined_a_prompt_of_the_user_get_reviews_of_their_own() {
    let commands = [
        exec("a", "reach:a after:2"),
        exec("b", "reach:a after:50"),
        exec("c", "reach:a after:60"),
        exec("d", "reach:a after:70"),
    ];
    let mut script = Script::new(&[&commands]).asking(ApprovalPolicy::OnRequest);
    script.reviews = vec![bad(), good(), bad()];
    let mut sim = Simulation::new(&script, Order::Timely);
    while sim.asks() == 0 {
        sim.advance();
    }
    let reviewer = Some(ApprovalsReviewer::AutoReview);
    sim.step(Input::Override { overrides: Overrides { reviewer, ..Overrides::default() } });
    sim.run_out();
    assert_eq!(shown(&sim), ["reach:a after:50", "reach:a after:60", "reach:a after:70"]);
    assert_eq!(allowed(&sim), [false, false, true, false]);
}

#[test]
fn an_approval_of_a_denied_host_is_for_the_same_command() {
    let script = Script::new(&[&[exec("a", "reach:a after:50")]])
        .asking(ApprovalPolicy::OnRequest)
        .reviewed(&[bad(), bad(), bad()]);
    let mut sim = Simulation::new(&script, Order::Timely);
    sim.run_out();
    let denied = reviews(&sim);
    assert_eq!(approve(&mut sim, &denied[0]), Ok(()));
    turn(&mut sim, &[exec("b", "reach:a after:60"), exec("c", "reach:a after:50")]);
    assert_eq!(shown(&sim)[1..], ["reach:a after:60"], "the approved command needs no review");
    let mut answers = allowed(&sim);
    assert!(!answers.remove(0));
    answers.sort_unstable();
    assert_eq!(answers, [false, true]);
    turn(&mut sim, &[exec("d", "reach:a after:50")]);
    assert_eq!(sim.reviews.len(), 3, "it was approved once");
}

#[test]
fn reviews_that_are_withdrawn_are_bounded() {
    let calls: Vec<Output> =
        (0..52).map(|at| exec(&format!("c{at}"), "reach:a gives-up after:50")).collect();
    let responses: Vec<&[Output]> = calls.chunks(1).collect();
    let slow = Review::Says(1_000, vec![verdict("approve", "low", "high")]);
    let mut script = Script::new(&responses)
        .asking(ApprovalPolicy::OnRequest)
        .reviewed(&vec![slow; 60])
        .then("and now?");
    script.responses.push(respond(&[say("I stop.")]));
    script.responses.push(respond(&[exec("d", "reach:a gives-up after:50")]));
    let sim = run(&script);
    // Fifty in the first turn, and the next turn begins anew.
    assert_eq!(sim.reviews.len(), 51);
    let why = "50 actions of this turn ended before their review did";
    assert!(!sim.output_of("c49").contains(why) && sim.output_of("c50").contains(why));
    assert!(allowed(&sim).iter().all(|allowed| !allowed));
}

#[test]
fn the_reviews_of_a_turn_are_bounded() {
    let calls: Vec<Output> = (0..505).map(|at| exec(&format!("c{at}"), "print:x")).collect();
    let responses: Vec<&[Output]> = calls.chunks(10).collect();
    let script = Script::new(&responses).asking(ApprovalPolicy::UnlessTrusted).reviewed(&[]);
    let sim = run(&script);
    assert_eq!((sim.reviews.len(), runs(&sim)), (500, 500));
    assert!(sim.output_of("c504").contains("500 actions of this turn were reviewed already"));
}

#[test]
fn a_request_to_the_reviewer_is_sent_again() {
    let busy = |asked| Review::IsBusy(7, asked);
    for (answers, requests, status) in [
        (vec![busy(None), busy(None), good()], 3, ReviewStatus::Approved),
        (vec![busy(None), bad()], 2, ReviewStatus::Denied),
        (vec![busy(Some(80_000)), good()], 2, ReviewStatus::Approved),
        // As often as any request.
        (vec![busy(None); 9], 5, ReviewStatus::Denied),
        // Not when that leaves no time.
        (vec![busy(Some(89_993)), good()], 1, ReviewStatus::Denied),
        (vec![Review::IsBusy(60_000, None); 3], 2, ReviewStatus::TimedOut),
        // Another attempt that cannot succeed is not made.
        (vec![Review::Fails, good()], 1, ReviewStatus::Denied),
    ] {
        let row = format!("{answers:?}");
        let mut script = one_command(good());
        script.reviews = answers;
        let sim = run(&script);
        assert_eq!(sim.reviews.len(), requests, "{row}");
        let [ended] = &*reviews(&sim) else { panic!("{row}") };
        assert_eq!(ended.status, status, "{row}");
        assert_eq!(runs(&sim), usize::from(status == ReviewStatus::Approved), "{row}");
        // Every request that was answered counts.
        let answered = requests - usize::from(status == ReviewStatus::TimedOut);
        let expected = 2 * 13 + 7 * i64::try_from(answered).unwrap();
        assert_eq!(sim.machine.usage().total, expected, "{row}");
        if requests == 5 {
            assert!(warnings(&sim)[0].contains("the provider is busy (after 5 tries)"));
        }
    }
}

#[test]
fn an_interrupt_ends_the_wait_before_a_retry() {
    let mut script = one_command(good());
    script.reviews = vec![Review::IsBusy(7, Some(30_000)), good()];
    let mut sim = Simulation::new(&script, Order::Timely);
    let waits = |effect: &Effect| matches!(effect, Effect::RetryReviewAfter { .. });
    while !sim.effects.iter().any(waits) {
        sim.advance();
    }
    let (reply, turn) = (sim.reply(), sim.machine.active_turn().unwrap().to_string());
    sim.step(Input::Interrupt { reply, turn });
    assert_eq!(sim.ends(), [TurnStatus::Interrupted]);
    assert_eq!(reviews(&sim)[0].status, ReviewStatus::Aborted);
    sim.run_out();
    assert_eq!((sim.reviews.len(), runs(&sim)), (1, 0));
}

/// The waits for the end of a review that were requested.
fn time_limits(sim: &Simulation) -> Vec<u64> {
    let waits = sim.effects.iter().filter_map(|effect| match effect {
        Effect::ReviewTimeout { ms, .. } => Some(*ms),
        _ => None,
    });
    waits.collect()
}

#[test]
fn a_clock_that_is_set_back_prolongs_a_review_once() {
    let mut sim = Simulation::new(&one_command(Review::IsSilent), Order::Timely);
    while sim.reviews.is_empty() {
        sim.advance();
    }
    let number = sim.effects.iter().find_map(|effect| match effect {
        Effect::Review { review, .. } => Some(*review),
        _ => None,
    });
    let overdue = || Input::ReviewOverdue { review: number.unwrap() };
    sim.wait(-3_600_000);
    sim.step(overdue());
    assert_eq!(time_limits(&sim), [90_000, 90_000], "never longer than a whole review");
    assert_eq!(sim.machine.open_reviews().count(), 1);
    sim.wait(-3_600_000);
    sim.step(overdue());
    assert_eq!(time_limits(&sim).len(), 2);
    assert_eq!(reviews(&sim)[0].status, ReviewStatus::TimedOut);
    sim.run_out();
    assert_eq!(statuses(&sim), [ItemStatus::Declined]);
}

fn read_only() -> SandboxPolicy {
    SandboxPolicy::ReadOnly { read: ReadAccess::Full, network: false }
}

#[test]
fn a_verdict_holds_only_under_the_settings_that_it_was_given_for() {
    let all = || Overrides::default();
    for (overrides, holds) in [
        (Overrides { sandbox: Some(read_only()), ..all() }, false),
        (Overrides { approval: Some(ApprovalPolicy::Never), ..all() }, false),
        (Overrides { reviewer: Some(ApprovalsReviewer::User), ..all() }, false),
        (Overrides { mode: Some((Mode::Plan, None)), ..all() }, false),
        (Overrides { model: Some("other".into()), ..all() }, true),
    ] {
        for command in ["print:a", "safe reach:a after:50"] {
            let row = format!("{command} {overrides:?}");
            let mut script = Script::new(&[&[exec("a", command)]])
                .asking(ApprovalPolicy::UnlessTrusted)
                .reviewed(&[good()]);
            script.turns.push(Start { text: "more".into(), ..Start::default() });
            let mut sim = Simulation::new(&script, Order::Timely);
            while sim.reviews.is_empty() {
                sim.advance();
            }
            sim.step(Input::Override { overrides: overrides.clone() });
            sim.run_out();
            let changed =
                sim.output_of("a").contains("the settings changed while this was decided");
            assert_eq!(changed, !holds, "{row}: {}", sim.output_of("a"));
            match command {
                "print:a" => assert_eq!(runs(&sim), usize::from(holds), "{row}"),
                _ => assert_eq!(allowed(&sim), [holds], "{row}"),
            }
        }
    }
}

#[test]
fn what_the_user_grants_holds_only_for_the_sandbox_that_was_shown() {
    let granted = Permissions { write: vec!["/a".into()], ..Permissions::default() };
    let grant = Grant { permissions: granted, scope: GrantScope::Session };
    for (overrides, holds) in [
        (Overrides { sandbox: Some(read_only()), ..Overrides::default() }, false),
        (Overrides { model: Some("other".into()), ..Overrides::default() }, true),
    ] {
        // While the user decides, and while the folders are looked at.
        for checks in [false, true] {
            let script = Script::new(&[&[permissions("b", &["/a"], false)]])
                .deciding(&[Decision::Grant(grant.clone())]);
            let mut sim = Simulation::new(&script, Order::Timely);
            let reached = |effect: &Effect| match effect {
                Effect::CheckGrant { .. } => checks,
                Effect::Ask { .. } => !checks,
                _ => false,
            };
            while !sim.effects.iter().any(reached) {
                sim.advance();
            }
            sim.step(Input::Override { overrides: overrides.clone() });
            sim.run_out();
            let row = format!("{checks} {overrides:?}: {}", sim.output_of("b"));
            assert_eq!(sim.output_of("b").contains("the settings changed"), !holds, "{row}");
            assert_eq!(sim.machine.granted().write.is_empty(), !holds, "{row}");
        }
    }
}

/// What the store has of the user's approvals.
fn stored_approvals(sim: &Simulation) -> Vec<ApprovedAction> {
    let stored = sim.records.iter().rev().find_map(|record| match record {
        Record::ApprovedActions(actions) => Some(actions.clone()),
        _ => None,
    });
    stored.unwrap_or_default()
}

/// The thread after a restart: what was stored of it, and nothing else.
fn restarted(sim: &Simulation, calls: &[Output]) -> Simulation {
    let history = sim.records.iter().filter_map(|record| match record {
        Record::History { fragments, .. } => Some(fragments.clone()),
        _ => None,
    });
    let mut script =
        Script::new(&[calls]).asking(ApprovalPolicy::UnlessTrusted).reviewed(&vec![bad(); 20]);
    script.restored = Restored {
        history: Some(history.flatten().collect()),
        approved_actions: stored_approvals(sim),
        ..Restored::default()
    };
    run(&script)
}

#[test]
fn an_approval_survives_a_restart() {
    let mut sim = after_denials();
    let denied = reviews(&sim);
    assert_eq!(approve(&mut sim, &denied[0]), Ok(()));
    let after = restarted(&sim, &[exec("c", "print:a"), exec("d", "print:a")]);
    let sent = |sim: &Simulation| sim.prompts[0].input.iter().any(|it| it.contains("<approval>"));
    assert!(sent(&after), "the model learns of it though no turn ran");
    assert_eq!((runs(&after), after.reviews.len()), (1, 1), "once");
    // It is used up in the store before the command runs.
    let at = |is_it: &dyn Fn(&Effect) -> bool| after.effects.iter().position(is_it).unwrap();
    let used_up = at(
        &|effect| matches!(effect, Effect::Persist(Record::ApprovedActions(actions)) if actions.is_empty()),
    );
    assert!(used_up < at(&|effect| matches!(effect, Effect::Run { .. })));
    let again = restarted(&after, &[exec("e", "print:a")]);
    assert_eq!((runs(&again), again.reviews.len()), (0, 1));
}

#[test]
fn an_approval_after_a_restart_is_for_the_same_action_and_hour() {
    let mut sim = after_denials();
    let denied = reviews(&sim);
    assert_eq!(approve(&mut sim, &denied[0]), Ok(()));
    for other in [
        exec("c", "print:ab"),
        call("c", "exec_command", json!({ "cmd": "print:a", "workdir": "/v" })),
        call("c", "exec_command", json!({ "cmd": "print:a", "tty": true })),
    ] {
        let after = restarted(&sim, &[other]);
        assert_eq!((runs(&after), after.reviews.len()), (0, 1));
    }
    for approved in &mut sim.records {
        if let Record::ApprovedActions(actions) = approved {
            actions.iter_mut().for_each(|action| action.until = 1_000_000);
        }
    }
    assert_eq!(runs(&restarted(&sim, &[exec("c", "print:a")])), 0, "its hour is over");
}

#[test]
fn later_denials_do_not_push_out_what_the_user_approved() {
    let mut sim = after_denials();
    let denied = reviews(&sim);
    assert_eq!(approve(&mut sim, &denied[0]), Ok(()));
    for round in 0..4 {
        let calls: Vec<Output> = (0..10)
            .map(|at| exec(&format!("r{round}{at}"), &format!("print:{round}{at}")))
            .collect();
        turn(&mut sim, &calls);
    }
    assert!(reviews(&sim)[2..].iter().all(|review| review.status != ReviewStatus::InProgress));
    assert!(approve(&mut sim, &denied[1]).unwrap_err().contains("no refused action"), "pushed out");
    let before = runs(&sim);
    turn(&mut sim, &[exec("c", "print:a")]);
    assert_eq!(runs(&sim), before + 1);
}

#[test]
fn the_reviewer_learns_how_many_messages_compactions_dropped() {
    let long = |word: &str| word.repeat(400);
    let again = || json!({ "text": "again" });
    let mut script = Script::new(&[&[say("Noted.")], &[say("Noted.")]])
        .asking(ApprovalPolicy::UnlessTrusted)
        .reviewed(&[])
        .then(&long("two "));
    script.turns[0].text = long("one ");
    // Room for one long message.
    script.limits.compact_at_tokens = Some(700);
    let mut sim = Simulation::new(&script, Order::Timely);
    sim.run_out();
    let reviewed_after_compaction = |sim: &mut Simulation| {
        sim.respond_with(&[say("SUMMARY")]);
        let reply = sim.reply();
        sim.step(Input::Compact { reply });
        sim.run_out();
        turn(sim, &[exec(&format!("c{}", sim.reviews.len()), "print:a")]);
        request(sim, sim.reviews.len() - 1)["user"].clone()
    };
    let messages = json!([{ "text": long("two ") }, again()]);
    let expected = json!({ "messages": messages, "omittedMessages": 1 });
    assert_eq!(reviewed_after_compaction(&mut sim), expected);
    sim.respond_with(&[say("Noted.")]);
    let (reply, content) = (sim.reply(), text(&long("six ")));
    let overrides = Overrides::default();
    sim.step(Input::Start { reply, author: Author::User, content, overrides, output_schema: None });
    sim.run_out();
    let messages = json!([again(), { "text": long("six ") }, again()]);
    let expected = json!({ "messages": messages, "omittedMessages": 2 });
    assert_eq!(reviewed_after_compaction(&mut sim), expected);
    let last = sim.prompts.last().unwrap();
    let notes = last.input.iter().filter(|item| item.contains("<omitted_messages total="));
    assert_eq!(notes.count(), 1, "one note with the sum: {:?}", last.input);
}
