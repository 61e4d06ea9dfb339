//! The clients of another agent server: each runs its script, which starts `agentd` as the client does.

use std::path::Path;

use anyhow::{Context, Result};

use super::outcome::Outcome;
use super::page;
use super::script::follow;
use super::tools::Client;
use crate::bench::gateway::{Cores, Starter};
use xtask::checkout::agentd;

pub(super) fn run(root: &Path, clients: &[Client]) -> Result<Vec<Outcome>> {
    let agentd = agentd(root)?;
    let starter = Starter { parts: std::env::current_exe().context("this program's own path")? };
    let mut outcomes = Vec::new();
    for client in clients {
        println!("── {}", client.language);
        let mut command = client.command();
        command.env("AGENTD", &agentd);
        let outcome =
            starter.start(Cores::All, &command).and_then(|script| follow(script, client.language));
        outcomes.push(outcome.with_context(|| format!("the {} client", client.language))?);
    }
    println!("\n{}", page::summary(&outcomes));
    Ok(outcomes)
}
