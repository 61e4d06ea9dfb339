//! An item while it runs.

use protocol::ThreadItem;

use crate::cells::{Delta, calls, command, finished, questions};
use crate::context::Context;
use crate::markdown::Stream;
use crate::output::Output;
use crate::palette::Palette;
use crate::text::Line;

/// An item while it runs.
#[derive(Debug)]
pub struct Running {
    item: ThreadItem,
    body: Body,
    is_complete: bool,
}

#[derive(Debug)]
enum Body {
    /// Text that is printed line by line while it is written.
    Text {
        stream: Stream,
        /// Bytes that the stream was given.
        length: usize,
        /// True if any line was given.
        has_begun: bool,
        /// True if all were.
        is_over: bool,
        /// True if another response takes its place.
        is_replaced: bool,
        is_quiet: bool,
    },
    /// The last output of a command, or the progress of a tool.
    Output {
        output: Output,
        /// Bytes that it was given.
        length: usize,
    },
    /// Everything of interest is in the item.
    Item,
}

impl Running {
    /// An item that has been started, with what it says so far.
    #[must_use]
    pub fn start(item: &ThreadItem) -> Self {
        let text = |is_quiet| Body::Text {
            stream: Stream::default(),
            length: 0,
            has_begun: false,
            is_over: false,
            is_replaced: false,
            is_quiet,
        };
        let body = match item {
            ThreadItem::AgentMessage(_) | ThreadItem::Plan(_) => text(false),
            ThreadItem::Reasoning(_) => text(true),
            ThreadItem::CommandExecution(_) | ThreadItem::McpToolCall(_) => {
                Body::Output { output: Output::default(), length: 0 }
            }
            _ => Body::Item,
        };
        let mut running = Self { item: item.clone(), body, is_complete: false };
        match item {
            ThreadItem::CommandExecution(_) => running.body = output_of(item),
            _ => running.push(&said(item)),
        }
        running
    }

    /// Takes an addition.
    pub fn delta(&mut self, delta: &Delta) {
        match (delta, &mut self.item) {
            (Delta::Message(it), _) => self.push(&it.delta),
            (Delta::Plan(it), _) => self.push(&it.delta),
            (Delta::Reasoning(it), _) => self.push(&it.delta),
            (Delta::ReasoningPart(_), _) => {
                if matches!(self.body, Body::Text { length: 1.., .. }) {
                    self.push("\n\n");
                }
            }
            (Delta::Output(it), _) => self.push(&it.delta),
            (Delta::Progress(it), _) => self.push(&format!("{}\n", it.message)),
            (Delta::Patch(it), ThreadItem::FileChange(item)) => {
                item.changes.clone_from(&it.changes);
            }
            (Delta::Runs(_), ThreadItem::CommandExecution(item)) => item.awaits_approval = false,
            (Delta::Patch(_) | Delta::Typed(_) | Delta::Runs(_), _) => {}
        }
    }

    fn push(&mut self, text: &str) {
        match &mut self.body {
            Body::Text { stream, length, .. } => {
                *length += text.len();
                stream.push(text);
            }
            Body::Output { output, length } => {
                *length += text.len();
                output.push(text);
            }
            Body::Item => {}
        }
    }

    /// Takes the item as it is now, after additions were missed.
    pub fn catch_up(&mut self, item: &ThreadItem) {
        let whole = said(item);
        match self.body {
            Body::Text { length, .. } => {
                if let Some(rest) = whole.get(length..) {
                    self.push(rest);
                }
            }
            // Nothing of it is printed before the end, so it is shown again.
            Body::Output { length, .. } if !self.is_complete && whole.len() > length => {
                self.body = output_of(item);
            }
            Body::Output { .. } | Body::Item => {}
        }
    }

    /// Takes the finished item. Of a text, what was given stays and only the rest is given.
    pub fn complete(&mut self, item: &ThreadItem) {
        self.is_complete = true;
        self.item = item.clone();
        self.catch_up(item);
        self.end();
    }

