//! The pictures of the book, as SVG: what they show comes from the sources where it is there as data (the map of the
//! crates, the kinds of items, the layers of the configuration, the gateway's limits).

mod canvas;
mod shapes;

use std::path::Path;

use anyhow::{Context, Result, ensure};
use protocol::ItemKind;

use canvas::Canvas;
use shapes::{Group, Step, flow, groups, nested};

/// Below the folder of the pictures.
type Files = Vec<(String, String)>;

pub(super) const FOLDER: &str = "docs/images";
const MAP: &str = "ARCHITECTURE.md";
const CONFIGURATION: &str = "docs/configuration.md";
const LIMITS: &str = "docs/gateway-limits.md";

pub(super) fn files(root: &Path) -> Result<Files> {
    let read = |file: &str| std::fs::read_to_string(root.join(file)).context(file.to_owned());
    let pictures = [
        ("crates", crates(&read(MAP)?)?),
        ("processes", processes()),
        ("thread-turn-item", items()),
        ("sandbox-layers", sandbox()),
        ("configuration-layers", configuration(&read(CONFIGURATION)?)?),
        ("approval", approval()),
        ("gateway-decision", gateway(&read(LIMITS)?)?),
    ];
    Ok(pictures.into_iter().map(|(name, canvas)| (format!("{name}.svg"), canvas.svg())).collect())
}

/// The crates of the map, in its groups.
fn crates(map: &str) -> Result<Canvas> {
    let mut found: Vec<Group> = Vec::new();
    for line in map.lines() {
        if let Some(title) = line.strip_prefix("| **").and_then(|rest| rest.split("**").next()) {
            found.push(Group { title: title.to_owned(), members: Vec::new() });
        } else if let Some(name) = line.strip_prefix("| `").and_then(|rest| rest.split('`').next())
            && let Some(group) = found.last_mut()
        {
            group.members.push(name.to_owned());
        } else if let Some(name) =
            line.strip_prefix("| **`").and_then(|rest| rest.split('`').next())
            && let Some(group) = found.last_mut()
        {
            group.members.push(name.to_owned());
        }
    }
    let named = found.iter().map(|group| group.members.len()).sum::<usize>();
    ensure!(found.len() > 3 && named > 20, "{MAP} has not the table of the crates");
    // A program is at the top, what it is built on below it.
    found.reverse();
    let title = "The crates of agentd by group: each builds on groups below it";
    Ok(groups(title, &found))
}

fn processes() -> Canvas {
    let steps = [
        Step::new("Clients", "terminal · browser · editor over ACP · your product"),
        Step::new("agentd app-server", "threads, turns, approvals; stored in SQLite")
            .over("JSON-RPC: stdio, WebSocket, Unix socket")
            .aside("Model provider", "over HTTPS or a WebSocket"),
        Step::new("Launcher", "a child of the server that starts all processes")
            .over("requests to start a process")
            .aside("MCP servers", "one process each, outside of the sandbox"),
        Step::new("Supervisor", "one for each command; it ends with the server"),
        Step::new("namespaces, Landlock, seccomp", "the sandbox of this command")
            .aside("Proxy of the managed network", "asks about unlisted hosts"),
        Step::new("The command", "and all that it starts"),
    ];
    flow("The processes of agentd, from the clients to a sandboxed command", &steps)
}

fn items() -> Canvas {
    let kinds: Vec<String> = ItemKind::ALL.iter().map(|kind| kind.name().to_owned()).collect();
    let layers = [
        (
            "Thread",
            "A stored conversation. It outlives the process, and can be resumed, forked and rolled back.",
        ),
        (
            "Turn",
            "One input and all work that follows. It ends once: completed, interrupted or failed.",
        ),
        ("Items", "The parts of a turn. Each is on disk before a client sees it completed."),
    ];
    nested("A thread has turns, and a turn has items", &layers, &kinds)
}

fn sandbox() -> Canvas {
    let layers = [
        (
            "Command rules and approvals",
            "Before anything runs: known harmless, allowed, asked about, or refused.",
        ),
        (
            "Namespaces",
            "A file system of their own: no network, no other processes, read-only folders.",
        ),
        (
            "Landlock",
            "Files that can be written, by folders that were opened before anything was mounted.",
        ),
        ("seccomp", "No access to other processes' memory, to namespaces, keys and sockets."),
    ];
    let inside = ["the command", "without capabilities", "with a filtered environment"];
    nested("The layers around a command", &layers, &inside.map(str::to_owned))
}

