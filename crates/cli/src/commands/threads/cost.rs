//! `agentd threads cost`: what the responses of models used and cost, by day, model and project, from
//! the rows that the store keeps for each response. Sums are exact.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, bail};
use clap::ValueEnum;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde_json::{Map, Value, json};
use store::{Store, UsageQuery, UsageRow};

use crate::commands::output;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The dimensions of the report's rows
    #[arg(long, value_delimiter = ',', default_values = ["day", "model", "project"], value_name = "WHAT")]
    by: Vec<Dimension>,
    /// First day, as YYYY-MM-DD
    #[arg(long, value_name = "DATE")]
    since: Option<Date>,
    /// Last day, as YYYY-MM-DD
    #[arg(long, value_name = "DATE")]
    until: Option<Date>,
    /// Write CSV
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

/// Something to group by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Dimension {
    /// The day in the user's time zone.
    Day,
    /// The model, with its provider.
    Model,
    /// The folder of the thread.
    Project,
}

/// Rows of the store that are read at a time.
const PAGE: u32 = 10_000;

/// The sum of a group's rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Sum {
    requests: i128,
    /// Threads from before costs were recorded: each is one row.
    older_threads: i128,
    input: i128,
    cached_input: i128,
    cache_write: i128,
    output: i128,
    reasoning_output: i128,
    /// In picodollars, of the rows with a known price.
    cost: i128,
    /// Rows without.
    unpriced: i128,
}

/// Groups, by the values of the dimensions.
type Groups = BTreeMap<Vec<String>, Sum>;

/// Writes the report to standard output.
pub(super) async fn report(
    store: &Store,
    arguments: &Arguments,
    zone: &TimeZone,
) -> anyhow::Result<()> {
    let (from_ms, to_ms) = period(arguments.since, arguments.until, zone)?;
    let mut by: Vec<Dimension> = Vec::new();
    for dimension in &arguments.by {
        if !by.contains(dimension) {
            by.push(*dimension);
        }
    }
    let mut groups = Groups::new();
    let mut after = 0;
    loop {
        let rows = store.usage(UsageQuery { after, from_ms, to_ms, limit: PAGE }).await?;
        let Some(last) = rows.last() else { break };
        after = last.key;
        for row in &rows {
            groups.entry(group(&by, row, zone)).or_default().add(row);
        }
    }
    let text = match (arguments.csv, arguments.json) {
        (true, _) => csv(&by, &groups)?,
        (_, true) => format!("{}\n", json_report(&by, &groups)),
        _ => table(&by, &groups),
    };
    let mut out = output::stdout();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// From the start of the first day to the end of the last one, in Unix milliseconds.
fn period(since: Option<Date>, until: Option<Date>, zone: &TimeZone) -> anyhow::Result<(i64, i64)> {
    if let (Some(since), Some(until)) = (since, until)
        && since > until
    {
        bail!("--since {since} is after --until {until}");
    }
    let start = |day: Date| -> anyhow::Result<i64> {
        let start = day.to_zoned(zone.clone()).with_context(|| format!("{day} is out of range"))?;
        Ok(start.timestamp().as_millisecond())
    };
    let from_ms = since.map(start).transpose()?.unwrap_or(i64::MIN);
    let next = |day: Date| day.tomorrow().with_context(|| format!("{day} is out of range"));
    let to_ms = until.map(|day| start(next(day)?)).transpose()?.unwrap_or(i64::MAX);
    Ok((from_ms, to_ms))
}

fn group(by: &[Dimension], row: &UsageRow, zone: &TimeZone) -> Vec<String> {
    let mut values = Vec::with_capacity(by.len() + 1);
    for dimension in by {
        match dimension {
            Dimension::Day => values.push(day(row.record.at_ms, zone)),
            Dimension::Model => {
                values.extend([row.record.provider.clone(), row.record.model.clone()]);
            }
            Dimension::Project => values.push(row.project.clone()),
        }
    }
    values
}

fn day(at_ms: i64, zone: &TimeZone) -> String {
    let time = Timestamp::from_millisecond(at_ms);
    time.map_or_else(
        |_| "unknown".to_owned(),
        |time| time.to_zoned(zone.clone()).date().to_string(),
    )
}

impl Sum {
    fn add(&mut self, row: &UsageRow) {
        let record = &row.record;
        // Only a response has this count.
        match record.cache_write {
            Some(_) => self.requests += 1,
            None => self.older_threads += 1,
        }
        let tokens = |tokens: Option<i64>| i128::from(tokens.unwrap_or(0));
        self.input += tokens(record.input);
        self.cached_input += tokens(record.cached_input);
        self.cache_write += tokens(record.cache_write);
        self.output += tokens(record.output);
        self.reasoning_output += tokens(record.reasoning_output);
        match record.cost {
            Some(cost) => self.cost += i128::from(cost),
            None => self.unpriced += 1,
        }
    }

    fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.older_threads += other.older_threads;
        self.input += other.input;
        self.cached_input += other.cached_input;
        self.cache_write += other.cache_write;
        self.output += other.output;
        self.reasoning_output += other.reasoning_output;
        self.cost += other.cost;
        self.unpriced += other.unpriced;
    }

    /// The cost, when all of it is known.
    fn exact_cost(&self) -> Option<String> {
        (self.unpriced == 0).then(|| model::dollars(self.cost))
    }

    fn numbers(&self) -> [(&'static str, i128); 7] {
        [
            ("requests", self.requests),
            ("olderThreads", self.older_threads),
            ("inputTokens", self.input),
            ("cachedInputTokens", self.cached_input),
            ("cacheWriteTokens", self.cache_write),
            ("outputTokens", self.output),
            ("reasoningOutputTokens", self.reasoning_output),
        ]
    }

    /// For a person: what is known of the cost.
    fn shown_cost(&self) -> String {
        match (self.unpriced, self.requests + self.older_threads - self.unpriced) {
            (0, _) => model::dollars(self.cost),
            (_, 0) => "unknown".to_owned(),
            _ => format!("{} + unknown", model::dollars(self.cost)),
        }
    }
}

fn total(groups: &Groups) -> Sum {
    let mut total = Sum::default();
    groups.values().for_each(|sum| total.merge(sum));
    total
}

fn headings(by: &[Dimension]) -> Vec<&'static str> {
    let names = by.iter().flat_map(|dimension| match dimension {
        Dimension::Day => &["day"][..],
        Dimension::Model => &["provider", "model"],
        Dimension::Project => &["project"],
    });
    names.copied().collect()
}

