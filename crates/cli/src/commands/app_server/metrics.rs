//! The page of metrics of a server: its own values, those of its listeners, and those of the process.

use std::time::{SystemTime, UNIX_EPOCH};

use server::Server;
use telemetry::{CONTENT_TYPE, Page, names};
use transport::{Auth, Load, MetricsPage};

/// The page, for the listeners of a server that starts now.
pub(super) fn page(server: Server, auth: Auth) -> MetricsPage {
    let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let render = move |load: &Load| {
        let mut page = server.metrics();
        page.set(names::PROCESS_START, started);
        add_process(&mut page);
        add_load(&mut page, load);
        page.render()
    };
    MetricsPage { auth, content_type: CONTENT_TYPE, render: Box::new(render) }
}

fn add_load(page: &mut Page, load: &Load) {
    for (stage, count) in [("handshake", load.handshakes), ("initialize", load.uninitialized)] {
        page.set_of(names::CONNECTIONS_PENDING, &[("stage", stage)], count as f64);
    }
    for (status, count) in &load.refused {
        let status = status.to_string();
        page.set_of(names::CONNECTIONS_REFUSED, &[("status", &status)], *count as f64);
    }
    page.set(names::INCOMING_MESSAGES, load.incoming.0 as f64);
    page.set(names::INCOMING_BYTES, load.incoming.1 as f64);
}

/// Adds what the kernel says about the process. Values that it does not say are left out.
#[cfg(target_os = "linux")]
fn add_process(page: &mut Page) {
    // tidy: open a file of the kernel about this process, which answers at once.
    let Ok(stat) = std::fs::read_to_string("/proc/self/stat") else { return };
    let Some(used) = used(&stat) else { return };
    page.set(names::PROCESS_MEMORY, used.pages as f64 * rustix::param::page_size() as f64);
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    page.set(names::PROCESS_CPU, used.ticks as f64 / ticks);
}

#[cfg(not(target_os = "linux"))]
fn add_process(_: &mut Page) {}

/// The usage of a process: processor time in clock ticks, and resident memory in pages.
#[cfg(target_os = "linux")]
#[derive(Debug, PartialEq, Eq)]
struct Used {
    ticks: u64,
    pages: u64,
}

/// Reads `/proc/PID/stat` (proc_pid_stat(5)). The second field is the program's name in parentheses, which
/// may itself have spaces and parentheses.
#[cfg(target_os = "linux")]
fn used(stat: &str) -> Option<Used> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    // The list begins with the third field; 14 and 15 are the times of user and system, 24 is the memory.
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    Some(Used { ticks: field(14)?.checked_add(field(15)?)?, pages: field(24)? })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_usage_is_found_behind_any_program_name() {
        let rest = "S 1 2 3 0 -1 4 5 6 7 8 120 34 9 10 20 0 5 0 777 88 4096 18446744073709551615";
        let expected = Some(Used { ticks: 154, pages: 4096 });
        for name in ["agentd", "a b", "x) R 1 (y", ""] {
            assert_eq!(used(&format!("42 ({name}) {rest}")), expected, "{name}");
        }
        for broken in ["", "42 agentd", "42 (a) S 1 2", "42 (a) S x x x x x x x x x x x x x"] {
            assert_eq!(used(broken), None, "{broken}");
        }
    }
}
