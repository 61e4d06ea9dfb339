//! `cargo xtask recording`: the pictures of the program at work. `agentd demo` becomes an SVG whose lines appear when the
//! terminal showed them, and the terminal program one with three moments of a turn and one for each of its dialogs.

mod screen;
mod terminal;

use std::ffi::OsStr;
use std::fmt::Write;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use xtask::steps::Program;

/// The picture, relative to the root.
const PICTURE: &str = "docs/images/demo.svg";
const COLUMNS: u16 = 96;
const ROWS: u16 = 80;
/// Size of a character cell and of the margin, in the picture's units.
const CELL: (f64, f64) = (8.4, 18.0);
const MARGIN: f64 = 16.0;
/// The demo's files: enough for it to look at.
const FILES: [(&str, &str); 2] =
    [("README.md", "# Hello\n"), ("main.py", "print(\"Hello, world\")\n")];

/// The first line of the advice that follows the turn: not part of the picture.
const ADVICE: &str = "For your own client";

/// A line of the terminal, and when it was complete.
struct Line {
    text: String,
    at: Duration,
}

/// Text of one style.
#[derive(Debug, PartialEq, Eq)]
struct Span<'t> {
    class: String,
    text: &'t str,
}

pub(crate) fn run(root: &Path) -> Result<()> {
    Program::cargo(root, &["build", "--package", "cli"])
        .succeed("fix the compiler errors above")
        .map_err(|failed| anyhow::anyhow!(failed.message))?;
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root.join("target"), |folder| root.join(folder));
    let agentd = target.join("debug/agentd");
    let mut pictures = vec![(PICTURE, picture(&record(&agentd)?))];
    pictures.extend(terminal::draw(&agentd)?);
    for (name, picture) in pictures {
        let file = root.join(name);
        std::fs::write(&file, picture).with_context(|| file.display().to_string())?;
        println!("wrote {name}");
    }
    Ok(())
}

/// Runs the demo in a folder of its own, on a terminal.
fn record(agentd: &Path) -> Result<Vec<Line>> {
    let folder = tempfile::tempdir()?;
    let place = folder.path().canonicalize()?;
    let project = place.join("project");
    std::fs::create_dir(&project)?;
    for (name, content) in FILES {
        std::fs::write(project.join(name), content)?;
    }
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&terminal)?;
    unlockpt(&terminal)?;
    tcsetwinsize(&terminal, Winsize { ws_row: ROWS, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 })?;
    let name = ptsname(&terminal, Vec::new())?;
    let other_end =
        File::options().read(true).write(true).open(OsStr::from_bytes(name.to_bytes()))?;
    let began = Instant::now();
    let mut child = Command::new(agentd)
        .arg("demo")
        .current_dir(&project)
        .env("AGENT_HOME", place.join(".agent"))
        .env("TERM", "xterm-256color")
        .env_remove("NO_COLOR")
        .stdin(Stdio::null())
        .stderr(other_end.try_clone()?)
        .stdout(other_end)
        .spawn()
        .with_context(|| agentd.display().to_string())?;
    let shown = place.display().to_string();
    let mut lines = Vec::new();
    let mut reader = BufReader::new(File::from(terminal));
    let mut bytes = Vec::new();
    // Linux reports the closed end of a terminal as an error.
    while reader.read_until(b'\n', &mut bytes).is_ok_and(|read| read > 0) {
        let text = String::from_utf8_lossy(&bytes).trim_end().replace(&shown, "~");
        lines.push(Line { text, at: began.elapsed() });
        bytes.clear();
    }
    let status = child.wait()?;
    ensure!(status.success(), "`agentd demo` failed ({status})");
    let turn = lines.iter().position(|line: &Line| line.text.starts_with(ADVICE));
    lines.truncate(turn.context("the demo gave no advice")?.saturating_sub(1));
    Ok(lines)
}

