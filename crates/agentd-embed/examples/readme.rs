//! The agent changes a file in the current folder, and this program decides whether it may.
#![allow(clippy::print_stdout)]

use agentd_embed::protocol::{AskForApproval, SandboxMode, ThreadItem, ThreadStartParams};
use agentd_embed::{Agent, Approval, Error, TurnEvent};

async fn approve(approval: Approval) -> bool {
    let what = approval.command().or(approval.reason()).unwrap_or_default();
    println!("\n[may it? {}: {what}]", approval.kind());
    approval.kind() == "fileChange"
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    // Without `offline`, the model is that of the configuration.
    let agent = Agent::builder().offline().approve(approve).start().await?;
    let settings = ThreadStartParams {
        sandbox: Some(SandboxMode::ReadOnly),
        approval_policy: Some(AskForApproval::OnRequest),
        ..Default::default()
    };
    let thread = agent.thread(settings).await?;
    let mut turn = thread.turn("Describe this project in a file").await?;
    while let Some(event) = turn.next().await {
        if let TurnEvent::Text(text) | TurnEvent::Commentary(text) = event? {
            print!("{text}");
        }
    }

    let result = turn.result().await?;
    println!();
    for item in &result.items {
        if let ThreadItem::FileChange(change) = item {
            println!("changed: {}", change.changes[0].path);
        }
    }
    println!("{} items", result.items.len());
    agent.close().await;
    Ok(())
}
