//! `agentd store`: prepares a PostgreSQL database for threads, and copies threads from one database to another.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Subcommand;
use config::{Config, Secret, ThreadDatabase};
use server::Options;
use store::transfer::{Copied, copy_threads};
use store::{Migration, SqliteConfig, Store, check};

use crate::commands::{Invalid, checked, print};
use crate::environment::Environment;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Create the tables of the database in `store.url`, or bring them to the version of this program
    ///
    /// Servers of the version before go on working, so run it before you replace them. Exit codes: 0 when the tables
    /// have the version, 1 when the database cannot be used, 2 when none is configured.
    Migrate,
    /// Copy all threads to another database, and compare each copy with the original
    ///
    /// Threads that are in the target already, with the same contents, are left as they are: a copy that was cut short
    /// is continued by running it again. A thread that differs there ends the copy. Not copied are costs and jobs.
    /// Exit codes: 0 when all threads are in the target, 1 when some may not be, 2 for invalid arguments.
    Copy(Box<CopyArguments>),
}

#[derive(clap::Args)]
struct CopyArguments {
    /// The threads to copy: the folder of a SQLite database, or `postgres://USER@HOST/DATABASE`
    #[arg(long, value_name = "URL|PATH")]
    from: String,
    /// The database that gets them, in the same form
    #[arg(long, value_name = "URL|PATH")]
    to: String,
    /// The environment variable that holds the password for `--from`
    #[arg(long, value_name = "NAME")]
    from_env_key: Option<String>,
    /// The environment variable that holds the password for `--to`
    #[arg(long, value_name = "NAME")]
    to_env_key: Option<String>,
    /// Schema of the tables of `--from` [default: as for `store.schema`]
    #[arg(long, value_name = "NAME")]
    from_schema: Option<String>,
    /// Schema of the tables of `--to` [default: as for `store.schema`]
    #[arg(long, value_name = "NAME")]
    to_schema: Option<String>,
    /// A PEM file with the authorities that sign the certificates of the servers
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

/// The lease of a copy on its databases.
const LEASE: Duration = Duration::from_secs(60);

/// Runs the subcommand.
pub(crate) async fn run(
    arguments: Arguments,
    environment: Environment,
) -> anyhow::Result<ExitCode> {
    let config = checked(&environment, false)?;
    let options = environment.clone().options("cli");
    match arguments.command {
        Command::Migrate => migrate(config, &options).await?,
        Command::Copy(arguments) => copy(&arguments, &config, &options).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn migrate(config: Config, options: &Options) -> anyhow::Result<()> {
    let database = config.thread_database.ok_or_else(|| {
        Invalid::new(
            "no database of threads is configured: set `store.url`, as in `agentd -c \
             store.url=postgres://USER@HOST/DATABASE store migrate`",
        )
    })?;
    let schema = database.schema.clone();
    let postgres = server::postgres_config(database, options.ids.next()).await?;
    let Migration { place, from, to, has_trigrams } = store::migrate(&postgres).await?;
    let done = match (from, to) {
        (0, _) => format!("created the tables, version {to}"),
        (from, to) if from == to => format!("nothing to do, the tables have version {to}"),
        (from, to) => format!("updated the tables from version {from} to {to}"),
    };
    print(format_args!("schema {schema} of {place}: {done}"))?;
    let search = match has_trigrams {
        true => "names of threads are searched with an index",
        false => {
            "names of threads are searched without an index; to have one, an administrator runs \
             `CREATE EXTENSION pg_trgm`, then run this again"
        }
    };
    Ok(print(format_args!("{search}"))?)
}

async fn copy(arguments: &CopyArguments, config: &Config, options: &Options) -> anyhow::Result<()> {
    let CopyArguments { from, to, from_env_key, to_env_key, from_schema, to_schema, ca_file } =
        arguments;
    let named = Named { config, options, ca_file: ca_file.as_deref() };
    let from = named.end("from", from, from_env_key.as_deref(), from_schema.as_deref())?;
    let to = named.end("to", to, to_env_key.as_deref(), to_schema.as_deref())?;
    if from.is_same(&to) {
        return Err(Invalid::new("`--from` and `--to` name the same threads").into());
    }
    if let End::Folder(folder) = &from
        && !check::has_database(folder)
    {
        let folder = folder.display();
        return Err(Invalid::new(format!("--from: there are no threads in {folder}")).into());
    }
    let source = from.open(options).await?;
    // As a server does when it opens them.
    server::close_orphans(&source, options.clock.now_ms()).await?;
    let target = to.open(options).await?;
    let copied = copy_threads(&source, &target).await;
    let (source, target) = (source.close().await, target.close().await);
    let Copied { copied, present, turns, items } = copied.with_context(|| {
        format!("the copy from {from} to {to} ended early; what it copied stays, and the next one goes on")
    })?;
    source?;
    target?;
    Ok(print(format_args!(
        "copied {copied} threads from {from} to {to}; {present} were there already. Compared: {} threads, \
         {turns} turns, {items} items",
        copied + present
    ))?)
}

/// The options that both ends of a copy share.
struct Named<'a> {
    config: &'a Config,
    options: &'a Options,
    ca_file: Option<&'a Path>,
}

/// One side of a copy.
enum End {
    Folder(PathBuf),
    Database(Box<ThreadDatabase>),
}

impl Named<'_> {
    /// The end that `--option` names. The configured database keeps its other settings.
    fn end(
        &self,
        option: &str,
        place: &str,
        env_key: Option<&str>,
        schema: Option<&str>,
    ) -> Result<End, Invalid> {
        if !place.contains("://") {
            if env_key.is_some() || schema.is_some() {
                let message = format!(
                    "--{option} is a folder, so `--{option}-env-key` and `--{option}-schema` have no effect; \
                     remove them"
                );
                return Err(Invalid::new(message));
            }
            return Ok(End::Folder(self.options.cwd.join(place)));
        }
        let refused = |mistake: String| {
            let mistake = mistake.replace("`env_key`", &format!("`--{option}-env-key`"));
            Invalid::new(format!("--{option}: {mistake}"))
        };
        let is_configured = self.config.store.url.as_deref() == Some(place);
        let configured = self.config.thread_database.clone().filter(|_| is_configured);
        let mut database = match configured {
            Some(database) => database,
            None => ThreadDatabase::at(place).map_err(refused)?,
        };
        if let Some(file) = self.ca_file {
            database = database.with_ca_file(self.options.cwd.join(file)).map_err(refused)?;
        }
        if let Some(schema) = schema {
            schema.clone_into(&mut database.schema);
        }
        if let Some(name) = env_key {
            let password = self.options.variable(name).filter(|value| !value.is_empty());
            let password = password.ok_or_else(|| {
                Invalid::new(format!(
                    "--{option}-env-key: the environment variable {name} is not set"
                ))
            })?;
            database.env_key = Some(name.to_owned());
            database.password = Some(Secret::new(password));
        }
        Ok(End::Database(Box::new(database)))
    }
}

impl End {
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Folder(one), Self::Folder(other)) => {
                let real = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
                real(one) == real(other)
            }
            (Self::Database(one), Self::Database(other)) => {
                (&one.url, &one.schema) == (&other.url, &other.schema)
            }
            _ => false,
        }
    }

    async fn open(&self, options: &Options) -> anyhow::Result<Store> {
        let owner = options.ids.next();
        Ok(match self {
            Self::Folder(folder) => {
                Store::open(SqliteConfig::new(folder, options.clock.now_ms(), owner)).await?
            }
            Self::Database(database) => {
                let database = ThreadDatabase::clone(database);
                let mut postgres = server::postgres_config(database, owner).await?;
                // A large thread is one commit, which may take this time twice.
                postgres.lease = LEASE;
                Store::open(postgres).await?
            }
        })
    }
}

/// As in messages.
impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => write!(f, "{}", folder.display()),
            Self::Database(database) => write!(f, "schema {} of {}", database.schema, database.url),
        }
    }
}
