//! The plan of the turn, and the mode in which the agent plans and changes nothing.

use protocol::{CollaborationMode, CollaborationSettings, Empty, ModeKind, TurnPlanStepStatus};

use crate::app::App;
use crate::composer::Draft;
use crate::palette::Palette;
use crate::text::{Line, Style};

impl App {
    /// `/plan [on|off|MESSAGE]`.
    pub(super) fn plan(&mut self, rest: &str) {
        match rest {
            "" => self.show_plan(),
            "on" => self.plan_mode_on(None),
            "off" => self.plan_mode_off(),
            message if self.session.turn.is_some() => {
                let text =
                    "Plan mode begins with a turn: wait for the end of this one, or interrupt it.";
                self.notice(text);
                self.composer.restore(Draft::plain(format!("/plan {message}")));
            }
            message => self.plan_mode_on(Some(Draft::plain(message))),
        }
    }

    fn show_plan(&mut self) {
        let mut lines = Vec::new();
        for step in &self.session.plan {
            let (mark, style, state) = match step.status {
                TurnPlanStepStatus::Completed => ("✓ ", Palette::GOOD, "done"),
                TurnPlanStepStatus::InProgress => ("● ", Palette::ACCENT, "in progress"),
                TurnPlanStepStatus::Pending => ("○ ", Palette::QUIET, "to do"),
            };
            let line = Line::new(mark, style)
                .with(step.step.clone(), Style::PLAIN)
                .with(format!("  {state}"), Palette::QUIET);
            lines.extend(line.wrapped(self.size.columns, &Line::plain("  ")));
        }
        if lines.is_empty() {
            let text = "The agent has written down no plan in the latest turn.";
            lines.push(Line::new(text, Palette::QUIET));
        }
        self.print(lines);
        self.info(match self.session.plans {
            true => "Plan mode is on: the agent proposes and changes nothing. /plan off ends it.",
            false => "/plan on, or /plan MESSAGE: the agent proposes a plan and changes nothing.",
        });
    }

    /// Switches plan mode on, and sends the message in it.
    fn plan_mode_on(&mut self, message: Option<Draft>) {
        self.call::<protocol::CollaborationModeList>(&Empty {}, |app, result| {
            let modes = match result {
                Ok(modes) => modes.data,
                Err(error) => {
                    app.error(&format!("Plan mode cannot be switched on: {}", error.message));
                    return message.into_iter().for_each(|draft| app.composer.restore(draft));
                }
            };
            let Some(plan) = modes.into_iter().find(|mode| mode.mode == Some(ModeKind::Plan)) else {
                return app.error("The server has no plan mode.");
            };
            let model = plan.model.unwrap_or_else(|| app.session.model.clone());
            app.overrides.collaboration_mode = Some(CollaborationMode {
                mode: ModeKind::Plan,
                settings: CollaborationSettings {
                    model,
                    reasoning_effort: plan.reasoning_effort,
                    developer_instructions: None,
                },
            });
            app.session.plans = true;
            app.info(
                "Plan mode, from the next turn on: the agent looks and proposes a plan. Commands run \
                 read-only and without network, whatever the approvals say; no file is changed. \
                 /plan off ends it.",
            );
            message.into_iter().for_each(|draft| app.submit(draft));
        });
    }

    fn plan_mode_off(&mut self) {
        if !self.session.plans {
            return self.notice("Plan mode is off already.");
        }
        self.overrides.collaboration_mode = Some(CollaborationMode {
            mode: ModeKind::Default,
            settings: CollaborationSettings {
                model: self.session.model.clone(),
                reasoning_effort: self.session.effort,
                developer_instructions: None,
            },
        });
        self.session.plans = false;
        self.info("Plan mode ends with the next turn: the approvals and the sandbox count again.");
    }
}