fn csv(by: &[Dimension], groups: &Groups) -> anyhow::Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let numbers = Sum::default().numbers().map(|(name, _)| name);
    let last = ["cost", "knownCost", "unpricedRows"];
    writer.write_record(headings(by).into_iter().chain(numbers).chain(last))?;
    for (values, sum) in groups {
        let numbers = sum.numbers().map(|(_, number)| number.to_string());
        let costs = [
            sum.exact_cost().unwrap_or_default(),
            model::dollars(sum.cost),
            sum.unpriced.to_string(),
        ];
        let values = values.iter().map(|value| spreadsheet_text(value));
        writer.write_record(values.chain(numbers).chain(costs))?;
    }
    Ok(String::from_utf8(writer.into_inner()?)?)
}

fn json_report(by: &[Dimension], groups: &Groups) -> Value {
    let headings = headings(by);
    let rows = groups.iter().map(|(values, sum)| {
        let values = headings.iter().zip(values);
        let values = values.map(|(name, value)| ((*name).to_owned(), json!(value)));
        Value::Object(values.chain(json_sum(sum)).collect())
    });
    let rows: Vec<Value> = rows.collect();
    let total: Map<String, Value> = json_sum(&total(groups)).collect();
    json!({ "currency": "USD", "rows": rows, "total": total })
}

fn json_sum(sum: &Sum) -> impl Iterator<Item = (String, Value)> {
    // A count beyond a JSON integer is text rather than a rounded number.
    let number =
        |number: i128| i64::try_from(number).map_or(json!(number.to_string()), Value::from);
    let numbers = sum.numbers().map(|(name, count)| (name.to_owned(), number(count)));
    let costs = [
        ("cost".to_owned(), json!(sum.exact_cost())),
        ("knownCost".to_owned(), json!(model::dollars(sum.cost))),
        ("unpricedRows".to_owned(), number(sum.unpriced)),
    ];
    numbers.into_iter().chain(costs)
}

