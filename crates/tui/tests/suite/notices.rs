//! Warnings that can be hidden, news of models, and what moves by time.

use std::path::PathBuf;

use serde_json::{Value, json};
use tui::app::{Effect, Environment, Event, Start};
use tui::here::Found;
use tui::terminal::input::{Code, Key};

use crate::harness::{Bench, opened};

fn start(config: Value, opened: Value) -> Bench {
    start_in((80, 24), config, opened)
}

fn start_in((columns, rows): (usize, usize), config: Value, opened: Value) -> Bench {
    let environment = Environment { server_is_here: true, ..Environment::default() };
    let mut bench = Bench::start_in(columns, rows, Start::default(), environment);
    bench.answer("config/read", json!({ "config": config, "origins": {} }));
    bench.answer("thread/start", opened);
    bench.answer("skills/list", json!({ "data": [] }));
    bench
}

fn edits(bench: &mut Bench) -> Vec<(String, Value)> {
    let written = json!({ "status": "ok", "version": "2", "filePath": "/home/u/.agent/config.toml", "overriddenMetadata": null });
    let edits = bench.answer("config/batchWrite", written)["edits"].clone();
    let edit = |edit: &Value| (edit["keyPath"].as_str().unwrap().to_owned(), edit["value"].clone());
    edits.as_array().unwrap().iter().map(edit).collect()
}

fn press(bench: &mut Bench, c: char) {
    bench.press(c);
}

// Effect of `notice.hide_full_access_warning`.
#[test]
fn full_access_is_confirmed_until_that_is_hidden() {
    let mut bench = Bench::open(80, 24);
    bench.send("/approvals full-access");
    let asks = "\
Full access?
Every command then runs with your rights, without a sandbox, with network
  access, and without asking. The agent can read, change and send every file
  that you can.
Files and web pages that it reads can mislead it. Use full access only where
  nothing of value is within reach, such as in a container.
› 1. Switch full access on (y)
  2. Switch it on, and do not show this again (d)
     stores `notice.hide_full_access_warning`
  3. No change (n, Esc)";
    assert!(bench.shown().contains(asks), "{}", bench.shown());
    bench.key(Key::plain(Code::Esc));
    assert!(bench.printed.contains("Nothing was changed."), "{}", bench.printed);
    bench.send("/approvals full-access");
    press(&mut bench, 'd');
    assert_eq!(edits(&mut bench), [("notice.hide_full_access_warning".to_owned(), json!(true))]);
    bench.refuse("config/read", "busy");
    bench.send("go");
    assert_eq!(bench.call("turn/start").1["sandboxPolicy"]["type"], "dangerFullAccess");
    for hides in [false, true] {
        let mut full = opened(&json!([]));
        full["sandbox"] = json!({ "type": "dangerFullAccess" });
        let bench = start(json!({ "notice": { "hide_full_access_warning": hides } }), full);
        assert_eq!(bench.printed.contains("! Full access"), !hides, "{}", bench.printed);
        let config = json!({ "notice": { "hide_full_access_warning": hides } });
        let mut bench = start(config, opened(&json!([])));
        bench.send("/approvals full-access");
        assert_eq!(bench.shown().contains("Full access?"), !hides, "{}", bench.shown());
    }
}

// Effect of `notice.hide_world_writable_warning`.
#[test]
fn folders_that_everybody_can_write_are_warned_of() {
    for hides in [false, true] {
        let mut writes = opened(&json!([]));
        writes["sandbox"] = json!({ "type": "workspaceWrite", "writableRoots": ["/data"] });
        let config = json!({ "notice": { "hide_world_writable_warning": hides } });
        let mut bench = start(config, writes);
        let checked = bench.others.pop();
        match hides {
            true => assert!(checked.is_none(), "{checked:?}"),
            false => {
                let Some(Effect::CheckWritable(folders)) = checked else { panic!("not looked at") };
                assert_eq!(folders, [PathBuf::from("/work"), PathBuf::from("/data")]);
                bench.event(Event::Found(Found::WritableByAll(vec!["/data".into()])));
                let printed = bench.printed.replace("\n  ", " ");
                assert!(
                    printed.contains("! Every user of this machine can write in /data"),
                    "{printed}"
                );
            }
        }
    }
}

fn limits(used: i32) -> Value {
    json!({ "rateLimits": { "limitId": "gpt", "primary": { "usedPercent": used, "windowDurationMins": 300, "resetsAt": 7_200 } } })
}

// Effect of `notice.hide_rate_limit_model_nudge`.
#[test]
fn a_limit_that_is_nearly_used_up_is_hinted_at_once() {
    for hides in [false, true] {
        let config = json!({ "notice": { "hide_rate_limit_model_nudge": hides }, "tui": { "status_line": ["limits"] } });
        let mut bench = start(config, opened(&json!([])));
        for used in [50, 91, 95] {
            bench.notify("account/rateLimits/updated", limits(used));
        }
        let count = bench.printed.matches("is nearly used up").count();
        assert_eq!(count, usize::from(!hides), "{}", bench.printed);
        assert!(bench.shown().ends_with("5% of 5h left"), "{}", bench.shown());
        if !hides {
            assert!(bench.printed.contains("9% left of 5h 00m, resets in"), "{}", bench.printed);
            bench.notify("account/rateLimits/updated", limits(10));
            bench.notify("account/rateLimits/updated", limits(92));
            assert_eq!(bench.printed.matches("is nearly used up").count(), 2);
        }
    }
}

