//! Bars and columns as inline SVG. Each has a text alternative with its numbers; colours are never
//! the only carrier of a meaning.

use maud::{Markup, html};

use super::text::{count, percent, short};

/// Percentage from which a limit counts as nearly used up.
const HIGH: u64 = 80;

/// The used part of a limit: a bar, its percentage, and a word when it is high. `what` is the text
/// alternative.
pub(super) fn bar(what: &str, used: u64, limit: u64) -> Markup {
    let percent = percent(used, limit);
    let (class, word) = match percent {
        0..HIGH => ("fine", None),
        HIGH..100 => ("high", Some("high")),
        _ => ("full", Some("used up")),
    };
    html! {
        div.meter {
            (draw(what, class, used, percent))
            span.percent { (percent.min(999)) "\u{a0}%" }
            @if let Some(word) = word { span.tag.(class) { (word) } }
        }
    }
}

/// The same for a soft limit, whose warning is shown elsewhere.
pub(super) fn soft_bar(what: &str, used: u64, limit: u64) -> Markup {
    let percent = percent(used, limit);
    let class = if percent < 100 { "fine" } else { "high" };
    html! {
        div.meter {
            (draw(what, class, used, percent))
            span.percent { (percent.min(999)) "\u{a0}%" }
        }
    }
}

/// A share of a whole, without a warning.
pub(super) fn share(what: &str, part: u64, whole: u64) -> Markup {
    draw(what, "fine", part, percent(part, whole.max(1)))
}

fn draw(what: &str, class: &str, part: u64, percent: u64) -> Markup {
    // Non-zero use is always visible.
    let width = if part == 0 { 0 } else { percent.clamp(1, 100) };
    html! {
        svg.bar.(class) role="img" aria-label=(what) viewBox="0 0 100 8" preserveAspectRatio="none" {
            rect.track width="100" height="8" {}
            rect.fill width=(width) height="8" {}
        }
    }
}

/// A column of two stacked parts.
pub(super) struct Column {
    /// The full label.
    pub(super) label: String,
    pub(super) lower: u64,
    pub(super) upper: u64,
}

/// A chart of columns.
pub(super) struct Columns<'a> {
    /// Unique within the page.
    pub(super) id: &'a str,
    /// The unit of the values.
    pub(super) unit: &'a str,
    /// Names of the parts.
    pub(super) parts: [&'a str; 2],
    /// Every `labelled`th column has its label below it.
    pub(super) labelled: usize,
    pub(super) columns: Vec<Column>,
}

/// Width of a column's cell, and height of the highest column, in units of the drawing.
const PLACE: u64 = 10;
const HEIGHT: u64 = 100;

impl Columns<'_> {
    /// The chart with its legend and scale.
    pub(super) fn draw(&self) -> Markup {
        let sum = |column: &Column| column.lower.saturating_add(column.upper);
        let most = round_up(self.columns.iter().map(sum).max().unwrap_or(0));
        let pattern = format!("{}-pattern", self.id);
        let fill = format!("url(#{pattern})");
        let width = PLACE * self.columns.len() as u64;
        html! {
            div.columns {
                ul.legend aria-hidden="true" {
                    li.lower { (self.parts[0]) }
                    li.upper { (self.parts[1]) }
                }
                div.scale aria-hidden="true" {
                    span { (short(most)) } span { (short(most / 2)) } span { "0" }
                }
                svg role="img" aria-label=(self.words()) viewBox={ "0 0 " (width) " " (HEIGHT) }
                    preserveAspectRatio="none" {
                    defs {
                        pattern id=(pattern) width="3" height="3" patternUnits="userSpaceOnUse" {
                            rect.upper width="3" height="3" {}
                            path.hatch d="M0 3L3 0" {}
                        }
                    }
                    @for y in [0, HEIGHT / 2] { path.grid d={ "M0 " (y) "H" (width) } {} }
                    @for (at, column) in self.columns.iter().enumerate() {
                        (draw_column(column, at as u64, most, &fill))
                    }
                    path.axis d={ "M0 " (HEIGHT) "H" (width) } {}
                }
                div.labels aria-hidden="true" {
                    @for (at, column) in self.columns.iter().enumerate() {
                        span { @if at % self.labelled.max(1) == 0 { span { (column.label) } } }
                    }
                }
            }
        }
    }

    /// The text alternative: one sentence.
    fn words(&self) -> String {
        let sum = |column: &Column| column.lower.saturating_add(column.upper);
        let all = self.columns.iter().map(sum).fold(0, u64::saturating_add);
        let (Some(first), Some(last)) = (self.columns.first(), self.columns.last()) else {
            return format!("No {}", self.unit);
        };
        let most = self.columns.iter().max_by_key(|column| sum(column)).unwrap_or(last);
        let (from, to) = (&first.label, &last.label);
        let all = format!("{} {} from {from} to {to}", count(all), self.unit);
        format!(
            "{all}; most, {}, at {}. The table below has all numbers.",
            count(sum(most)),
            most.label
        )
    }
}