fn table(by: &[Dimension], groups: &Groups) -> String {
    let headings = headings(by);
    let texts = headings.len();
    let mut lines: Vec<Vec<String>> = Vec::with_capacity(groups.len() + 2);
    let numbers = ["requests", "input", "cached", "output", "cost (USD)"];
    lines.push(headings.iter().chain(&numbers).map(|name| (*name).to_owned()).collect());
    let cells = |sum: &Sum| {
        let numbers = [sum.requests, sum.input, sum.cached_input, sum.output];
        numbers.map(|number| number.to_string()).into_iter().chain([sum.shown_cost()])
    };
    for (values, sum) in groups {
        lines.push(values.iter().map(|value| printable(value)).chain(cells(sum)).collect());
    }
    let mut last: Vec<String> = vec![String::new(); texts];
    if let Some(first) = last.first_mut() {
        *first = "total".to_owned();
    }
    lines.push(last.into_iter().chain(cells(&total(groups))).collect());
    let width = |column: usize| {
        lines.iter().map(|line| line[column].chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..texts + numbers.len()).map(width).collect();
    let mut text = String::new();
    for line in &lines {
        let cells = line.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
            if column < texts { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        let cells: Vec<String> = cells.collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// A text of the store on one line, without hidden characters.
fn printable(text: &str) -> String {
    visible::path(Path::new(text))
}

/// A text of the store that no spreadsheet takes for a formula: providers and clients choose the names
/// of models.
fn spreadsheet_text(text: &str) -> String {
    let text = printable(text);
    match text.starts_with(['=', '+', '-', '@']) {
        true => format!("'{text}"),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use store::UsageRecord;

    use super::*;

    fn row(at_ms: i64, model: &str, project: &str, cost: Option<i64>) -> UsageRow {
        let record = UsageRecord {
            at_ms,
            provider: "p".to_owned(),
            model: model.to_owned(),
            input: Some(100),
            cached_input: Some(40),
            cache_write: Some(0),
            output: Some(10),
            cost,
            ..UsageRecord::default()
        };
        UsageRow { key: 1, thread: None, project: project.to_owned(), record }
    }

    fn groups(by: &[Dimension], rows: &[UsageRow]) -> Groups {
        let mut groups = Groups::new();
        for row in rows {
            groups.entry(group(by, row, &TimeZone::UTC)).or_default().add(row);
        }
        groups
    }

    const DAY: i64 = 24 * 60 * 60 * 1000;
    const BY_MODEL: &[Dimension] = &[Dimension::Model];

    fn sample() -> Vec<UsageRow> {
        vec![
            row(0, "a", "/w", Some(125_000_000)),
            row(DAY, "a", "/w\u{1b}[31m", Some(i64::MAX)),
            row(DAY, "b", "/w", None),
        ]
    }

    #[test]
    fn a_table_shows_what_is_known() {
        let groups = groups(BY_MODEL, &sample());
        let expected = "\
provider  model  requests  input  cached  output                 cost (USD)
p         a             2    200      80      20     9223372.036979775807
p         b             1    100      40      10                    unknown
total                   3    300     120      30  9223372.036979775807 + unknown
";
        let squeeze = |text: &str| -> Vec<Vec<String>> {
            let words = |line: &str| line.split_whitespace().map(str::to_owned).collect();
            text.lines().map(words).collect()
        };
        assert_eq!(squeeze(&table(BY_MODEL, &groups)), squeeze(expected));
    }

    #[test]
    fn csv_and_json_have_every_number() {
        let by = [Dimension::Day, Dimension::Project];
        let groups = groups(&by, &sample());
        let text = csv(&by, &groups).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            "day,project,requests,olderThreads,inputTokens,cachedInputTokens,cacheWriteTokens,\
             outputTokens,reasoningOutputTokens,cost,knownCost,unpricedRows"
        );
        assert_eq!(lines[1], "1970-01-01,/w,1,0,100,40,0,10,0,0.000125,0.000125,0");
        assert_eq!(lines[2], "1970-01-02,/w,1,0,100,40,0,10,0,,0,1");
        let report = json_report(&by, &groups);
        assert_eq!(report["rows"][0]["cost"], "0.000125");
        assert_eq!(report["rows"][1]["cost"], Value::Null);
        assert_eq!(
            (&report["total"]["cost"], &report["total"]["unpricedRows"]),
            (&Value::Null, &json!(1))
        );
        assert_eq!(report["total"]["requests"], 3);
        assert!(!table(&by, &groups).contains('\u{1b}'));
    }

    #[test]
    fn names_are_neither_hidden_nor_formulas() {
        let rows = ["=cmd|'/C calc'!A0", "+1", "-1", "@SUM(A1)", "\t=1", "a\u{202e}b\n\u{1b}[31m"];
        let rows: Vec<UsageRow> = rows.iter().map(|name| row(0, name, "/w", None)).collect();
        let groups = groups(BY_MODEL, &rows);
        let text = csv(BY_MODEL, &groups).unwrap();
        let names = text.lines().skip(1).map(|line| line.split(',').nth(1).unwrap());
        let expected = [
            r"\u{9}=1",
            "'+1",
            "'-1",
            "'=cmd|'/C calc'!A0",
            "'@SUM(A1)",
            r"a\u{202e}b\u{a}\u{1b}[31m",
        ];
        assert_eq!(names.collect::<Vec<_>>(), expected);
        let table = table(BY_MODEL, &groups);
        assert_eq!(table.lines().count(), 2 + rows.len());
        assert!(!table.contains(['\u{202e}', '\u{1b}', '\t']), "{table}");
        let json = json_report(BY_MODEL, &groups);
        assert_eq!(json["rows"][0]["model"], "\t=1", "a program gets the name as it is");
    }

    #[test]
    fn nothing_costs_nothing() {
        let groups = Groups::new();
        assert_eq!(json_report(BY_MODEL, &groups)["total"]["cost"], "0");
        assert_eq!(table(BY_MODEL, &groups).lines().count(), 2);
    }

    #[test]
    fn a_period_has_whole_days_of_the_zone() {
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        let day: Date = "1970-01-02".parse().unwrap();
        let hours = 60 * 60 * 1000;
        assert_eq!(period(Some(day), Some(day), &zone).unwrap(), (22 * hours, 46 * hours));
        assert_eq!(period(None, None, &zone).unwrap(), (i64::MIN, i64::MAX));
        assert!(period(Some(day), Some("1970-01-01".parse().unwrap()), &zone).is_err());
        assert!(period(None, Some(Date::MAX), &zone).is_err());
        assert_eq!(super::day(23 * hours, &zone), "1970-01-02");
        assert_eq!(super::day(i64::MIN, &zone), "unknown");
    }
}
