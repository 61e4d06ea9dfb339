//! The three forms of pictures: steps one below the other, boxes within each other, and groups of names.

use super::canvas::{Canvas, Kind, LINE, width_of, wrapped};

const WIDTH: f64 = 760.0;
const GAP: f64 = 12.0;
/// Between the edge of a box and its text.
const INNER: f64 = 12.0;
/// From a baseline to the upper edge of its line.
const ASCENT: f64 = 13.0;

/// A box of a [`flow`].
pub(super) struct Step {
    title: String,
    text: String,
    /// Words at the arrow that leads to it.
    over: Option<String>,
    /// A way out to the side: its title and its text.
    aside: Option<(String, String)>,
}

impl Step {
    pub(super) fn new(title: &str, text: &str) -> Self {
        Self { title: title.to_owned(), text: text.to_owned(), over: None, aside: None }
    }

    pub(super) fn over(self, words: &str) -> Self {
        Self { over: Some(words.to_owned()), ..self }
    }

    pub(super) fn aside(self, title: &str, text: &str) -> Self {
        Self { aside: Some((title.to_owned(), text.to_owned())), ..self }
    }
}

/// Names with a heading.
pub(super) struct Group {
    pub(super) title: String,
    pub(super) members: Vec<String>,
}

/// Steps one below the other, with what leads out of them to the right.
pub(super) fn flow(title: &str, steps: &[Step]) -> Canvas {
    const MAIN: f64 = 400.0;
    const ARROW: f64 = 56.0;
    let has_asides = steps.iter().any(|step| step.aside.is_some());
    let main = if has_asides { MAIN } else { WIDTH };
    let mut canvas = Canvas::new(title, WIDTH);
    // The lower edges of the box before and of all that is next to it.
    let (mut edge, mut bottom) = (0.0_f64, 0.0_f64);
    for (index, step) in steps.iter().enumerate() {
        let mut y = bottom;
        if index > 0 {
            y = (edge + if step.over.is_some() { 30.0 } else { 20.0 }).max(bottom + GAP);
            canvas.arrow((main / 2.0, edge), (main / 2.0, y));
            if let Some(words) = &step.over {
                canvas.text("text", main / 2.0 + GAP, (edge + y) / 2.0 + 4.0, words);
            }
        }
        let height = card(&mut canvas, Kind::Box, (0.0, y, main), &step.title, &step.text);
        (edge, bottom) = (y + height, y + height);
        if let Some((title, text)) = &step.aside {
            let x = main + ARROW;
            let own = card(&mut canvas, Kind::Aside, (x, y, WIDTH - x), title, text);
            let middle = y + height.min(own) / 2.0;
            canvas.arrow((main, middle), (x, middle));
            bottom = bottom.max(y + own);
        }
    }
    canvas
}

/// Boxes within each other, with names in the innermost.
pub(super) fn nested(title: &str, layers: &[(&str, &str)], names: &[String]) -> Canvas {
    let mut canvas = Canvas::new(title, WIDTH);
    let depth = layers.len() as f64;
    let inner = WIDTH - 2.0 * GAP * depth;
    let mut tops = Vec::new();
    let mut y = 0.0;
    for (index, (name, text)) in layers.iter().enumerate() {
        let x = GAP * index as f64;
        tops.push((x, y));
        canvas.text("title", x + INNER, y + INNER + ASCENT, name);
        y += INNER + LINE;
        for line in wrapped("text", text, WIDTH - 2.0 * x - 2.0 * INNER) {
            canvas.text("text", x + INNER, y + ASCENT, &line);
            y += LINE;
        }
        y += GAP / 2.0;
    }
    y = chips(&mut canvas, (GAP * depth, y + GAP / 2.0, inner), names);
    for (x, top) in tops.iter().rev() {
        y += GAP;
        canvas.rectangle(Kind::Frame, *x, *top, WIDTH - 2.0 * x, y - top);
    }
    canvas
}

/// Groups of names, one below the other.
pub(super) fn groups(title: &str, groups: &[Group]) -> Canvas {
    let mut canvas = Canvas::new(title, WIDTH);
    let mut y = 0.0;
    for group in groups {
        let top = y;
        canvas.text("title", INNER, y + INNER + ASCENT, &group.title);
        y = chips(
            &mut canvas,
            (INNER, y + INNER + LINE + GAP / 2.0, WIDTH - 2.0 * INNER),
            &group.members,
        );
        y += INNER;
        canvas.rectangle(Kind::Frame, 0.0, top, WIDTH, y - top);
        y += GAP;
    }
    canvas
}

/// A box with a title and text, at `(x, y, width)`. Returns its height.
fn card(canvas: &mut Canvas, kind: Kind, place: (f64, f64, f64), title: &str, text: &str) -> f64 {
    let (x, y, width) = place;
    let titles = wrapped("title", title, width - 2.0 * INNER);
    let lines = wrapped("text", text, width - 2.0 * INNER);
    let height = 2.0 * INNER - 2.0 + LINE * (titles.len() + lines.len()) as f64;
    canvas.rectangle(kind, x, y, width, height);
    let mut baseline = y + INNER + ASCENT - 2.0;
    let all =
        titles.iter().map(|line| ("title", line)).chain(lines.iter().map(|line| ("text", line)));
    for (class, line) in all {
        canvas.text(class, x + INNER, baseline, line);
        baseline += LINE;
    }
    height
}

/// Names in small boxes, in rows from `(x, y)` within a width. Returns the lower edge.
fn chips(canvas: &mut Canvas, place: (f64, f64, f64), names: &[String]) -> f64 {
    const HEIGHT: f64 = 26.0;
    const SPACE: f64 = 8.0;
    let (left, mut y, width) = place;
    let mut x = left;
    for name in names {
        let own = width_of("text", name) + 2.0 * SPACE;
        if x > left && x + own > left + width {
            x = left;
            y += HEIGHT + SPACE;
        }
        canvas.rectangle(Kind::Box, x, y, own, HEIGHT);
        canvas.text("text middle", x + own / 2.0, y + 17.5, name);
        x += own + SPACE;
    }
    y + HEIGHT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leads_out_of_a_step_keeps_the_next_one_below() {
        let long = "word ".repeat(40);
        let svg =
            flow("t", &[Step::new("a", "b").aside("c", &long), Step::new("d", "e").over("f")])
                .svg();
        let tops: Vec<f64> = svg
            .lines()
            .filter(|line| line.starts_with("<rect class=\"box\""))
            .filter_map(|line| line.split(" y=\"").nth(1)?.split('"').next()?.parse().ok())
            .collect();
        assert_eq!(tops.len(), 2);
        assert!(tops[1] > 150.0, "{tops:?}");
        assert!(svg.contains(">f</text>"));
    }

    #[test]
    fn every_name_has_a_box_within_the_picture() {
        let names: Vec<String> = (0..60).map(|n| format!("name-{n}")).collect();
        let svg = nested("t", &[("a", "b"), ("c", "d")], &names).svg();
        assert_eq!(svg.matches("class=\"box\"").count(), names.len());
        for line in svg.lines().filter(|line| line.starts_with("<rect class=\"box\"")) {
            let number = |name: &str| -> f64 {
                line.split(&format!(" {name}=\""))
                    .nth(1)
                    .unwrap()
                    .split('"')
                    .next()
                    .unwrap()
                    .parse()
                    .unwrap()
            };
            assert!(number("x") + number("width") <= WIDTH, "{line}");
        }
    }
}
