//! The screen of a terminal with its styles, from text with escape sequences, and screens as a moving SVG.

use std::fmt::Write as _;

/// Size of a character cell and of the margin, in the picture's units.
const CELL: (f64, f64) = (8.4, 18.0);
const MARGIN: f64 = 16.0;
/// Seconds that each screen is shown.
const SECONDS: usize = 5;
const GROUND: &str = "#11151c";
const TEXT: &str = "#d7dbe2";
/// The eight colours of a terminal's palette, and the bright ones.
const PALETTE: [&str; 16] = [
    "#3b4252", "#f47067", "#6bc46d", "#daaa3f", "#6cb6ff", "#dcbdfb", "#56d4dd", "#c5cbd3",
    "#768390", "#ff938a", "#8ddb8c", "#eac55f", "#96d0ff", "#f0d9ff", "#76e3ea", "#ffffff",
];
const DIM: &str = "#8a919e";

/// The appearance of text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Style {
    bold: bool,
    dim: bool,
    italic: bool,
    underline: bool,
    reverse: bool,
    text: Option<String>,
    ground: Option<String>,
}

/// Text of one style.
#[derive(Debug, PartialEq, Eq)]
struct Run {
    column: usize,
    text: String,
    style: Style,
}

/// The rows of a screen.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Screen {
    rows: Vec<Vec<Run>>,
}

impl Screen {
    /// A style lasts until it is changed, over the ends of lines.
    pub(super) fn parse(text: &str) -> Self {
        let mut style = Style::default();
        let rows = text.lines().map(|line| row(line, &mut style)).collect();
        Self { rows }
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for row in &self.rows {
            row.iter().for_each(|run| text.push_str(&run.text));
            text.push('\n');
        }
        text
    }
}

fn row(line: &str, style: &mut Style) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut column = 0;
    for (number, piece) in line.split('\u{1b}').enumerate() {
        let text = if number == 0 { piece } else { after_sequence(piece, style) };
        if !text.is_empty() {
            runs.push(Run { column, text: text.to_owned(), style: style.clone() });
            column += text.chars().count();
        }
    }
    runs
}

/// Applies the sequence at the beginning of a text, and returns what follows it. Sequences that are not about the
/// style (links) are left out.
fn after_sequence<'t>(text: &'t str, style: &mut Style) -> &'t str {
    if let Some(rest) = text.strip_prefix('[') {
        let end = rest.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(rest.len());
        if rest[end..].starts_with('m') {
            apply(&rest[..end], style);
        }
        return rest.get(end + 1..).unwrap_or_default();
    }
    if text.starts_with(']') {
        return text.split_once('\u{7}').map_or("", |(_, rest)| rest);
    }
    text.get(1..).unwrap_or_default()
}

fn apply(codes: &str, style: &mut Style) {
    let mut codes = codes.split(';').map(|code| code.parse::<usize>().unwrap_or(0));
    while let Some(code) = codes.next() {
        match code {
            0 => *style = Style::default(),
            1 => style.bold = true,
            2 => style.dim = true,
            3 => style.italic = true,
            4 => style.underline = true,
            7 => style.reverse = true,
            22 => (style.bold, style.dim) = (false, false),
            23 => style.italic = false,
            24 => style.underline = false,
            27 => style.reverse = false,
            30..=37 => style.text = Some(PALETTE[code - 30].to_owned()),
            90..=97 => style.text = Some(PALETTE[code - 90 + 8].to_owned()),
            40..=47 => style.ground = Some(PALETTE[code - 40].to_owned()),
            38 => style.text = colour(&mut codes),
            48 => style.ground = colour(&mut codes),
            39 => style.text = None,
            49 => style.ground = None,
            _ => {}
        }
    }
}

/// A colour of the palette of 256, or of three parts.
fn colour(codes: &mut impl Iterator<Item = usize>) -> Option<String> {
    let hex = |r: usize, g: usize, b: usize| format!("#{r:02x}{g:02x}{b:02x}");
    match codes.next()? {
        2 => Some(hex(codes.next()?, codes.next()?, codes.next()?)),
        5 => Some(match codes.next()? {
            code @ 0..=15 => PALETTE[code].to_owned(),
            code @ 16..=231 => {
                let part = |value: usize| if value == 0 { 0 } else { 55 + 40 * value };
                let code = code - 16;
                hex(part(code / 36), part(code / 6 % 6), part(code % 6))
            }
            code => {
                let grey = (8 + 10 * (code.saturating_sub(232))).min(255);
                hex(grey, grey, grey)
            }
        }),
        _ => None,
    }
}

