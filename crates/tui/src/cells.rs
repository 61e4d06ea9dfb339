//! The display of a thread's items: finished ones as lines that are printed once, running ones as a
//! headline and the latest lines of their text.

mod calls;
mod command;
mod delta;
mod messages;
mod parts;
mod running;

#[cfg(test)]
mod tests;

use protocol::ThreadItem;
use protocol::describe::Body;

use crate::context::Context;
use crate::palette::Palette;
use crate::text::Line;

pub use delta::Delta;
pub use parts::duration;
pub use running::Running;

/// The lines of a finished item; none where there is nothing to display.
#[must_use]
pub fn finished(item: &ThreadItem, context: &Context) -> Vec<Line> {
    let mut lines = match item.body() {
        Body::Input(it) => messages::user(it, context),
        Body::Answer(text) => messages::whole(text, context),
        Body::Reasoning(it) => messages::reasoning(it, context),
        Body::Aside(from) => messages::quiet(from.label, &from.text, context),
        Body::Command(it) => command::finished(it, context),
        Body::Changes(it) => calls::file_change(it, context),
        Body::Step(step) => calls::step(item, &step, context),
    };
    if let Some(why) = item.cut_off().filter(|_| !lines.is_empty()) {
        lines.extend(parts::remark(&format!("Cut off: {why}"), Palette::WARNING, context));
    }
    lines
}

/// The lines of an item as [`finished`], with all of the output of a command and of the changes of files.
#[must_use]
pub fn whole(item: &ThreadItem, context: &Context) -> Vec<Line> {
    match item {
        ThreadItem::CommandExecution(it) => command::whole(it, context),
        ThreadItem::FileChange(it) => calls::whole_file_change(it, context),
        _ => finished(item, context),
    }
}