fn picture(lines: &[Line]) -> String {
    let rows: Vec<(&Line, String)> = lines
        .iter()
        .flat_map(|line| wrapped(&line.text).into_iter().map(move |text| (line, text)))
        .collect();
    let width = f64::from(COLUMNS) * CELL.0 + 2.0 * MARGIN;
    let height = rows.len() as f64 * CELL.1 + 2.0 * MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" aria-label=\"agentd demo: one turn with a \
         plan, a command in the sandbox, a file change and its approval\">\n\
         <!-- Written by `cargo xtask recording` from a run of `agentd demo`. -->\n\
         <style>\
         text{{font:14px ui-monospace,Menlo,Consolas,\"DejaVu Sans Mono\",monospace;fill:#d4d7dd;\
         white-space:pre;animation:show .01s backwards}}\
         @keyframes show{{from{{opacity:0}}to{{opacity:1}}}}\
         .s1{{font-weight:bold;fill:#fff}}.s2{{fill:#8a919e}}.s31{{fill:#f47067}}.s32{{fill:#6bc46d}}\
         .s33{{fill:#daaa3f}}.s34{{fill:#6cb6ff}}.s35{{fill:#dcbdfb}}.s36{{fill:#56d4dd}}\
         </style>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#1b1f27\"/>\n"
    );
    for (row, (line, text)) in rows.iter().enumerate() {
        let y = MARGIN + (row as f64 + 0.75) * CELL.1;
        let delay = line.at.as_secs_f64();
        let _ =
            write!(svg, "<text x=\"{MARGIN}\" y=\"{y:.1}\" style=\"animation-delay:{delay:.2}s\">");
        for Span { class, text } in spans(text) {
            let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            let _ = match class.as_str() {
                "" => write!(svg, "{text}"),
                class => write!(svg, "<tspan class=\"{class}\">{text}</tspan>"),
            };
        }
        svg.push_str("</text>\n");
    }
    svg.push_str("</svg>\n");
    svg
}

/// A line cut at the terminal's width. A style ends with its row; the demo styles short texts only.
fn wrapped(text: &str) -> Vec<String> {
    let mut rows = vec![String::new()];
    let mut column = 0;
    let mut in_escape = false;
    for c in text.chars() {
        in_escape |= c == '\u{1b}';
        if !in_escape {
            if column == COLUMNS {
                rows.push(String::new());
                column = 0;
            }
            column += 1;
        }
        in_escape &= c != 'm';
        if let Some(row) = rows.last_mut() {
            row.push(c);
        }
    }
    rows
}

/// Splits a line at its escape sequences for styles: `s1` is bold, `s2` dim, `s3x` a colour.
fn spans(line: &str) -> Vec<Span<'_>> {
    let mut class = String::new();
    let mut spans = Vec::new();
    for (number, piece) in line.split("\u{1b}[").enumerate() {
        let text = match piece.split_once('m') {
            Some((codes, text)) if number > 0 => {
                for code in codes.split(';') {
                    match code.trim_start_matches('0') {
                        "" => class.clear(),
                        code if class.is_empty() => class = format!("s{code}"),
                        code => {
                            let _ = write!(class, " s{code}");
                        }
                    }
                }
                text
            }
            _ => piece,
        };
        if !text.is_empty() {
            spans.push(Span { class: class.clone(), text });
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn styles_become_classes() {
        let found = spans("a \u{1b}[1m\u{1b}[32mb\u{1b}[0m c");
        let expected = [("", "a "), ("s1 s32", "b"), ("", " c")];
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (span, (class, text)) in found.iter().zip(expected) {
            assert_eq!((span.class.as_str(), span.text), (class, text));
        }
    }

    #[test]
    fn a_picture_shows_every_line_at_its_time() {
        let at = Duration::from_millis(250);
        let long = "x".repeat(usize::from(COLUMNS) + 1);
        let lines = ["a < b".to_owned(), long].map(|text| Line { text, at });
        let svg = picture(&lines);
        assert_eq!(svg.matches("<text ").count(), 3);
        assert!(svg.contains("animation-delay:0.25s\">a &lt; b</text>"), "{svg}");
    }
}
