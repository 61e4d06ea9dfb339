//! Images: those that the provider generates, and those that a compaction meets.

use serde_json::json;
use session::{
    Author, Event, GeneratedImage, Input, Item, ModelEvent, ModelItem, ModelItemKind, TurnStatus,
    UserContent,
};

use crate::response::{call, say};
use crate::script::{Script, text};
use crate::simulation::{Order, Simulation};
use crate::stories::run;

/// The input of a request, as one text.
fn sent(sim: &Simulation, request: usize) -> String {
    sim.prompts[request].input.concat()
}

#[test]
fn a_generated_image_starts_with_the_provider_and_fails_without_an_image() {
    let begun = ModelEvent::ItemAdded { index: 0, kind: ModelItemKind::ImageGeneration };
    let done = |status: Option<&str>, result: &str| {
        let item = ModelItem::ImageGeneration(GeneratedImage {
            status: status.map(str::to_owned),
            result: result.to_owned(),
            revised_prompt: Some("a cat".to_owned()),
        });
        let raw = r#"{"type":"image_generation_call"}"#.into();
        ModelEvent::ItemDone { index: 0, raw, item }
    };
    let ended = || ModelEvent::Completed { usage: Default::default() };
    for (events, status, reason) in [
        (vec![begun.clone(), done(Some("completed"), "AAAA")], "completed", None),
        (vec![begun.clone(), done(Some("generating"), "AAAA")], "completed", None),
        (vec![done(None, "AAAA")], "completed", None),
        (vec![begun.clone(), done(Some("failed"), "")], "failed", Some("the provider reports")),
        (vec![begun.clone(), done(Some("completed"), "")], "failed", Some("returned no image")),
        (vec![begun.clone()], "failed", Some("response ended before this did")),
        (vec![begun, done(None, "AAAA")], "completed", None),
    ] {
        let mut script = Script::new(&[&[]]);
        script.responses[0] = events.into_iter().chain([ended()]).collect();
        let sim = run(&script);
        let images: Vec<_> = sim
            .events
            .iter()
            .filter_map(|event| match event {
                Event::ItemStarted { item: Item::ImageGeneration(image), .. }
                | Event::ItemCompleted { item: Item::ImageGeneration(image), .. } => Some(image),
                _ => None,
            })
            .collect();
        let [started, completed] = images.as_slice() else { panic!("{images:?}") };
        assert_eq!((&started.id, &*started.status), (&completed.id, "in_progress"));
        assert_eq!(completed.status, status);
        assert_eq!(completed.reason.is_some(), reason.is_some(), "{completed:?}");
        let shown = completed.reason.as_deref().unwrap_or_default();
        assert!(shown.contains(reason.unwrap_or_default()), "{shown}");
    }
}

#[test]
fn a_compaction_keeps_the_images_of_users_and_sums_up_those_of_tools() {
    let look = call("a", "view_image", json!({ "path": "/w/a.png" }));
    let script =
        Script::new(&[&[look], &[say("A cat.")], &[say("SUMMARY: a cat")], &[say("Yes, again.")]]);
    let image = "data:image/png;base64,USERS";
    let (mut is_shown, mut next) = (false, false);
    let sim = Simulation::run_with(&script, Order::Timely, |sim| {
        let reply = sim.reply();
        if !is_shown && let Some(turn) = sim.machine.active_turn().map(|turn| turn.to_string()) {
            is_shown = true;
            let content = vec![UserContent::Image { url: image.to_owned() }];
            sim.step(Input::Steer { reply, content, expected_turn: turn });
        } else if sim.ends().len() == 1 && sim.machine.active_turn().is_none() {
            sim.step(Input::Compact { reply });
        } else if sim.ends().len() == 2 && !next {
            next = true;
            let overrides = Default::default();
            let content = text("Is it a cat?");
            let (author, output_schema) = (Author::User, None);
            sim.step(Input::Start { reply, content, author, overrides, output_schema });
        }
    });
    assert_eq!(sim.ends(), [TurnStatus::Completed; 3]);
    let summing = sent(&sim, sim.prompts.len() - 2);
    assert_eq!(summing.matches("input_image").count(), 2, "{summing}");
    let after = sent(&sim, sim.prompts.len() - 1);
    assert_eq!(after.matches("input_image").count(), 1, "{after}");
    assert!(after.contains(image) && after.contains("SUMMARY: a cat"), "{after}");
}
