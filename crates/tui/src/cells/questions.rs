//! Questions of the model, with the user's answers: the call of a tool whose arguments and result are JSON, displayed
//! as the text that it stands for.

use protocol::tool::{
    DynamicToolCallOutputContentItem, ToolRequestUserInputQuestion, ToolRequestUserInputResponse,
};
use protocol::{DynamicToolCallItem, DynamicToolCallStatus};
use serde::Deserialize;

use crate::cells::parts::{INDENT, MARK, marked, remark};
use crate::context::Context;
use crate::palette::Palette;
use crate::text::{Line, Style};

/// The tool that asks.
const TOOL: &str = "request_user_input";

#[derive(Deserialize)]
struct Arguments {
    questions: Vec<ToolRequestUserInputQuestion>,
}

/// The questions of a call; `None` for calls of other tools, and where the model wrote something else.
fn questions(item: &DynamicToolCallItem) -> Option<Vec<ToolRequestUserInputQuestion>> {
    if item.namespace.is_some() || item.tool != TOOL {
        return None;
    }
    let arguments: Arguments = serde_json::from_str(item.arguments.as_str()).ok()?;
    Some(arguments.questions).filter(|questions| !questions.is_empty())
}

/// The questions and their answers, or why there are none.
pub(super) fn finished(item: &DynamicToolCallItem, context: &Context) -> Option<Vec<Line>> {
    let questions = questions(item)?;
    let output = output(item);
    let answers = serde_json::from_str::<ToolRequestUserInputResponse>(&output).ok();
    let mark = match item.status {
        DynamicToolCallStatus::InProgress => Palette::ACCENT,
        DynamicToolCallStatus::Completed if answers.is_some() => Palette::GOOD,
        _ => Palette::WARNING,
    };
    let count = questions.len();
    let mut lines = match count {
        1 => marked(mark, "Asked: ", &questions[0].question, context),
        _ => marked(mark, "Asked: ", &format!("{count} questions"), context),
    };
    for question in &questions {
        if count > 1 {
            lines.extend(remark(&question.question, Style::PLAIN, context));
        }
        let Some(answers) = &answers else { continue };
        let given = answers.answers.get(&question.id).map(|it| it.answers.join(", "));
        lines.extend(answer(given.filter(|given| !given.is_empty()), context));
    }
    if answers.is_none() && !output.is_empty() {
        lines.extend(remark(&output, Palette::WARNING, context));
    }
    Some(lines)
}

fn answer(given: Option<String>, context: &Context) -> Vec<Line> {
    let (mark, style, text) = match given {
        Some(given) => ("→ ", Palette::GOOD, given),
        None => ("→ ", Palette::WARNING, "no answer".to_owned()),
    };
    let mut lines = Vec::new();
    for (number, part) in text.lines().enumerate() {
        let mark = if number == 0 { mark } else { INDENT };
        let line = Line::plain(INDENT).with(mark, style).with(part.to_owned(), Style::PLAIN);
        lines.extend(line.wrapped(context.columns, &Line::plain("    ")));
    }
    lines
}

/// One line while the questions are open.
pub(super) fn headline(item: &DynamicToolCallItem) -> Option<Line> {
    let questions = questions(item)?;
    let first = questions[0].question.lines().next().unwrap_or_default().to_owned();
    let mut line =
        Line::new(MARK, Palette::ACCENT).with("Asks: ", Style::BOLD).with(first, Style::PLAIN);
    if questions.len() > 1 {
        line.push(format!(" and {} more", questions.len() - 1), Palette::QUIET);
    }
    Some(line)
}

/// Returns whether the call asks the user: its cell has the answers, too.
pub(super) fn asks(item: &DynamicToolCallItem) -> bool {
    questions(item).is_some()
}

fn output(item: &DynamicToolCallItem) -> String {
    let texts = item.content_items.iter().flatten().filter_map(|content| match content {
        DynamicToolCallOutputContentItem::InputText { text } => Some(text.as_str()),
        DynamicToolCallOutputContentItem::InputImage { .. } => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}
