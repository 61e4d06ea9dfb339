//! The report of the gateway's benchmark: a table with a row for each figure and a column for each
//! contestant, and the page around it.

use std::fmt::Write as _;

use super::contestant::ContestantName;
use crate::bench::report::short;

/// The goal of the gateway's own figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Goal {
    None,
    AtMost(f64),
    AtLeast(f64),
}

/// One figure of every contestant that has it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) what: String,
    pub(crate) unit: &'static str,
    pub(crate) goal: Goal,
    pub(crate) cells: Vec<(ContestantName, f64)>,
}

/// Results of the scenarios.
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) rows: Vec<Row>,
    /// Sentences below the table.
    pub(crate) notes: Vec<String>,
}

impl Row {
    pub(crate) fn new(
        what: impl Into<String>,
        unit: &'static str,
        cells: Vec<(ContestantName, f64)>,
    ) -> Row {
        Row { what: what.into(), unit, goal: Goal::None, cells }
    }

    pub(crate) fn goal(self, goal: Goal) -> Row {
        Row { goal, ..self }
    }
}

impl Goal {
    fn shown(self, unit: &str) -> String {
        match self {
            Goal::None => "–".to_owned(),
            Goal::AtMost(most) => format!("≤ {} {unit}", short(most)),
            Goal::AtLeast(least) => format!("≥ {} {unit}", short(least)),
        }
    }

    /// Returns whether the goal is missed; a value that cannot be compared misses it.
    fn is_missed(self, value: f64) -> bool {
        match self {
            Goal::None => false,
            Goal::AtMost(most) => value.is_nan() || value > most,
            Goal::AtLeast(least) => value.is_nan() || value < least,
        }
    }
}

/// Returns a Markdown table with a column for each contestant that has a figure.
pub(crate) fn table(rows: &[Row]) -> String {
    let has =
        |who: &ContestantName| rows.iter().any(|row| row.cells.iter().any(|(of, _)| of == who));
    let columns: Vec<ContestantName> = ContestantName::ALL.into_iter().filter(has).collect();
    let mut table = "| what | goal |".to_owned();
    for who in &columns {
        let _ = write!(table, " {} |", who.name());
    }
    let _ = write!(table, "\n|---|---|{}", "---|".repeat(columns.len()));
    for row in rows {
        let _ = write!(table, "\n| {} | {} |", row.what, row.goal.shown(row.unit).trim());
        for who in &columns {
            let Some((_, value)) = row.cells.iter().find(|(of, _)| of == who) else {
                table.push_str(" – |");
                continue;
            };
            let missed = *who == ContestantName::Gateway && row.goal.is_missed(*value);
            let mark = if missed { " (missed)" } else { "" };
            let shown = format!("{} {}", short(*value), row.unit);
            let _ = write!(table, " {}{mark} |", shown.trim());
        }
    }
    table.push('\n');
    table
}

/// Returns the page around the table.
pub(crate) fn page(report: &Report, machine: &str, command: &str) -> String {
    let mut page = format!(
        "# Gateway benchmarks\n\n\
         All contestants are measured in rotation, in several rounds of one run; the figures are medians over the \
         turns. *agentd* is the gateway with keys, limits of every dimension and hard spend \
         limits; *limits off* is the same with `[limits] url = \"off:\"`; *direct* is the \
         upstream without a proxy. nginx and LiteLLM are plain proxies without keys, limits or \
         spend, each with one process. All of them send the same request, a chat with a response \
         of 600 bytes, to the same upstream; the upstream and the load generator are part of \
         `tools`. A response other than a success ends the run without a page.\n\n\
         Machine: {machine}.\n\n\
         Created by `{command}`.\n\n\
         {}",
        table(&report.rows)
    );
    for note in &report.notes {
        let _ = write!(page, "\n{note}\n");
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_goals_and_only_measured_columns() {
        let rows = [
            Row::new(
                "rate",
                "",
                vec![(ContestantName::Gateway, 11_000.0), (ContestantName::Nginx, 20_000.0)],
            )
            .goal(Goal::AtLeast(12_000.0)),
            Row::new("added", "µs", vec![(ContestantName::Gateway, 42.0)]).goal(Goal::AtMost(60.0)),
            Row::new("lost", "%", vec![(ContestantName::Gateway, f64::NAN)])
                .goal(Goal::AtMost(10.0)),
        ];
        assert_eq!(
            table(&rows),
            "| what | goal | agentd | nginx |\n\
             |---|---|---|---|\n\
             | rate | ≥ 12000 | 11000 (missed) | 20000 |\n\
             | added | ≤ 60 µs | 42 µs | – |\n\
             | lost | ≤ 10 % | – % (missed) | – |\n"
        );
    }
}
