//! Formats figures as a table, and the table as the page in `docs/`.

use std::fmt::Write as _;
use std::time::Duration;

/// One measured value, in the unit of its goal.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Figure {
    pub(crate) what: &'static str,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    /// The largest acceptable value; `None` where the design sets none.
    pub(crate) goal: Option<f64>,
}

/// Figures of one server, in the order of the scenarios.
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) figures: Vec<Figure>,
}

/// Returns a Markdown table: a row for each figure, our column first, then each peer's with its
/// ratio.
pub(crate) fn table(columns: &[Column]) -> String {
    let Some((ours, peers)) = columns.split_first() else { return String::new() };
    let mut table = format!("| what | goal | {} |", ours.name);
    for peer in peers {
        let _ = write!(table, " {} | {} / {} |", peer.name, ours.name, peer.name);
    }
    let _ = write!(table, "\n|---|---|---|{}", "---|---|".repeat(peers.len()));
    for figure in &ours.figures {
        let goal = figure
            .goal
            .map_or("–".to_owned(), |goal| format!("≤ {} {}", short(goal), figure.unit));
        let missed = figure.goal.is_some_and(|goal| figure.value > goal);
        let mark = if missed { " (missed)" } else { "" };
        let _ = write!(
            table,
            "\n| {} | {goal} | {} {}{mark} |",
            figure.what,
            short(figure.value),
            figure.unit
        );
        for peer in peers {
            match peer.figures.iter().find(|other| other.what == figure.what) {
                Some(other) => {
                    let ratio = short(figure.value / other.value);
                    let _ = write!(table, " {} {} | {ratio} |", short(other.value), other.unit);
                }
                None => table.push_str(" – | – |"),
            }
        }
    }
    table.push('\n');
    table
}

/// Returns the page around the table.
pub(crate) fn page(table: &str, machine: &str, command: &str) -> String {
    format!(
        "# Benchmarks\n\n\
         Medians, measured by a client over stdio, or over WebSocket in the rows that mention clients. \
         A scripted model on the same machine responds immediately; its time is part of every turn. \
         Memory and CPU are those of the server and its child processes. The load generator runs on \
         the same machine and uses about one core.\n\n\
         Machine: {machine}.\n\n\
         Created by `{command}`.\n\n\
         {table}"
    )
}

/// Returns the median; of an even number of values, the mean of the two in the middle.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => f64::midpoint(values[n / 2 - 1], values[n / 2]),
    }
}

pub(crate) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

pub(crate) fn megabytes(bytes: u64) -> f64 {
    // Sizes of processes and folders are far below the 2^52 that a float holds exactly.
    bytes as f64 / 1e6
}

/// Formats a value with about three significant digits.
pub(crate) fn short(value: f64) -> String {
    match value.abs() {
        v if !v.is_finite() => "–".to_owned(),
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 || v == v.trunc() => format!("{value:.1}").replace(".0", ""),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_compare_with_goal_and_peer() {
        let figure = |what, value| Figure { what, value, unit: "ms", goal: Some(5.0) };
        let free = Figure { what: "c", value: 0.25, unit: "s", goal: None };
        let ours = Column {
            name: "agentd".into(),
            figures: vec![figure("a", 2.5), figure("b", 6.0), free],
        };
        let peer = Column { name: "x".into(), figures: vec![figure("a", 100.0)] };
        assert_eq!(
            table(&[ours, peer]),
            "| what | goal | agentd | x | agentd / x |\n\
             |---|---|---|---|---|\n\
             | a | ≤ 5 ms | 2.50 ms | 100 ms | 0.03 |\n\
             | b | ≤ 5 ms | 6 ms (missed) | – | – |\n\
             | c | – | 0.25 s | – | – |\n"
        );
    }

    #[test]
    fn the_median_is_the_middle() {
        for (values, expected) in
            [(vec![3.0, 1.0, 2.0], 2.0), (vec![4.0, 1.0], 2.5), (vec![7.0], 7.0)]
        {
            assert!((median(values) - expected).abs() < 1e-9);
        }
        assert!(median(vec![]).is_nan());
    }

    #[test]
    fn numbers_are_short() {
        for (value, expected) in [
            (123.4, "123"),
            (12.34, "12.3"),
            (12.0, "12"),
            (1.234, "1.23"),
            (3.0, "3"),
            (0.0, "0"),
            (f64::NAN, "–"),
        ] {
            assert_eq!(short(value), expected);
        }
    }
}