fn model(id: &str, more: Value) -> Value {
    let mut model = json!({
        "id": id, "model": id, "displayName": id, "description": "", "hidden": false,
        "supportedReasoningEfforts": [], "defaultReasoningEffort": "medium", "isDefault": false,
    });
    model.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    model
}

/// A program whose provider has news of models.
fn with_models(config: Value, models: Value) -> Bench {
    with_models_in((80, 24), config, models)
}

fn with_models_in(size: (usize, usize), config: Value, models: Value) -> Bench {
    let mut it = opened(&json!([]));
    it["modelProvider"] = json!("mine");
    let mut whole = json!({ "model_provider": "mine" });
    whole.as_object_mut().unwrap().extend(config.as_object().unwrap().clone());
    let mut bench = start_in(size, whole, it);
    bench.answer("model/list", json!({ "data": models, "nextCursor": null }));
    bench.now += 1_000;
    bench
}

fn successor() -> Value {
    let info = json!({ "model": "gpt-y", "upgradeCopy": "It is faster." });
    json!([
        model("gpt-x", json!({ "upgrade": "gpt-y", "upgradeInfo": info })),
        model("gpt-y", json!({}))
    ])
}

/// The question about a successor, for the pictures of `states`.
pub(crate) fn model_successor(columns: usize, rows: usize) -> Bench {
    with_models_in((columns, rows), json!({}), successor())
}

// Effect of `notice.model_migrations`.
#[test]
fn a_successor_of_the_model_is_offered_and_stored() {
    let mut bench = with_models(json!({}), successor());
    let asks = "\
A newer model
gpt-x has a successor: gpt-y.
It is faster.
› 1. Use gpt-y from now on (u)
     stores `model`; this thread uses it from the next turn on
  2. Keep gpt-x, and do not ask again (k)
     stores the answer in `notice`
  3. Keep it for now (l, Esc)";
    assert!(bench.shown().contains(asks), "{}", bench.shown());
    press(&mut bench, 'u');
    let migrated = ("notice.model_migrations.\"gpt-x\"".to_owned(), json!("gpt-y"));
    assert_eq!(edits(&mut bench), [("model".to_owned(), json!("gpt-y")), migrated]);
    bench.send("go");
    assert_eq!(bench.call("turn/start").1["model"], "gpt-y");
    let config = json!({ "notice": { "model_migrations": { "gpt-x": "gpt-y" } } });
    assert!(!with_models(config, successor()).shown().contains("A newer model"));
}

// Effect of `notice.hide_<model>_migration_prompt`.
#[test]
fn a_model_that_is_kept_is_not_asked_about_again() {
    let mut bench = with_models(json!({}), successor());
    press(&mut bench, 'k');
    let key = "notice.\"hide_gpt-x_migration_prompt\"".to_owned();
    assert_eq!(edits(&mut bench), [(key, json!(true))]);
    let config = json!({ "notice": { "hide_gpt-x_migration_prompt": true } });
    assert!(!with_models(config, successor()).shown().contains("A newer model"));
}

// Effect of `tui.model_availability_nux`.
#[test]
fn a_new_model_is_announced_a_few_times() {
    let new =
        || json!([model("gpt-z", json!({ "availabilityNux": { "message": "gpt-z is here." } }))]);
    for (shown, is_announced) in [(None, true), (Some(3), true), (Some(4), false)] {
        let seen = shown.map_or_else(|| json!({}), |count| json!({ "gpt-z": count }));
        let config = json!({ "tui": { "model_availability_nux": seen } });
        let mut bench = with_models(config, new());
        assert_eq!(bench.printed.contains("gpt-z is here."), is_announced, "{}", bench.printed);
        if is_announced {
            let key = "tui.model_availability_nux.\"gpt-z\"".to_owned();
            assert_eq!(edits(&mut bench), [(key, json!(shown.unwrap_or(0) + 1))]);
        }
        assert!(bench.calls.is_empty());
    }
    let quiet = json!({ "tui": { "show_tooltips": false } });
    assert!(!with_models(quiet, new()).printed.contains("gpt-z is here."));
}

// Effect of `tui.animations`.
#[test]
fn what_moves_by_time_moves_seldom_and_not_at_all_without_animations() {
    for animates in [true, false] {
        let mut bench = start(json!({ "tui": { "animations": animates } }), opened(&json!([])));
        assert_eq!(bench.app.wakes_at(), None, "nothing moves while nothing runs");
        bench.begin_turn("go");
        let (begun, mut frames) = (bench.now, Vec::new());
        // Ten seconds of a turn in which nothing happens.
        while let Some(at) = bench.app.wakes_at().filter(|at| *at < begun + 10_000) {
            bench.now = at - 50;
            let before = bench.drawn;
            bench.event(Event::Tick);
            frames.push(bench.drawn - before);
        }
        let bytes: usize = frames.iter().sum();
        match animates {
            true => assert!(frames.len() <= 21 && bytes < 21 * 100, "{frames:?}"),
            false => {
                // The composer's key that is remembered wakes it once.
                assert!(frames.len() <= 2 && bytes == 0, "{frames:?}");
                assert!(bench.shown().contains("● Working  Esc interrupts"), "{}", bench.shown());
            }
        }
    }
}
