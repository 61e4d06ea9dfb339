//! The display of a thread's items: finished ones as lines that are printed once, running ones as a
//! headline and the latest lines of their text.

mod calls;
mod command;
mod delta;
mod explored;
mod messages;
mod parts;
mod plan;
mod questions;
mod running;

#[cfg(test)]
mod tests;

use protocol::ThreadItem;
use protocol::describe::Body;

use crate::context::Context;
use crate::palette::Palette;
use crate::text::Line;

pub use delta::Delta;
pub use explored::{Explored, explores};
pub use parts::duration;
pub use plan::{plan, plan_step};
pub use running::Running;

/// The lines of a finished item; none where there is nothing to display.
#[must_use]
pub fn finished(item: &ThreadItem, context: &Context) -> Vec<Line> {
    with_cut(item, cell(item, context), context)
}

fn cell(item: &ThreadItem, context: &Context) -> Vec<Line> {
    match item.body() {
        Body::Input(it) => messages::user(it, context),
        Body::Answer(text) => messages::whole(text, context),
        Body::Reasoning(it) => messages::reasoning(it, context),
        Body::Aside(from) => messages::quiet(from.label, &from.text, context),
        Body::Command(it) => command::finished(it, context),
        Body::Changes(it) => calls::file_change(it, context),
        Body::Step(step) => {
            questions_of(item, context).unwrap_or_else(|| calls::step(item, &step, context))
        }
    }
}

fn questions_of(item: &ThreadItem, context: &Context) -> Option<Vec<Line>> {
    match item {
        ThreadItem::DynamicToolCall(it) => questions::finished(it, context),
        _ => None,
    }
}

/// Says why the item ends where it does, if it was cut off.
fn with_cut(item: &ThreadItem, mut lines: Vec<Line>, context: &Context) -> Vec<Line> {
    if let Some(why) = item.cut_off().filter(|_| !lines.is_empty()) {
        lines.extend(parts::remark(&format!("Cut off: {why}"), Palette::WARNING, context));
    }
    lines
}

/// The lines of an item as [`finished`], with all that it leaves out: pasted text, output, results, changes of files.
#[must_use]
pub fn whole(item: &ThreadItem, context: &Context) -> Vec<Line> {
    let lines = match item.body() {
        Body::Input(it) => messages::whole_user(it, context),
        Body::Command(it) => command::whole(it, context),
        Body::Changes(it) => calls::whole_file_change(it, context),
        Body::Step(step) => {
            questions_of(item, context).unwrap_or_else(|| calls::whole_step(item, &step, context))
        }
        _ => cell(item, context),
    };
    with_cut(item, lines, context)
}

/// Returns whether the item is a question to the user, whose cell has the answers.
#[must_use]
pub fn asks_user(item: &ThreadItem) -> bool {
    matches!(item, ThreadItem::DynamicToolCall(it) if questions::asks(it))
}
