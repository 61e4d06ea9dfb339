//! The file that a job writes: decided about before the job begins.

use serde_json::json;
use session::{
    AgentRequest, ApprovalPolicy, Decision, Effect, Input, ItemStatus, Mode, Overrides, TurnStatus,
};

use crate::response::{Output, call};
use crate::script::Script;
use crate::simulation::{Order, Simulation};
use crate::stories::{run, statuses};

/// A job. With the instruction `again` it continues the one that is there.
fn job(call_id: &str, output: &str, instruction: &str) -> Output {
    let arguments = json!({ "csv_path": "a.csv", "output_csv_path": output,
        "instruction": instruction });
    call(call_id, "spawn_agents_on_csv", arguments)
}

/// How many jobs ran.
fn runs(sim: &Simulation) -> usize {
    let is_run = |effect: &&Effect| matches!(effect, Effect::CallAgents { call, .. } if matches!(**call, AgentRequest::RunJob { .. }));
    sim.effects.iter().filter(is_run).count()
}

#[test]
fn a_job_is_asked_about_like_the_patch_that_would_write_its_file() {
    use ApprovalPolicy::{Never, OnRequest, UnlessTrusted};
    use Decision::{Accept, AcceptForSession, Cancel, Decline};
    let undecided = Decision::Undecided("nobody".into());
    for (policy, file, instruction, decision, asks, jobs) in [
        (Never, "a", "go", Decline, 0, 2),
        (Never, "outside", "go", Accept, 0, 0),
        (OnRequest, "a", "go", Decline, 0, 2),
        (OnRequest, "bad", "go", Accept, 0, 0),
        (OnRequest, "outside", "go", Accept, 2, 2),
        (OnRequest, "outside", "again", Accept, 1, 2),
        (UnlessTrusted, "a", "go", Accept, 2, 2),
        (UnlessTrusted, "a", "again", Accept, 1, 2),
        (UnlessTrusted, "a", "go", AcceptForSession, 1, 2),
        (UnlessTrusted, "a", "again", Decline, 2, 0),
        (UnlessTrusted, "a", "go", undecided, 2, 0),
        (UnlessTrusted, "a", "go", Cancel, 1, 0),
    ] {
        let row = format!("{policy:?} {file} {instruction} {decision:?}");
        let script = Script::new(&[&[job("a", file, instruction)], &[job("b", file, instruction)]])
            .asking(policy)
            .deciding(&[decision.clone(), decision.clone()]);
        let sim = run(&script);
        assert_eq!((sim.asks(), runs(&sim)), (asks, jobs), "{row}");
        let end = match decision {
            Cancel => TurnStatus::Interrupted,
            _ => TurnStatus::Completed,
        };
        assert_eq!(sim.ends(), [end], "{row}");
    }
}

#[test]
fn plan_mode_that_begins_during_the_question_starts_no_job() {
    let script = Script::new(&[&[job("a", "a", "go")]])
        .asking(ApprovalPolicy::UnlessTrusted)
        .deciding(&[Decision::Accept]);
    let mut sim = Simulation::new(&script, Order::Timely);
    while !sim.effects.iter().any(|effect| matches!(effect, Effect::Ask { .. })) {
        sim.advance();
    }
    let overrides = Overrides { mode: Some((Mode::Plan, None)), ..Overrides::default() };
    sim.step(Input::Override { overrides });
    sim.run_out();
    assert_eq!(runs(&sim), 0);
    assert_eq!(statuses(&sim), [ItemStatus::Failed]);
    assert!(sim.output_of("a").contains("plan mode changes nothing"));
}