/// The layers of the numbered list on the page about the configuration.
fn configuration(page: &str) -> Result<Canvas> {
    let mut layers: Vec<String> = Vec::new();
    let mut in_list = false;
    for line in page.lines() {
        let number = format!("{}. ", layers.len() + 1);
        if let Some(text) = line.strip_prefix(&number) {
            in_list = true;
            layers.push(text.to_owned());
        } else if in_list && line.starts_with("   ") {
            let layer = layers.last_mut().context("a line before the list")?;
            layer.push(' ');
            layer.push_str(line.trim());
        } else if in_list {
            break;
        }
    }
    ensure!(layers.len() > 4, "{CONFIGURATION} has not the list of the layers");
    let plain = |text: &str| text.replace(['`', '*'], "").trim_end_matches([',', '.']).to_owned();
    let last = layers.len();
    let mut steps: Vec<Step> = layers
        .iter()
        .enumerate()
        .map(|(index, layer)| {
            let layer = plain(layer);
            let end = layer.find([',', ';', ':', '(']).unwrap_or(layer.len());
            let (name, more) = layer.split_at(end);
            let more = more.trim_start_matches([',', ';', ':', ' ']);
            let step = Step::new(&format!("{}. {}", index + 1, name.trim_end()), more);
            if index == 0 { step } else { step.over("overridden by") }
        })
        .collect();
    steps.push(
        Step::new("requirements.toml", "the administrator's limits, which no layer passes")
            .over("constrained by"),
    );
    steps.push(Step::new(
        "The configuration in force",
        "config/read shows each key with its origin",
    ));
    Ok(flow(
        &format!("The {last} layers of the configuration, from the weakest to the strongest"),
        &steps,
    ))
}

fn approval() -> Canvas {
    let steps = [
        Step::new("The model asks", "for a command, a patch, a host or a tool"),
        Step::new("Command rules", "every part of the script, by its syntax tree")
            .aside("Refused", "a rule forbids it"),
        Step::new("Grants", "your answers for the session")
            .aside("Runs", "you allowed exactly this before"),
        Step::new("Sandbox policy", "does it stay within the sandbox?")
            .aside("Runs confined", "yes, and nothing demands a question"),
        Step::new("Approval policy", "untrusted · on-request · never")
            .aside("Refused", "never: no one can be asked"),
        Step::new("You, or a reviewer in your place", "the whole action, as it would run")
            .aside("Refused", "the model gets the reason, or your words"),
        Step::new("Checked again", "folders and files still lead where they did")
            .aside("Nothing runs", "a link leads elsewhere by now"),
        Step::new("Runs", "once, as it was shown"),
    ];
    flow("How an approval is decided", &steps)
}

/// The limits are the rows of the first table on the page about them.
fn gateway(page: &str) -> Result<Canvas> {
    let rows = page.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
    let limits: Vec<&str> = rows
        .take_while(|line| line.starts_with('|'))
        .filter_map(|line| line.split('|').nth(1).map(str::trim))
        .collect();
    ensure!(limits.len() > 3, "{LIMITS} has not the table of the limits");
    let steps = [
        Step::new("Request", "method, path, headers, body")
            .aside("400, 404, 413", "malformed, unknown, too large"),
        Step::new("Key", "organization, project, its access to models")
            .aside("401, 403", "unknown, revoked or expired key; no access"),
        Step::new("Cost", "tokens and money that it can take at most")
            .aside("400, 403", "a path or a price that is unknown where limits apply"),
        Step::new("Limits, in one decision", &limits.join(" · "))
            .aside("429", "which limit, and when to try again"),
        Step::new("Backend", "region, health, circuit breaker, its own key")
            .aside("503", "no backend can take it"),
        Step::new("Answer, streamed", "usage is read as it passes")
            .aside("Client gone, cut, silent", "the part received counts"),
        Step::new("Settled once", "limits, ledger and money count the same tokens"),
    ];
    Ok(flow("The gateway's decision about a request", &steps))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_show_what_the_sources_have() {
        let root = xtask::workspace_root();
        let files = files(&root).unwrap();
        let of = |name: &str| &files.iter().find(|(file, _)| file == name).unwrap().1;
        for (name, words) in [
            ("crates.svg", &["ratelimit", "agentd-embed", "Ground"][..]),
            ("thread-turn-item.svg", &["commandExecution", "fileChange"]),
            ("configuration-layers.svg", &["/etc/agent/config.toml", "the built-in defaults"]),
            ("gateway-decision.svg", &["images a minute"]),
        ] {
            for word in words {
                assert!(of(name).contains(word), "{name}: {word}");
            }
        }
    }

    #[test]
    fn a_source_without_its_data_is_an_error() {
        assert!(crates("# Architecture\n").is_err());
        assert!(configuration("1. one\n2. two\n").is_err());
        assert!(gateway("| limit |\n|---|\n| one |\n").is_err());
    }
}
