//! What scenarios with questions to the user must show beyond the promises that hold in every run.

use session::{ApprovalPolicy, Author, Effect, Event, Input, Item, ItemStatus, Status, TurnStatus};

use crate::response::{ask, exec};
use crate::script::{Script, text};
use crate::simulation::{Order, Simulation};
use crate::stories::{run, statuses};

fn questions(sim: &Simulation) -> usize {
    sim.effects.iter().filter(|effect| matches!(effect, Effect::AskUser { .. })).count()
}

#[test]
fn answers_reach_the_model_and_the_item() {
    let sim = run(&Script::new(&[&[ask("a", &[("one", false), ("skipped", false)])]]));
    let expected = r#"{"answers":{"one":{"answers":["one"]},"skipped":{"answers":[]}}}"#;
    assert_eq!((questions(&sim), sim.output_of("a").as_str()), (1, expected));
    assert_eq!(statuses(&sim), [ItemStatus::Completed]);
    let waiting = |waiting_on_user_input| {
        Event::StatusChanged(Status::Active { waiting_on_approval: false, waiting_on_user_input })
    };
    let statuses: Vec<&Event> =
        sim.events.iter().filter(|event| matches!(event, Event::StatusChanged(_))).collect();
    let idle = Event::StatusChanged(Status::Idle);
    assert_eq!(statuses, [&waiting(false), &waiting(true), &waiting(false), &idle]);
}

#[test]
fn a_secret_answer_is_for_the_model_only() {
    let sim = run(&Script::new(&[&[ask("a", &[("hidden", true), ("shown", false)])]]));
    let answers = |hidden: &str| {
        format!(
            r#"{{"answers":{{"hidden":{{"answers":["{hidden}"]}},"shown":{{"answers":["shown"]}}}}}}"#
        )
    };
    assert_eq!(sim.output_of("a"), answers("hidden"));
    assert_eq!(sim.stored_output_of("a"), answers("[secret, not stored]"));
    let sent =
        sim.prompts.last().unwrap().input.iter().any(|item| item.contains(r#"[\"hidden\"]"#));
    assert!(sent, "the model gets the answer");
    let items = format!("{:?}", sim.items());
    assert!(!items.contains(r#"[\"hidden\"]"#) && items.contains("not stored"), "{items}");
}

#[test]
fn without_an_answer_the_model_learns_why_at_once() {
    let unattended = run(&Script::new(&[&[ask("a", &[("unattended", false)])]]));
    assert_eq!(unattended.output_of("a"), "not answered: no client is connected");
    assert_eq!(
        (unattended.ends(), statuses(&unattended)),
        (vec![TurnStatus::Completed], vec![ItemStatus::Failed])
    );
}

#[test]
fn a_question_is_asked_under_every_policy() {
    for policy in [ApprovalPolicy::Never, ApprovalPolicy::OnRequest, ApprovalPolicy::UnlessTrusted]
    {
        let sim = run(&Script::new(&[&[ask("a", &[("x", false)])]]).asking(policy));
        assert_eq!((questions(&sim), statuses(&sim)), (1, vec![ItemStatus::Completed]));
    }
}

fn run_with_input(input: impl Fn(&mut Simulation) -> Input) -> Simulation {
    let script = Script::new(&[&[ask("a", &[("x", false)]), exec("b", "print:b after:30")]]);
    let mut done = false;
    Simulation::run_with(&script, Order::Timely, |sim| {
        if !done && questions(sim) == 1 {
            done = true;
            let input = input(sim);
            sim.step(input);
        }
    })
}

#[test]
fn a_turn_that_starts_withdraws_the_questions() {
    let sim = run_with_input(|sim| Input::Start {
        reply: sim.reply(),
        author: Author::User,
        content: text("Never mind."),
        overrides: session::Overrides::default(),
        output_schema: None,
    });
    assert!(sim.output_of("a").contains("withdrawn, because the user sent a new message"));
    assert!(sim.output_of("b").contains('b'), "the command goes on");
    let request = sim.prompts.last().unwrap().input.join("");
    let (at, message) = (request.find("withdrawn").unwrap(), request.find("Never mind.").unwrap());
    assert!(at < message, "the message follows: {request}");
}

#[test]
fn an_interrupted_question_is_answered_as_interrupted() {
    let sim = run_with_input(|sim| Input::Interrupt {
        reply: sim.reply(),
        turn: sim.machine.active_turn().unwrap().to_string(),
    });
    assert_eq!(sim.output_of("a"), "not answered: the turn was interrupted");
    let failed = sim
        .items()
        .iter()
        .any(|item| matches!(item, Item::DynamicCall(call) if call.status == ItemStatus::Failed));
    assert!(failed);
    assert_eq!(sim.ends(), [TurnStatus::Interrupted]);
}
