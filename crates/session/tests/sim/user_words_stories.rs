//! What the user writes while a reviewer decides is part of the decision.

use serde_json::json;
use session::{
    ApprovalPolicy, Author, Event, GoalChange, Input, ItemStatus, Overrides, ReviewStatus,
    TurnStatus,
};

use crate::auto_review_stories::{one_command, request, reviews, runs, warnings};
use crate::response::{exec, respond, say};
use crate::script::{Review, Script, text, verdict};
use crate::simulation::{Order, Simulation};
use crate::stories::statuses;
use crate::verdict_stories::allowed;

fn approves_after(ms: i64) -> Review {
    Review::Says(ms, vec![verdict("approve", "low", "high")])
}

fn denies_after(ms: i64) -> Review {
    Review::Says(ms, vec![verdict("deny", "high", "low")])
}

/// What reaches the thread while the reviewer decides.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Said {
    Steered,
    StartedTurn,
    Goal,
    AtRoot,
    Nothing,
}

impl Said {
    fn reach(self, sim: &mut Simulation) {
        let (reply, content) = (sim.reply(), text("stop"));
        let input = match self {
            Self::Steered => {
                let expected_turn = sim.machine.active_turn().unwrap().to_string();
                Input::Steer { reply, content, expected_turn }
            }
            Self::StartedTurn => {
                let overrides = Overrides::default();
                Input::Start {
                    reply,
                    author: Author::User,
                    content,
                    overrides,
                    output_schema: None,
                }
            }
            Self::Goal => {
                let objective = Some("stop".into());
                Input::SetGoal { reply, change: GoalChange { objective, ..GoalChange::default() } }
            }
            Self::AtRoot => Input::RootWords { words: r#"{"messages":[{"text":"stop"}]}"#.into() },
            Self::Nothing => return,
        };
        sim.step(input);
    }
}

/// Runs a script until its first review, then what is said.
fn interrupted_by(said: Said, mut script: Script, reviews: &[Review]) -> Simulation {
    script.reviews = reviews.to_vec();
    script.responses.push(respond(&[say("Well.")]));
    let mut sim = Simulation::new(&script, Order::Timely);
    while sim.reviews.is_empty() {
        sim.advance();
    }
    said.reach(&mut sim);
    sim
}

#[test]
fn an_approval_that_was_asked_before_the_user_wrote_more_is_void() {
    for said in [Said::Steered, Said::StartedTurn, Said::Goal, Said::AtRoot, Said::Nothing] {
        for (host, author) in [
            (false, Author::User),
            (true, Author::User),
            (false, Author::Agent),
            (true, Author::Agent),
        ] {
            let row = format!("{said:?}, host: {host}, {author:?}");
            let mut script = match host {
                false => one_command(approves_after(0)),
                true => Script::new(&[&[exec("a", "safe reach:a after:50")]])
                    .asking(ApprovalPolicy::OnRequest)
                    .reviewed(&[]),
            };
            script.author = author;
            let answers = [approves_after(20), denies_after(7)];
            let mut sim = interrupted_by(said, script, &answers);
            sim.run_out();
            if said == Said::Nothing {
                assert_eq!(sim.reviews.len(), 1, "{row}");
                continue;
            }
            assert_eq!(sim.reviews.len(), 2, "{row}");
            let (first, second) = (request(&sim, 0), request(&sim, 1));
            assert!(!first["user"].to_string().contains("stop"), "{row}: {first}");
            assert!(second["user"].to_string().contains("stop"), "{row}: {second}");
            assert_eq!(first["reviewId"], second["reviewId"], "{row}");
            assert_eq!(first["data"], second["data"], "{row}");
            let [ended] = &*reviews(&sim) else { panic!("{row}") };
            assert_eq!(ended.status, ReviewStatus::Denied, "{row}");
            match host {
                false => assert_eq!((runs(&sim), statuses(&sim)), (0, vec![ItemStatus::Declined])),
                true => assert_eq!(allowed(&sim), [false], "{row}"),
            }
        }
    }
}

#[test]
fn an_approval_of_the_second_request_counts() {
    let answers = [denies_after(1_500), approves_after(7)];
    let mut sim = interrupted_by(Said::Steered, one_command(approves_after(0)), &answers);
    sim.run_out();
    assert_eq!((sim.reviews.len(), runs(&sim)), (2, 1));
    let begun = sim.events.iter().filter(|event| {
        matches!(event, Event::ApprovalReview(review) if review.status == ReviewStatus::InProgress)
    });
    assert_eq!(begun.count(), 1, "it is the same review");
    assert_eq!(reviews(&sim)[0].status, ReviewStatus::Approved);
    assert_eq!(request(&sim, 1)["user"]["messages"], json!([{ "text": "go" }, { "text": "stop" }]));
    assert_eq!(sim.ends(), [TurnStatus::Completed]);
    // What both requests cost counts: two responses of 13 tokens, two reviews of 7.
    assert_eq!(sim.machine.usage().total, 2 * 13 + 2 * 7);
}

#[test]
fn both_requests_share_the_time_of_the_review() {
    let answers = [approves_after(60_000), approves_after(30_001)];
    let mut sim = interrupted_by(Said::Steered, one_command(approves_after(0)), &answers);
    sim.run_out();
    assert_eq!((sim.reviews.len(), runs(&sim)), (2, 0));
    assert_eq!(reviews(&sim)[0].status, ReviewStatus::TimedOut);
    assert!(warnings(&sim)[0].contains("within 90 s"));
    let answers = [approves_after(60_000), approves_after(29_999)];
    let mut sim = interrupted_by(Said::Steered, one_command(approves_after(0)), &answers);
    sim.run_out();
    assert_eq!(runs(&sim), 1);
}

#[test]
fn an_answer_after_a_retry_was_asked_before_too() {
    let answers = [Review::IsBusy(7, None), approves_after(7), denies_after(7)];
    let mut sim = interrupted_by(Said::Steered, one_command(approves_after(0)), &answers);
    sim.run_out();
    assert_eq!((sim.reviews.len(), runs(&sim)), (3, 0));
    assert_eq!(reviews(&sim)[0].status, ReviewStatus::Denied);
}

#[test]
fn in_an_agents_thread_only_a_clients_input_is_the_users() {
    let script = Script::new(&[
        &[exec("a", "safe reach:a after:50")],
        &[exec("b", "safe reach:b after:50")],
    ])
    .asking(ApprovalPolicy::OnRequest);
    let mut script = script.reviewed(&[approves_after(20), approves_after(20), approves_after(20)]);
    script.author = Author::Agent;
    script.responses.push(respond(&[say("Well.")]));
    let mut sim = Simulation::new(&script, Order::Timely);
    while sim.reviews.is_empty() {
        sim.advance();
    }
    let start = |reply, author, words| {
        let (content, overrides) = (text(words), Overrides::default());
        Input::Start { reply, author, content, overrides, output_schema: None }
    };
    // What another agent adds makes no answer void.
    let reply = sim.reply();
    sim.step(start(reply, Author::Agent, "I approve everything."));
    while sim.reviews.len() < 2 {
        sim.advance();
    }
    assert_eq!(request(&sim, 1)["data"]["action"]["host"], "b");
    assert_eq!(request(&sim, 1)["user"], json!({ "messages": [] }));
    let reply = sim.reply();
    sim.step(start(reply, Author::User, "Use the mirror."));
    sim.run_out();
    assert_eq!(request(&sim, 2)["user"], json!({ "messages": [{ "text": "Use the mirror." }] }));
    assert_eq!(sim.reviews.len(), 3);
}