/// The screens one after the other, again and again; the last one where motion is not wanted. A single screen stands
/// still.
pub(super) fn picture(
    description: &str,
    columns: usize,
    rows: usize,
    screens: &[Screen],
) -> String {
    let width = columns as f64 * CELL.0 + 2.0 * MARGIN;
    let height = rows as f64 * CELL.1 + 2.0 * MARGIN;
    let (count, whole) = (screens.len().max(1), screens.len() * SECONDS);
    let share = 100.0 / count as f64;
    let motion = match screens.len() {
        0 | 1 => String::new(),
        _ => format!(
            ".f{{opacity:0;animation:f {whole}s step-end infinite}}\
             @keyframes f{{0%{{opacity:1}}{share:.3}%{{opacity:0}}}}\
             @media(prefers-reduced-motion:reduce){{.f{{animation:none}}.f:last-of-type{{opacity:1}}}}"
        ),
    };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" aria-label=\"{description}\">\n\
         <!-- Written by `cargo xtask recording` from a run of `agentd`. -->\n\
         <style>text{{font:14px ui-monospace,Menlo,Consolas,\"DejaVu Sans Mono\",monospace;fill:{TEXT};\
         white-space:pre}}.b{{font-weight:bold}}.i{{font-style:italic}}.u{{text-decoration:underline}}\
         {motion}</style>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{GROUND}\"/>\n"
    );
    for (number, screen) in screens.iter().enumerate() {
        let delay = number * SECONDS;
        // A negative delay would begin in the middle: the first screen is there at once.
        let _ = writeln!(svg, "<g class=\"f\" style=\"animation-delay:{delay}s\">");
        for (row, runs) in screen.rows.iter().enumerate().take(rows) {
            runs.iter().for_each(|run| draw(&mut svg, row, run));
        }
        svg.push_str("</g>\n");
    }
    svg.push_str("</svg>\n");
    svg
}

fn draw(svg: &mut String, row: usize, run: &Run) {
    let style = &run.style;
    let own = style.text.as_deref().unwrap_or(if style.dim { DIM } else { TEXT });
    let (text, ground) = match style.reverse {
        true => (style.ground.as_deref().unwrap_or(GROUND), Some(own)),
        false => (own, style.ground.as_deref()),
    };
    let x = MARGIN + run.column as f64 * CELL.0;
    let top = MARGIN + row as f64 * CELL.1;
    if let Some(ground) = ground {
        let width = run.text.chars().count() as f64 * CELL.0;
        let height = CELL.1;
        let _ = write!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height}\" fill=\"{ground}\"/>"
        );
    }
    if run.text.trim().is_empty() {
        return;
    }
    let classes: Vec<&str> = [(style.bold, "b"), (style.italic, "i"), (style.underline, "u")]
        .into_iter()
        .filter_map(|(is, class)| is.then_some(class))
        .collect();
    let class = if classes.is_empty() {
        String::new()
    } else {
        format!(" class=\"{}\"", classes.join(" "))
    };
    let fill = if text == TEXT {
        String::new()
    } else {
        format!(" fill=\"{text}\" style=\"fill:{text}\"")
    };
    let shown = run.text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{:.1}\"{class}{fill}>{shown}</text>", top + 13.5);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn styles_last_until_they_are_changed() {
        let screen =
            Screen::parse("a\u{1b}[1;32mb\u{1b}[22mc\n\u{1b}[39md\u{1b}[38;5;196me\u{1b}[0mf");
        assert_eq!(screen.text(), "abc\ndef\n");
        let [first, second] = &screen.rows[..] else { panic!("two rows") };
        assert_eq!((first[1].column, first[1].style.bold), (1, true));
        assert_eq!(first[1].style.text.as_deref(), Some(PALETTE[2]));
        assert_eq!(
            (first[2].style.bold, first[2].style.text.as_deref()),
            (false, Some(PALETTE[2]))
        );
        assert_eq!(second[0].style, Style::default());
        assert_eq!(second[1].style.text.as_deref(), Some("#ff0000"));
        assert_eq!(second[2].style, Style::default());
    }

    #[test]
    fn links_and_unfinished_sequences_are_left_out() {
        let screen = Screen::parse("a\u{1b}]8;;https://x.test\u{7}b\u{1b}]8;;\u{7}c\u{1b}[3");
        assert_eq!(screen.text(), "abc\n");
    }

    #[test]
    fn a_picture_has_every_screen_and_its_grounds() {
        let screens = ["one <", "\u{1b}[7mtwo"].map(Screen::parse);
        let svg = picture("d", 10, 2, &screens);
        assert_eq!(svg.matches("<g class=\"f\"").count(), 2);
        assert!(svg.contains("one &lt;</text>") && svg.contains("animation-delay:5s"), "{svg}");
        assert!(svg.contains(&format!("fill=\"{TEXT}\"/>")), "{svg}");
    }

    #[test]
    fn a_single_screen_stands_still() {
        let svg = picture("d", 10, 2, &[Screen::parse("one")]);
        assert!(!svg.contains("animation:") && !svg.contains("opacity"), "{svg}");
        assert!(
            picture("d", 10, 2, &["one", "two"].map(Screen::parse)).contains("animation:f 10s")
        );
    }
}
