//! The contents of a bundle.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use config::Resolved;
use config::table::{Features, stage};
use sandbox::LayerStatus;

use crate::commands::config as config_command;
use crate::commands::doctor::bundle::Entry;
use crate::commands::doctor::{ends_of_logs, stores};
use crate::environment::Environment;

/// Longest file that describes the system, in bytes.
const MAX_FACT: u64 = 64 << 10;

/// Gathers it. What cannot be read is named in its place, with the reason. `examined` is what the doctor
/// found.
pub(super) async fn gather(
    environment: &Environment,
    examined: &str,
    layers: &[LayerStatus],
) -> Vec<Entry> {
    let options = environment.clone().options("cli");
    let resolved = server::configuration(&options, true);
    let (settings, features, folders) = match &resolved {
        Ok(resolved) => {
            let lines = config_command::lines(resolved, true, true, false);
            let folders = (resolved.config.sqlite_home.clone(), resolved.config.log_dir.clone());
            (lines.join("\n") + "\n", features(resolved), folders)
        }
        Err(error) => {
            let unusable = format!("the configuration cannot be used:\n{}\n", error.diagnostic());
            let folders = (environment.home.clone(), environment.home.join("log"));
            (unusable.clone(), unusable, folders)
        }
    };
    let mut stores_of: Vec<PathBuf> = vec![environment.home.clone(), folders.0];
    stores_of.dedup();
    let mut entries = vec![
        Entry::new("doctor.txt", examined),
        Entry::new("system.txt", &system(environment)),
        Entry::new("configuration.toml", &settings),
        Entry::new("features.txt", &features),
        Entry::new("sandbox.txt", &sandbox_abilities(layers)),
        Entry::new("stores.txt", &stores::describe(&stores_of).await),
    ];
    for (name, text) in ends_of_logs::read(&folders.1).await {
        entries.push(Entry::new(name, &text));
    }
    entries
}

fn features(resolved: &Resolved) -> String {
    let names = Features::SECTION.entries.iter().map(|entry| entry.name);
    names
        .map(|name| format!("{name} = {}  # {:?}\n", resolved.feature(name), stage(name)))
        .collect()
}

fn sandbox_abilities(layers: &[LayerStatus]) -> String {
    let line = |status: &LayerStatus| {
        let word = if status.usable { "usable" } else { "not usable" };
        format!("{}: {word}: {}\n", status.layer, status.detail)
    };
    layers.iter().map(line).collect()
}

/// The program and the machine. Of variables only the names: their values may be secrets.
fn system(environment: &Environment) -> String {
    let mut text = format!(
        "agentd {}\nsystem {} {}\n",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS,
        std::env::consts::ARCH
    );
    for (what, file, wanted) in [
        ("kernel", "/proc/sys/kernel/osrelease", ""),
        ("distribution", "/etc/os-release", "PRETTY_NAME="),
        ("memory", "/proc/meminfo", "MemTotal:"),
    ] {
        if let Some(value) = fact(Path::new(file), wanted) {
            let _ = writeln!(text, "{what} {value}");
        }
    }
    match std::thread::available_parallelism() {
        Ok(count) => _ = writeln!(text, "processors {count}"),
        Err(error) => _ = writeln!(text, "processors unknown: {error}"),
    }
    let is_ours = |name: &str| {
        let name = name.to_ascii_uppercase();
        let prefixes = ["AGENT", "OTEL_", "RUST_LOG", "LOG_FORMAT", "TRACEPARENT"];
        prefixes.iter().any(|prefix| name.starts_with(prefix)) || name.ends_with("_PROXY")
    };
    let names = environment.variables.iter().filter_map(|(name, _)| name.to_str());
    let mut names: Vec<&str> = names.filter(|name| is_ours(name)).collect();
    names.sort_unstable();
    let _ = writeln!(text, "variables that are set: {}", names.join(" "));
    text
}

/// The rest of the first line of a file of the system that begins with `wanted`.
fn fact(file: &Path, wanted: &str) -> Option<String> {
    use std::io::Read;
    let mut text = String::new();
    // tidy: open a file of the kernel, or of the administrator.
    std::fs::File::open(file).ok()?.take(MAX_FACT).read_to_string(&mut text).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(wanted))?;
    Some(line.trim().trim_matches('"').to_owned())
}
