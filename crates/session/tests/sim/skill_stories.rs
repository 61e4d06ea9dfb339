//! What skills need is asked for before the model gets their message, whatever else happens.

use session::{ApprovalPolicy, Author, Effect, Event, Input, TurnStatus, UserContent};

use crate::response::exec;
use crate::script::{Script, text};
use crate::simulation::{Order, Simulation};

fn skills(names: &[&str]) -> Vec<UserContent> {
    let skill = |name: &&str| UserContent::Skill {
        name: (*name).to_owned(),
        path: format!("/{name}/SKILL.md"),
        text: format!("text of {name}").into(),
        has_needs: true,
    };
    text("Use them.").into_iter().chain(names.iter().map(skill)).collect()
}

fn asked(sim: &Simulation) -> usize {
    sim.effects.iter().filter(|effect| matches!(effect, Effect::AskUser { .. })).count()
}

/// Steers the running turn with skills while its command runs; `then` gives further inputs once the user
/// is asked.
fn steered(
    script: &Script,
    names: &[&str],
    mut then: impl FnMut(&mut Simulation) -> Option<Input>,
) -> Simulation {
    let (mut is_steered, mut is_done) = (false, false);
    Simulation::run_with(script, Order::Timely, |sim| {
        let runs = sim.effects.iter().any(|effect| matches!(effect, Effect::Run { .. }));
        if runs && !is_steered {
            is_steered = true;
            let expected_turn = sim.machine.active_turn().unwrap().to_string();
            let input = Input::Steer { reply: sim.reply(), content: skills(names), expected_turn };
            sim.step(input);
        }
        if asked(sim) > 0 && !is_done {
            is_done = true;
            if let Some(input) = then(sim) {
                sim.step(input);
            }
        }
    })
}

fn script() -> Script {
    Script::new(&[&[exec("a", "print:b after:1")]])
}

/// What the model learns in its last request.
fn note(sim: &Simulation) -> String {
    let request = sim.prompts.last().unwrap().input.join("\n");
    let from = request.find("<skill_needs>").unwrap_or(request.len());
    request[from..].to_owned()
}

#[test]
fn the_model_gets_the_message_after_the_answers() {
    let sim = steered(&script(), &["a", "b", "c", "d"], |_| None);
    assert_eq!(asked(&sim), 2, "three questions at once");
    assert!(note(&sim).contains("answers: 4, None"), "{}", note(&sim));
    assert_eq!(sim.prompts.len(), 2, "no request before the answers");
    assert_eq!(sim.ends(), [TurnStatus::Completed]);
}

#[test]
fn without_an_answer_the_reason_is_passed_on() {
    let unattended = steered(&script(), &["unattended"], |_| None);
    assert!(note(&unattended).contains("no client is connected"), "{}", note(&unattended));
    let never = steered(&script().asking(ApprovalPolicy::Never), &["x"], |_| None);
    assert_eq!(asked(&never), 0);
    assert!(note(&never).contains("the approval policy is `never`"), "{}", note(&never));
}

#[test]
fn a_new_turn_withdraws_the_questions() {
    let sim = steered(&script(), &["x"], |sim| {
        Some(Input::Start {
            reply: sim.reply(),
            author: Author::User,
            content: text("Never mind."),
            overrides: session::Overrides::default(),
            output_schema: None,
        })
    });
    assert!(note(&sim).contains("the questions were withdrawn"), "{}", note(&sim));
    let request = sim.prompts.last().unwrap().input.join("\n");
    assert!(request.contains("Never mind."));
}

#[test]
fn an_interrupted_turn_resolves_the_questions_and_asks_nothing_more() {
    let sim = steered(&script(), &["x", "y"], |sim| {
        let turn = sim.machine.active_turn().unwrap().to_string();
        Some(Input::Interrupt { reply: sim.reply(), turn })
    });
    let resolved = sim.events.iter().filter(|event| matches!(event, Event::RequestResolved { .. }));
    assert_eq!((resolved.count(), asked(&sim)), (1, 1));
    assert_eq!(sim.ends(), [TurnStatus::Interrupted]);
}
