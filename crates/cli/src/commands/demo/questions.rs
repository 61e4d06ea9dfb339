//! Approvals in the demo: the question, its choices, and an answer by the demo or by the person in
//! front of it.

use std::io::{self, Write};

use jsonrpc::Method;
use serde_json::json;
use serde_json::value::RawValue;

use crate::commands::local::Answer;
use crate::commands::transcript::{Style, Transcript};

/// Who answers.
pub(super) struct Answers {
    /// The person at the terminal; else the demo.
    pub(super) is_asking: bool,
}

/// The decisions on both kinds of approval (specification: Server-initiated requests).
const CHOICES: [&str; 4] = ["accept", "acceptForSession", "decline", "cancel"];

/// Maximum number of times that an answer is requested.
const MAX_TRIES: usize = 5;

impl Answers {
    /// Shows a request of the server's and answers it.
    ///
    /// # Errors
    /// Of the output.
    pub(super) async fn answer<W: Write>(
        &self,
        screen: &mut Transcript<W>,
        method: &str,
        params: &RawValue,
    ) -> io::Result<Answer> {
        let question = match method {
            protocol::ItemFileChangeRequestApproval::NAME => "May this change be made?",
            protocol::ItemCommandExecutionRequestApproval::NAME => "May this command run?",
            other => {
                screen.line(Some(Style::Warn), &format!("the demo declines {other}"))?;
                return Ok(agentd_embed::decline(other));
            }
        };
        let question =
            reason(params).map_or(question.to_owned(), |why| format!("{question} {why}"));
        screen.line(Some(Style::Warn), &format!("{method}: {question}"))?;
        screen.line(None, &format!("choices: {}", CHOICES.join(", ")))?;
        if !self.is_asking {
            screen.line(Some(Style::Bold), "the demo answers: accept")?;
            return Ok(Ok(json!({"decision": "accept"})));
        }
        Ok(Ok(json!({"decision": ask(screen).await?})))
    }
}

fn reason(params: &RawValue) -> Option<String> {
    let params: serde_json::Value = serde_json::from_str(params.get()).ok()?;
    Some(format!("({})", crate::commands::transcript::clean(params.get("reason")?.as_str()?)))
}

async fn ask<W: Write>(screen: &mut Transcript<W>) -> io::Result<&'static str> {
    for _ in 0..MAX_TRIES {
        screen.line(Some(Style::Bold), "your answer (Enter: accept):")?;
        let reading = tokio::task::spawn_blocking(|| {
            let mut line = String::new();
            io::stdin().read_line(&mut line).map(|bytes| (bytes > 0).then_some(line))
        });
        match reading.await.map_err(io::Error::other)?? {
            None => return Ok("decline"),
            Some(line) => match choice(&line) {
                Some(choice) => return Ok(choice),
                None => screen.line(None, &format!("choose one of: {}", CHOICES.join(", ")))?,
            },
        }
    }
    Ok("decline")
}

/// The choice that a line stands for: its name or the beginning of one, in any case; nothing is
/// yes.
fn choice(line: &str) -> Option<&'static str> {
    let line = line.trim().to_lowercase();
    match line.as_str() {
        "y" | "yes" => return Some("accept"),
        "n" | "no" => return Some("decline"),
        _ => {}
    }
    CHOICES.into_iter().find(|choice| choice.to_lowercase().starts_with(&line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_lines_map_to_choices() {
        let check = |line: &str, expect: Option<&str>| assert_eq!(choice(line), expect, "{line:?}");
        check("\n", Some("accept"));
        check("A\n", Some("accept"));
        check("acceptforsession", Some("acceptForSession"));
        check(" no ", Some("decline"));
        check("y", Some("accept"));
        check("can", Some("cancel"));
        check("maybe", None);
    }
}