fn draw_column(column: &Column, at: u64, most: u64, fill: &str) -> Markup {
    // Tenths of a unit are precise enough and need no fractions.
    let height = |value: u64| percent(value.saturating_mul(10), most.max(1)).min(HEIGHT * 10);
    let (lower, upper) = (height(column.lower), height(column.upper));
    let shown = |tenths: u64| format!("{}.{}", tenths / 10, tenths % 10);
    let (left, width) = (at * PLACE + 1, PLACE - 2);
    let top = (HEIGHT * 10).saturating_sub(lower);
    html! {
        g {
            title { (column.label) ": " (count(column.lower.saturating_add(column.upper))) }
            rect.hit x=(at * PLACE) width=(PLACE) height=(HEIGHT) {}
            rect.lower x=(left) y=(shown(top)) width=(width) height=(shown(lower)) {}
            rect x=(left) y=(shown(top.saturating_sub(upper))) width=(width) height=(shown(upper))
                fill=(fill) {}
        }
    }
}

/// The next number of the form 1, 2, 3, 4, 6 or 8 times a power of ten; at least 2.
fn round_up(number: u64) -> u64 {
    let mut step = 1_u64;
    loop {
        for factor in [1, 2, 3, 4, 6, 8] {
            let round = step.saturating_mul(factor);
            if round >= number || round == u64::MAX {
                return round.max(2);
            }
        }
        step = step.saturating_mul(10);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn scales() {
        let check = |number, expected| assert_eq!(round_up(number), expected);
        check(0, 2);
        check(5, 6);
        check(1_000, 1_000);
        check(1_001, 2_000);
        check(u64::MAX, u64::MAX);
    }

    #[test]
    fn a_bar_has_a_text_alternative() {
        let check = |used, limit, expected: &[&str]| {
            let drawn = bar("a <b>", used, limit).into_string();
            assert!(drawn.contains("aria-label=\"a &lt;b&gt;\""), "{drawn}");
            for expected in expected {
                assert!(drawn.contains(expected), "{expected} in {drawn}");
            }
        };
        check(0, 10, &["width=\"0\"", "0\u{a0}%"]);
        check(1, 1_000, &["width=\"1\"", "0\u{a0}%"]);
        check(8, 10, &["width=\"80\"", "high"]);
        check(30, 10, &["width=\"100\"", "300\u{a0}%", "used up"]);
        check(u64::MAX, 0, &["used up"]);
    }

    proptest! {
        #[test]
        fn no_numbers_panic(values in proptest::collection::vec((any::<u64>(), any::<u64>()), 0..40)) {
            let column = |(lower, upper)| Column { label: String::new(), lower, upper };
            let columns = values.into_iter().map(column).collect();
            let chart = Columns { id: "x", unit: "tokens", parts: ["a", "b"], labelled: 6, columns };
            let drawn = chart.draw().into_string();
            prop_assert!(!drawn.contains("NaN"));
        }
    }
}
