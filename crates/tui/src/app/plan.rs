//! The plan of the turn, and the mode in which the agent plans and changes nothing.

use protocol::{CollaborationMode, CollaborationSettings, Empty, ModeKind};

use crate::app::program::App;
use crate::app::{messages, queueing};
use crate::ask::{Ask, Offer};
use crate::cells;
use crate::composer::Draft;
use crate::palette::Palette;
use crate::text::Line;

/// `/plan [on|off|MESSAGE]`.
pub(super) fn plan(app: &mut App, rest: &str) {
    match rest {
        "" => show_plan(app),
        "on" => plan_mode_on(app, None),
        "off" => plan_mode_off(app),
        message if app.session.turn.is_some() => {
            let text =
                "Plan mode starts with a new turn: wait for the end of this one, or interrupt it.";
            app.notice(text);
            app.writing.composer_mut().restore(Draft::plain(format!("/plan {message}")));
        }
        message => plan_mode_on(app, Some(Draft::plain(message))),
    }
}

fn show_plan(app: &mut App) {
    let mut lines = Vec::new();
    for step in &app.session.plan {
        let (line, state) = cells::plan_step(step);
        let line = line.with(format!("  {state}"), Palette::QUIET);
        lines.extend(line.wrapped(app.output.columns(), &Line::plain("  ")));
    }
    if lines.is_empty() {
        let text = "The latest turn has no plan.";
        lines.push(Line::new(text, Palette::QUIET));
    }
    app.print(lines);
    app.info(match app.session.plans {
        true => "Plan mode is on: the agent proposes and changes nothing. /plan off ends it.",
        false => "/plan on, or /plan MESSAGE: the agent proposes a plan and changes nothing.",
    });
}

/// Switches plan mode on, and sends the message in it.
fn plan_mode_on(app: &mut App, message: Option<Draft>) {
    app.call::<protocol::CollaborationModeList>(&Empty {}, |app, result| {
        let modes = match result {
            Ok(modes) => modes.data,
            Err(error) => {
                app.error(&format!("Plan mode cannot be switched on: {}", error.message));
                return message
                    .into_iter()
                    .for_each(|draft| app.writing.composer_mut().restore(draft));
            }
        };
        let Some(plan) = modes.into_iter().find(|mode| mode.mode == Some(ModeKind::Plan)) else {
            return app.error("The server has no plan mode.");
        };
        let model = plan.model.unwrap_or_else(|| app.session.model.clone());
        app.outbox.overrides_mut().collaboration_mode = Some(CollaborationMode {
            mode: ModeKind::Plan,
            settings: CollaborationSettings {
                model,
                reasoning_effort: plan.reasoning_effort,
                developer_instructions: None,
            },
        });
        app.session.plans = true;
        app.info(
            "Plan mode, from the next turn on: the agent explores and proposes a plan. Commands run \
             read-only and without network, regardless of approvals; no file is changed. \
             /plan off ends it.",
        );
        message.into_iter().for_each(|draft| messages::submit(app, draft));
    });
}

/// After a turn in plan mode that proposed a plan: asks whether the agent carries it out. A message that
/// waits is the user's answer.
pub(super) fn offer_to_implement(app: &mut App) {
    if !app.session.plans || !app.session.has_proposed || queueing::has_queued(app) {
        return;
    }
    let facts = vec![Line::plain(format!(
        "Plan mode then ends, and the agent works in this mode: {}.",
        app.session.mode
    ))];
    let offers = vec![
        Offer::new("implement", 'y', "Yes, carry it out").granting(),
        Offer::new("plan", 'n', "No, continue planning")
            .with_effect("write what to change; /plan off ends plan mode")
            .on_escape(),
    ];
    app.open_dialog_later(Ask::offer("Implement this plan?", facts, offers), |app, reply| {
        if reply == "implement" {
            plan_mode_off(app);
            messages::submit(app, Draft::plain("Implement the plan."));
        }
    });
}

fn plan_mode_off(app: &mut App) {
    if !app.session.plans {
        return app.notice("Plan mode is off already.");
    }
    app.outbox.overrides_mut().collaboration_mode = Some(CollaborationMode {
        mode: ModeKind::Default,
        settings: CollaborationSettings {
            model: app.session.model.clone(),
            reasoning_effort: app.session.effort,
            developer_instructions: None,
        },
    });
    app.session.plans = false;
    app.info("Plan mode ends with the next turn: approvals and sandbox apply again.");
}
