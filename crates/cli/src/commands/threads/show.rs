//! `agentd threads show`: what a thread holds.

use std::path::PathBuf;

use jsonrpc::Notification;
use protocol::thread::ThreadReadParams;
use protocol::{ThreadItem, UserInput};
use serde_json::json;
use serde_json::value::to_raw_value;

use crate::commands::local::{LocalServer, Quiet};
use crate::commands::transcript::{Detail, Palette, Style, Transcript};
use crate::commands::{output, print};

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Id of the thread
    thread: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const DETAIL: Detail =
    Detail { is_live: false, output_lines: 20, diff_lines: 200, reasoning: false };

pub(super) async fn show(
    server: &mut LocalServer,
    arguments: &Arguments,
    palette: Palette,
) -> anyhow::Result<()> {
    let params = ThreadReadParams { thread_id: arguments.thread.clone(), include_turns: true };
    let thread = server.call::<protocol::ThreadRead>(&params, &mut Quiet).await?.thread;
    if arguments.json {
        print(format_args!("{:#}", json!(thread)))?;
        return Ok(());
    }
    let cwd = PathBuf::from(&thread.cwd);
    let mut transcript = Transcript::new(output::stdout(), palette, DETAIL, cwd);
    let title = thread.name.as_deref().unwrap_or(&thread.preview);
    transcript.block(Style::Dim, "thread", &thread.id)?;
    transcript.block(Style::Dim, "title", title.lines().next().unwrap_or_default())?;
    transcript.block(Style::Dim, "folder", &thread.cwd)?;
    for turn in &thread.turns {
        for item in &ThreadItem::without_attempts(turn.items.clone()) {
            match item {
                ThreadItem::UserMessage(message) => {
                    let parts: Vec<_> = message.content.iter().map(input).collect();
                    transcript.block(Style::Mark, "user", &parts.join("\n"))?;
                }
                ThreadItem::AgentMessage(message) => {
                    transcript.block(Style::Bold, "agent", &message.text)?;
                }
                item => {
                    let event = json!({
                        "threadId": thread.id, "turnId": turn.id, "item": item, "completedAtMs": 0,
                    });
                    transcript.notified(protocol::ItemCompleted::NAME, &to_raw_value(&event)?)?;
                }
            }
        }
        if let Some(error) = &turn.error {
            transcript.block(Style::Bad, "error", &error.message)?;
        }
    }
    Ok(())
}

/// An input as text.
fn input(input: &UserInput) -> String {
    match input {
        UserInput::Text { text, .. } => text.clone(),
        UserInput::Image { .. } => "(an image)".to_owned(),
        UserInput::LocalImage { path, .. } => format!("(the image {path})"),
        UserInput::Skill { name, .. } => format!("(the skill {name})"),
        UserInput::Mention { name, .. } => format!("(a mention of {name})"),
    }
}
