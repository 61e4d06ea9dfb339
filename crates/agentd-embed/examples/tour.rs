//! A tour of agentd with its offline model: `cargo run -p agentd-embed --example tour`

use std::io::Write;

use agentd_embed::protocol::{AskForApproval, SandboxMode, ThreadStartParams};
use agentd_embed::{Agent, Approval, Tool};
use serde_json::json;

#[derive(serde::Deserialize)]
struct Ticket {
    number: u32,
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "an example shows what it does")]
async fn main() -> anyhow::Result<()> {
    let schema = json!({
        "type": "object",
        "properties": { "number": { "type": "integer" } },
        "required": ["number"],
    });
    let ticket =
        Tool::new("ticket", "The text of a ticket.", schema, |Ticket { number }| async move {
            anyhow::Ok(format!("Ticket {number}: the demo shall have a file."))
        });
    let approve = |approval: Approval| async move {
        let what = approval.command().or(approval.reason()).unwrap_or_default();
        println!("May it? {}: {what}", approval.kind());
        matches!(approval, Approval::FileChange(_))
    };

    let folder = tempfile::tempdir()?;
    let agent =
        Agent::builder().offline().cwd(folder.path()).approve(approve).tool(ticket).start().await?;
    let thread = agent
        .thread(ThreadStartParams {
            sandbox: Some(SandboxMode::ReadOnly),
            approval_policy: Some(AskForApproval::OnRequest),
            ..Default::default()
        })
        .await?;
    let mut turn = thread.turn("Do what ticket 7 says").await?;
    while let Some(text) = turn.next_text().await? {
        print!("{text}");
        std::io::stdout().flush()?;
    }
    let result = turn.result().await?;
    println!("\n{:?}, {} items", result.turn.status, result.items.len());
    for entry in std::fs::read_dir(folder.path())? {
        println!("file: {}", entry?.file_name().display());
    }
    let again = agent.resume(thread.id()).await?;
    println!("resumed: {} turn", again.read().await?.turns.len());
    agent.close().await;
    Ok(())
}