    /// Nothing more will come: what was given is all that there is.
    pub fn end(&mut self) {
        self.is_complete = true;
        if let Body::Text { stream, .. } = &mut self.body {
            stream.end();
        }
    }

    /// The model was asked again: no more of its text is given, and the lines that were are marked.
    pub fn replace(&mut self) {
        if let Body::Text { stream, is_replaced, .. } = &mut self.body {
            (*stream, *is_replaced) = (Stream::default(), true);
        }
    }

    /// Returns whether its lines are printed while it is written.
    #[must_use]
    pub fn is_text(&self) -> bool {
        matches!(self.body, Body::Text { .. })
    }

    /// Returns whether some of its lines were given, and not yet all.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        matches!(self.body, Body::Text { has_begun: true, is_over: false, .. })
    }

    /// The item as the server gave it last.
    #[must_use]
    pub fn item(&self) -> &ThreadItem {
        &self.item
    }

    /// The lines that are final, each given once: of a text as it is written, of anything
    /// else when it is complete.
    pub fn finished(&mut self, context: &Context) -> Vec<Line> {
        match &mut self.body {
            Body::Text { is_quiet: true, .. } if context.hide_reasoning => Vec::new(),
            Body::Text { has_begun, is_over, is_replaced: true, .. } => {
                let is_marked = *has_begun && !std::mem::replace(is_over, true);
                let text = "! Interrupted here. The request is retried; the next answer replaces this one.";
                let mark = is_marked.then(|| Line::new(text, Palette::WARNING));
                mark.iter().flat_map(|it| it.wrapped(context.columns, &Line::plain("  "))).collect()
            }
            Body::Text { stream, has_begun, is_over, is_quiet, .. } => {
                let lines = stream.finished(context);
                *has_begun |= !lines.is_empty();
                *is_over = self.is_complete;
                shown(lines, *is_quiet)
            }
            Body::Output { .. } | Body::Item if self.is_complete => finished(&self.item, context),
            Body::Output { .. } | Body::Item => Vec::new(),
        }
    }

    /// The last lines of what is not finished.
    #[must_use]
    pub fn open(&self, context: &Context, rows: usize) -> Vec<Line> {
        match &self.body {
            Body::Text { is_quiet: true, .. } if context.hide_reasoning => Vec::new(),
            Body::Text { stream, is_quiet, .. } => shown(stream.open(context, rows), *is_quiet),
            Body::Output { output, .. } => command::open(output, rows, context),
            Body::Item => Vec::new(),
        }
    }

    /// One line: what it does, and for how long.
    #[must_use]
    pub fn headline(&self, elapsed_ms: Option<u64>, context: &Context) -> Line {
        let asks = match &self.item {
            ThreadItem::DynamicToolCall(it) => questions::headline(it),
            _ => None,
        };
        match &self.item {
            ThreadItem::CommandExecution(it) => command::headline(it, elapsed_ms),
            ThreadItem::FileChange(it) => calls::file_change_headline(it, context),
            item => asks.unwrap_or_else(|| calls::running(&item.doing(), elapsed_ms)),
        }
    }
}

/// Returns the output of a command.
fn output_of(item: &ThreadItem) -> Body {
    let mut output = Output::default();
    if let ThreadItem::CommandExecution(it) = item {
        output.push_item(it);
    }
    Body::Output { output, length: said(item).len() }
}

/// The text of an item that is written piece by piece, as its deltas add up.
fn said(item: &ThreadItem) -> String {
    match item {
        ThreadItem::AgentMessage(it) => it.text.clone(),
        ThreadItem::Plan(it) => it.text.clone(),
        ThreadItem::Reasoning(it) => it.summary.join("\n\n"),
        ThreadItem::CommandExecution(it) => it.aggregated_output.clone().unwrap_or_default(),
        _ => String::new(),
    }
}

/// Lines of reasoning are less important than those of messages.
fn shown(mut lines: Vec<Line>, is_quiet: bool) -> Vec<Line> {
    if is_quiet {
        for line in &mut lines {
            for span in &mut line.spans {
                *span = span.styled(Palette::QUIET.italic());
            }
        }
    }
    lines
}
