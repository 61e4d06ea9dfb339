//! What scenarios with approvals must show beyond the promises that hold in every run.

use serde_json::json;
use session::{ApprovalPolicy, Ask, Decision, Effect, ItemStatus, TurnStatus};

use crate::response::{call, exec, patch};
use crate::script::Script;
use crate::stories::{run, scenario, statuses};

fn prefix() -> Decision {
    Decision::AcceptWithAmendment(vec!["make".into()])
}

#[test]
fn approved_commands_respect_the_concurrency_limit() {
    let mut script = Script::new(&[&[exec("a", "a"), exec("b", "b"), exec("c", "c")]])
        .asking(ApprovalPolicy::UnlessTrusted);
    script.limits.processes = 1;
    let sim = run(&script);
    assert!(sim.output_of("b").contains("1 commands are running, 1 at most"));
    assert_eq!(sim.asks(), 3);
}

#[test]
fn every_decision_has_its_effect() {
    use ItemStatus::{Completed, Declined};
    let check = |decision: Decision, end: TurnStatus, expected: &[ItemStatus], allows: usize| {
        let script = Script::new(&[&[
            exec("a", "amend print:a"),
            patch("b", "path:/w/x"),
            exec("c", "safe"),
        ]])
        .asking(ApprovalPolicy::UnlessTrusted)
        .deciding(&[decision.clone(), decision.clone()]);
        let sim = run(&script);
        assert_eq!(sim.ends(), [end], "{decision:?}");
        assert_eq!(statuses(&sim), expected, "{decision:?}");
        let allowed = sim.effects.iter().filter(|e| matches!(e, Effect::Allow { .. })).count();
        assert_eq!(allowed, allows, "{decision:?}");
    };
    check(Decision::Accept, TurnStatus::Completed, &[Completed; 3], 0);
    check(Decision::AcceptForSession, TurnStatus::Completed, &[Completed; 3], 0);
    // A patch has no prefix to allow, and an empty prefix would allow everything.
    check(prefix(), TurnStatus::Completed, &[Completed; 3], 1);
    check(Decision::AcceptWithAmendment(vec![]), TurnStatus::Completed, &[Completed; 3], 0);
    check(Decision::Decline, TurnStatus::Completed, &[Declined, Declined, Completed], 0);
    check(Decision::Cancel, TurnStatus::Interrupted, &[Declined], 0);
}

#[test]
fn a_session_grant_is_not_asked_again() {
    assert_eq!(scenario("session grants").asks(), 2);
    let other_shell = json!({ "cmd": "print:a", "shell": "/tmp/other" });
    let script = Script::new(&[
        &[exec("a", "print:a"), patch("b", "path:/w/x")],
        &[call("c", "exec_command", other_shell), patch("d", "path:/w/x to:/w/y")],
    ])
    .asking(ApprovalPolicy::UnlessTrusted)
    .deciding(&[Decision::AcceptForSession, Decision::AcceptForSession]);
    assert_eq!(run(&script).asks(), 4, "another shell or another target is another thing");
}

#[test]
fn an_approval_offers_what_the_rules_offer() {
    let sim = scenario("accept");
    let asked = sim.effects.iter().find_map(|effect| match effect {
        Effect::Ask { ask: Ask::Command { amendment, command, .. }, .. } => {
            Some((amendment.clone(), command.clone()))
        }
        _ => None,
    });
    let expected = (Some(vec!["make".to_owned()]), "amend print:a".to_owned());
    assert_eq!(asked, Some(expected));
}

#[test]
fn no_approval_is_requested_without_a_client() {
    let sim = scenario("no client to ask");
    assert_eq!(sim.asks(), 0);
    assert_eq!(statuses(&sim), [ItemStatus::Declined; 2]);
    assert!(sim.output_of("a").contains("no approval can be requested"));
}

fn hosts(sim: &crate::simulation::Simulation) -> Vec<&str> {
    let asks = sim.effects.iter().filter_map(|effect| match effect {
        Effect::Ask { ask: Ask::Network { host, .. }, .. } => Some(host.as_str()),
        _ => None,
    });
    asks.collect()
}

fn answers(sim: &crate::simulation::Simulation) -> Vec<bool> {
    let answers = sim.effects.iter().filter_map(|effect| match effect {
        Effect::NetworkAnswer { allowed, .. } => Some(*allowed),
        _ => None,
    });
    answers.collect()
}

#[test]
fn hosts_are_asked_about_once() {
    let both = [exec("a", "reach:a reach:b reach:a after:50"), exec("b", "reach:a after:60")];
    let script = Script::new(&[&both, &[exec("c", "reach:a reach:b after:50")]])
        .asking(ApprovalPolicy::OnRequest)
        .deciding(&[Decision::AcceptForSession, Decision::Accept]);
    let sim = run(&script);
    assert_eq!(hosts(&sim), ["a", "b", "b"], "what was granted for the session is not asked");
    assert_eq!(answers(&sim), [true; 6]);
    let ports = sim.effects.iter().find_map(|effect| match effect {
        Effect::Ask { ask: Ask::Network { reason, command, .. }, .. } => Some((reason, command)),
        _ => None,
    });
    let (reason, command) = ports.unwrap();
    assert_eq!(
        (reason.as_str(), command.as_str()),
        ("to reach a:443 (https)", "reach:a reach:b reach:a after:50")
    );
}

#[test]
fn a_prompt_about_a_host_shows_where_the_command_really_runs() {
    let script = Script::new(&[&[exec("a", "reach:a folder:/elsewhere after:50")]])
        .asking(ApprovalPolicy::OnRequest)
        .deciding(&[Decision::Accept]);
    let sim = run(&script);
    let folder = sim.effects.iter().find_map(|effect| match effect {
        Effect::Ask { ask: Ask::Network { cwd, .. }, .. } => cwd.to_str(),
        _ => None,
    });
    assert_eq!(folder, Some("/elsewhere"));
}

#[test]
fn a_declined_host_is_refused_and_the_turn_continues() {
    for (decision, end) in
        [(Decision::Decline, TurnStatus::Completed), (Decision::Cancel, TurnStatus::Interrupted)]
    {
        let script = Script::new(&[&[exec("a", "reach:a after:50")]])
            .asking(ApprovalPolicy::OnRequest)
            .deciding(&[decision]);
        let sim = run(&script);
        assert_eq!((answers(&sim), sim.ends()), (vec![false], vec![end]));
    }
}

#[test]
fn no_unlisted_host_is_reached_without_approval() {
    let script = Script::new(&[&[exec("a", "reach:a after:50")]]).asking(ApprovalPolicy::Never);
    let sim = run(&script);
    assert_eq!((hosts(&sim), answers(&sim)), (vec![], vec![false]));
}

#[test]
fn a_prompt_is_withdrawn_with_its_command() {
    // The first command ends at 4 ms, the answer would come at 8: the second one is shown then.
    let both = [exec("a", "reach:a after:2"), exec("b", "reach:a after:50")];
    let sim = run(&Script::new(&[&both]).asking(ApprovalPolicy::OnRequest));
    assert_eq!(hosts(&sim), ["a", "a"]);
    assert_eq!(answers(&sim), [false, true]);
}

#[test]
fn a_prompt_is_withdrawn_with_its_last_waiter() {
    let script = Script::new(&[&[exec("a", "reach:a gives-up after:50")]])
        .asking(ApprovalPolicy::OnRequest)
        .deciding(&[Decision::Accept]);
    let sim = run(&script);
    assert_eq!((hosts(&sim), answers(&sim)), (vec!["a"], vec![false]));
}
