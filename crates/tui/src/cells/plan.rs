//! The plan that the agent writes down for a turn.

use protocol::{TurnPlanStep, TurnPlanStepStatus};

use crate::cells::parts::{INDENT, MARK, remark};
use crate::context::Context;
use crate::palette::Palette;
use crate::text::{Line, Style};

/// A step with the mark of its state, and the state in a word.
#[must_use]
pub fn plan_step(step: &TurnPlanStep) -> (Line, &'static str) {
    let (mark, style, text, state) = match step.status {
        TurnPlanStepStatus::Completed => ("✓ ", Palette::GOOD, Palette::QUIET, "done"),
        TurnPlanStepStatus::InProgress => ("● ", Palette::ACCENT, Style::BOLD, "in progress"),
        TurnPlanStepStatus::Pending => ("○ ", Palette::QUIET, Style::PLAIN, "to do"),
    };
    (Line::new(mark, style).with(step.step.clone(), text), state)
}

/// The plan with its explanation, as it is printed when it changes.
#[must_use]
pub fn plan(steps: &[TurnPlanStep], explanation: &str, context: &Context) -> Vec<Line> {
    let done = steps.iter().filter(|step| step.status == TurnPlanStepStatus::Completed).count();
    let mut lines = vec![
        Line::new(MARK, Palette::ACCENT)
            .with("Plan", Style::BOLD)
            .with(format!("  {done} of {} done", steps.len()), Palette::QUIET),
    ];
    let parts = explanation.lines().filter(|part| !part.trim().is_empty());
    lines.extend(parts.flat_map(|part| remark(part, Palette::QUIET, context)));
    for step in steps {
        let mut line = Line::plain(INDENT);
        line.spans.extend(plan_step(step).0.spans);
        lines.extend(line.wrapped(context.columns, &Line::plain("    ")));
    }
    lines
}
