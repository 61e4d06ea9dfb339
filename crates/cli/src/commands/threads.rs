//! `agentd threads`: lists, shows and changes stored threads, undoes their turns, writes them out, reads
//! them in, and reports what they cost.

mod change;
mod cost;
mod list;
mod show;
mod undo;

use std::fs::File;
use std::io::{self, BufReader, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Subcommand;
use store::{Store, transfer};

use crate::commands::local::LocalServer;
use crate::commands::transcript::Palette;
use crate::commands::{checked, eprint, output, print};
use crate::environment::{Environment, time_zone};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    #[command(flatten)]
    OfServer(ServerCommand),
    #[command(flatten)]
    OfStore(StoreCommand),
}

/// The commands that the server carries out as for any client.
#[derive(Subcommand)]
enum ServerCommand {
    /// List threads, the last used first
    List(list::Arguments),
    /// List the threads whose title or first message contains a text
    Search(list::SearchArguments),
    /// Show the contents of a thread
    Show(show::Arguments),
    /// Archive threads, which removes them from lists
    Archive(change::Arguments),
    /// Restore threads from the archive
    Unarchive(change::Arguments),
    /// Set the title of a thread
    Rename(change::RenameArguments),
    /// Delete threads permanently
    Delete(change::DeleteArguments),
    /// Undo the file changes of the last turns, and drop these turns
    Undo(undo::Arguments),
}

/// The commands that use the stored rows themselves.
#[derive(Subcommand)]
enum StoreCommand {
    /// Export a thread as lines of JSON
    Export {
        /// Id of the thread
        thread: String,
        /// The file to write [default: standard output]
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Report the tokens and the cost of models
    Cost(cost::Arguments),
    /// Import an exported thread, and print its id
    Import {
        /// The file to read [default: standard input]
        file: Option<PathBuf>,
        /// Give the thread a new id, to keep the original
        #[arg(long)]
        new_id: bool,
    },
}

/// Runs the subcommand.
pub(crate) async fn run(
    arguments: Arguments,
    environment: Environment,
) -> anyhow::Result<ExitCode> {
    match arguments.command {
        Command::OfServer(command) => on_server(&command, environment).await,
        Command::OfStore(command) => on_store(command, environment).await,
    }
}

async fn on_server(command: &ServerCommand, environment: Environment) -> anyhow::Result<ExitCode> {
    let cwd = environment.clone().options("cli").cwd;
    let palette = Palette::for_terminal(&environment, io::stdout().is_terminal());
    let mut server = LocalServer::start_experimental(environment, "cli").await?;
    let done = match command {
        ServerCommand::List(arguments) => list::list(&mut server, arguments, &cwd).await,
        ServerCommand::Search(arguments) => list::search(&mut server, arguments, &cwd).await,
        ServerCommand::Show(arguments) => show::show(&mut server, arguments, palette).await,
        ServerCommand::Archive(arguments) => change::archive(&mut server, arguments).await,
        ServerCommand::Unarchive(arguments) => change::unarchive(&mut server, arguments).await,
        ServerCommand::Rename(arguments) => change::rename(&mut server, arguments).await,
        ServerCommand::Delete(arguments) => change::delete(&mut server, arguments).await,
        ServerCommand::Undo(arguments) => undo::undo(&mut server, arguments).await,
    };
    server.close().await;
    done.map(|()| ExitCode::SUCCESS)
}

async fn on_store(command: StoreCommand, environment: Environment) -> anyhow::Result<ExitCode> {
    let config = checked(&environment, false)?;
    let options = environment.options("cli");
    let store = server::open_store(&config, options.clock.now_ms(), options.ids.next()).await?;
    let outcome = match command {
        StoreCommand::Export { thread, output } => export(&store, &thread, output.as_deref()).await,
        StoreCommand::Cost(arguments) => cost::report(&store, &arguments, &time_zone()).await,
        StoreCommand::Import { file, new_id } => {
            let new_id = new_id.then(|| options.ids.next());
            import(&store, file.as_deref(), new_id).await
        }
    };
    store.close().await?;
    outcome.map(|()| ExitCode::SUCCESS)
}

async fn export(store: &Store, thread: &str, output: Option<&Path>) -> anyhow::Result<()> {
    let mut out: Box<dyn Write> = match output {
        None => Box::new(output::stdout()),
        Some(path) if path.exists() => bail!("{} already exists: name a new file", path.display()),
        Some(path) => Box::new(private(path)?),
    };
    let mut out = BufWriter::new(&mut out);
    let mut failed = None;
    let done = transfer::export(store, thread, |line| {
        writeln!(out, "{line}").map_err(|error| {
            let kind = error.kind();
            failed = Some(error);
            kind.into()
        })
    });
    let place = || match output {
        Some(path) => path.display().to_string(),
        None => "standard output".to_owned(),
    };
    let written = match (done.await, failed) {
        (_, Some(error)) => Err(error),
        (done, None) => {
            done?;
            out.flush()
        }
    };
    written.with_context(|| format!("the thread cannot be written to {}", place()))
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
