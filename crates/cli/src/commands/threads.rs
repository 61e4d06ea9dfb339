//! `agentd threads`: writes threads out, reads them in, and reports what they cost.

mod cost;

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Subcommand;
use server::{Clock, Ids};
use store::{OpenOptions, Store, transfer};

use crate::commands::{checked, eprint, print};
use crate::environment::{Environment, time_zone};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Export a thread as lines of JSON
    Export {
        /// Id of the thread
        thread: String,
        /// The file to write [default: standard output]
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Report what models used and cost
    Cost(cost::Arguments),
    /// Import an exported thread, and print its id
    Import {
        /// The file to read [default: standard input]
        file: Option<PathBuf>,
        /// Give the thread a new id, so that the original can stay
        #[arg(long)]
        new_id: bool,
    },
}

/// Runs the subcommand.
pub(crate) async fn run(
    arguments: Arguments,
    environment: Environment,
) -> anyhow::Result<ExitCode> {
    let config = checked(&environment, false)?;
    let dir = config.sqlite_home.clone();
    let options = environment.options("cli");
    let store = open(&dir, &*options.clock, &*options.ids)?;
    let outcome = match arguments.command {
        Command::Export { thread, output } => export(&store, &thread, output.as_deref()).await,
        Command::Cost(arguments) => cost::report(&store, &arguments, &time_zone()).await,
        Command::Import { file, new_id } => {
            let new_id = new_id.then(|| options.ids.next());
            import(&store, file.as_deref(), new_id).await
        }
    };
    store.close().await?;
    outcome.map(|()| ExitCode::SUCCESS)
}

fn open(dir: &Path, clock: &dyn Clock, ids: &dyn Ids) -> anyhow::Result<Store> {
    Ok(Store::open(dir, OpenOptions::new(clock.now_ms(), ids.next()))?)
}

async fn export(store: &Store, thread: &str, output: Option<&Path>) -> anyhow::Result<()> {
    let mut out: Box<dyn Write> = match output {
        None => Box::new(io::stdout()),
        Some(path) if path.exists() => bail!("{} exists: name a new file", path.display()),
        Some(path) => Box::new(private(path)?),
    };
    let mut out = BufWriter::new(&mut out);
    transfer::export(store, thread, |line| writeln!(out, "{line}")).await?;
    out.flush()?;
    Ok(())
}

/// Creates a file that only the user can read.
fn private(path: &Path) -> anyhow::Result<File> {
    // tidy: open a new file of the user, for writing.
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).with_context(|| format!("cannot write {}", path.display()))
}

async fn import(store: &Store, file: Option<&Path>, new_id: Option<String>) -> anyhow::Result<()> {
    let id = match file {
        Some(path) => {
            let file = files::open_argument(path)?;
            let imported = transfer::import(store, BufReader::new(file), new_id).await;
            imported.with_context(|| path.display().to_string())?
        }
        None => {
            eprint(format_args!("agentd: reading standard input"));
            transfer::import(store, io::stdin().lock(), new_id).await?
        }
    };
    print(format_args!("{id}"))?;
    Ok(())
}
