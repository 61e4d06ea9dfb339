//! `agentd threads list` and `agentd threads search`: the stored threads, newest first.

use std::io::{self, IsTerminal};
use std::path::Path;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use protocol::thread_list::{ThreadListCwdFilter, ThreadListParams, ThreadSourceKind};
use protocol::thread_record::Thread;
use serde_json::json;

use crate::commands::local::{LocalServer, Quiet};
use crate::commands::print;
use crate::environment::time_zone;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Only threads of the working folder
    #[arg(long)]
    here: bool,
    /// Only archived threads
    #[arg(long)]
    archived: bool,
    /// Maximum number of threads
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub(super) struct SearchArguments {
    /// Text of titles and first messages
    text: String,
    #[command(flatten)]
    list: Arguments,
}

/// The sources of threads that users start; the agents of a thread are shown with it.
const SOURCES: [ThreadSourceKind; 5] = [
    ThreadSourceKind::Cli,
    ThreadSourceKind::Editor,
    ThreadSourceKind::Exec,
    ThreadSourceKind::AppServer,
    ThreadSourceKind::Unknown,
];
/// Columns of folders on a terminal, at most.
const MAX_FOLDER: usize = 24;
/// Threads asked for at a time.
const PAGE: u32 = 200;

pub(super) async fn search(
    server: &mut LocalServer,
    arguments: &SearchArguments,
    cwd: &Path,
) -> anyhow::Result<()> {
    write(server, Some(&arguments.text), &arguments.list, cwd).await
}

pub(super) async fn list(
    server: &mut LocalServer,
    arguments: &Arguments,
    cwd: &Path,
) -> anyhow::Result<()> {
    write(server, None, arguments, cwd).await
}

async fn write(
    server: &mut LocalServer,
    text: Option<&str>,
    arguments: &Arguments,
    cwd: &Path,
) -> anyhow::Result<()> {
    let here = || ThreadListCwdFilter::One(cwd.display().to_string());
    let mut params = ThreadListParams {
        source_kinds: Some(SOURCES.to_vec()),
        archived: Some(arguments.archived),
        cwd: arguments.here.then(here),
        search_term: text.map(str::to_owned),
        ..ThreadListParams::default()
    };
    let mut threads = Vec::new();
    loop {
        let left = arguments.limit.saturating_sub(u32::try_from(threads.len())?);
        params.limit = Some(left.min(PAGE));
        let page = server.call::<protocol::ThreadList>(&params, &mut Quiet).await?;
        threads.extend(page.data);
        params.cursor = page.next_cursor;
        if params.cursor.is_none() || threads.len() >= arguments.limit as usize {
            break;
        }
    }
    if arguments.json {
        print(format_args!("{:#}", json!(threads)))?;
        return Ok(());
    }
    let width = width();
    let zone = time_zone();
    let folder = |thread: &Thread| visible::exact(&thread.cwd).chars().count();
    let folders = threads.iter().map(folder).max().unwrap_or(0).min(MAX_FOLDER);
    for thread in &threads {
        print(format_args!("{}", row(thread, &zone, width.map(|width| (width, folders)))))?;
    }
    Ok(())
}

/// Columns of the terminal; `None` when standard output is none.
fn width() -> Option<usize> {
    if !io::stdout().is_terminal() {
        return None;
    }
    #[cfg(unix)]
    if let Ok(size) = rustix::termios::tcgetwinsize(io::stdout())
        && size.ws_col > 0
    {
        return Some(size.ws_col.into());
    }
    Some(80)
}

/// One line: aligned and cut to the widths of a terminal and of the folders; otherwise whole, with tabs
/// between the columns.
fn row(thread: &Thread, zone: &TimeZone, widths: Option<(usize, usize)>) -> String {
    let updated = time(thread.updated_at, zone);
    let folder = visible::exact(&thread.cwd);
    let title = thread.name.as_deref().unwrap_or(&thread.preview);
    let title = visible::exact(title.lines().next().unwrap_or_default()).replace('\t', " ");
    let Some((width, folders)) = widths else {
        return format!("{}\t{updated}\t{folder}\t{title}", thread.id);
    };
    let folder = end_of(&folder, folders);
    let line = format!("{}  {updated}  {folder:<folders$}  {title}", thread.id);
    start_of(&line, width)
}

fn time(seconds: i64, zone: &TimeZone) -> String {
    Timestamp::from_second(seconds).map_or_else(
        |_| "unknown".to_owned(),
        |time| time.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M").to_string(),
    )
}

fn start_of(text: &str, limit: usize) -> String {
    if text.chars().count() <= limit {
        return text.to_owned();
    }
    let start: String = text.chars().take(limit.saturating_sub(1)).collect();
    format!("{start}…")
}

fn end_of(text: &str, limit: usize) -> String {
    let count = text.chars().count();
    if count <= limit {
        return text.to_owned();
    }
    let end: String = text.chars().skip(count + 1 - limit).collect();
    format!("…{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit_and_show_what_is_hidden() {
        let thread: Thread = serde_json::from_value(json!({
            "id": "01", "sessionId": "01", "preview": "first\u{1b}[31m\tline\nsecond", "ephemeral": false,
            "modelProvider": "p", "createdAt": 0, "updatedAt": 86_400,
            "status": { "type": "notLoaded" }, "cwd": "/a/very/long/path/of/a/project", "cliVersion": "1",
            "source": "cli", "name": null, "gitInfo": null,
        }))
        .unwrap();
        let zone = TimeZone::UTC;
        let whole = row(&thread, &zone, None);
        assert_eq!(
            whole,
            "01\t1970-01-02 00:00\t/a/very/long/path/of/a/project\tfirst\\u{1b}[31m line"
        );
        let cut = row(&thread, &zone, Some((60, 24)));
        assert_eq!(cut, "01  1970-01-02 00:00  …/long/path/of/a/project  first\\u{1b}…");
        assert_eq!(cut.chars().count(), 60);
    }
}
