//! Recognises shell commands that are patches: models trained on shells write `apply_patch
//! <<'EOF'`, or only the patch, which means the tool and is not run.

use crate::marker::{Marker, marker};
use crate::shell_script;
use crate::unified;

/// A patch found in a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Embedded {
    /// The text of the patch.
    pub patch: String,
    /// The folder of a preceding `cd`.
    pub workdir: Option<String>,
}

pub(crate) const NAMES: [&str; 2] = ["apply_patch", "applypatch"];

/// The patch of an argument vector: `["apply_patch", TEXT]`, a shell with a script, or the patch alone.
pub fn embedded_argv(argv: &[String]) -> Option<Embedded> {
    match argv {
        [text] => bare(text).map(|patch| Embedded { patch, workdir: None }),
        [name, text] if NAMES.contains(&name.as_str()) => {
            Some(Embedded { patch: text.clone(), workdir: None })
        }
        _ => embedded(script(argv)?),
    }
}

/// The patch of a script that consists of `apply_patch` with a heredoc or one quoted argument, or of
/// the patch alone, optionally after `cd FOLDER &&`, and optionally inside of `sh -c`.
pub fn embedded(script: &str) -> Option<Embedded> {
    let mut rest = script.trim_start_matches('\u{feff}').trim();
    if let Some((name, after)) = word(rest)
        && is_shell(&name)
    {
        let (script, end) = script_word(after)?;
        let is_all = end.trim().is_empty() && !script.trim_start().starts_with(&name);
        return if is_all { embedded(&script) } else { None };
    }
    let mut workdir = None;
    if let Some(after) = rest.strip_prefix("cd ") {
        let (folder, after) = word(after.trim_start())?;
        let after = after.trim_start_matches([' ', '\t']);
        rest = ["&&", ";", "\n"].iter().find_map(|end| after.strip_prefix(end))?.trim_start();
        workdir = Some(folder);
    }
    let patch = bare(rest).or_else(|| argument(rest))?;
    Some(Embedded { patch, workdir })
}

/// The patch of a text that is nothing else: what follows its end are blanks, quotes and code fences.
/// A patch without an end is one too, so that the error about it is that of the tool.
fn bare(text: &str) -> Option<String> {
    if let Some((quoted, rest)) = text.starts_with(['\'', '"']).then(|| word(text)).flatten() {
        return if rest.trim().is_empty() { bare(&quoted) } else { None };
    }
    let is_around = |line: &str| line.trim().is_empty() || line.trim().starts_with("```");
    let mut lines = text
        .lines()
        .skip_while(|line| is_around(line) || NAMES.contains(&line.trim()))
        .map(|line| line.trim_start().trim_start_matches(['\'', '"', '`']));
    let first = lines.next()?;
    if unified::begins(first, lines.next()) {
        return Some(text.to_owned());
    }
    if !marker(first)?.begins_patch() {
        return None;
    }
    let lines: Vec<&str> = text.lines().collect();
    let end = lines.iter().rposition(|line| marker(line) == Some(Marker::End));
    let is_quote = |line: &str| line.trim().chars().all(|c| "'\"`".contains(c));
    let after = &lines[end.map_or(lines.len(), |end| end + 1)..];
    after.iter().all(|line| is_around(line) || is_quote(line)).then(|| text.to_owned())
}

/// The patch of `apply_patch` with a heredoc or one argument, or of a heredoc without a command.
fn argument(command: &str) -> Option<String> {
    if let Some(heredoc) = command.strip_prefix("<<") {
        return heredoc_body(heredoc).filter(|patch| bare(patch).is_some());
    }
    let after = NAMES.iter().find_map(|name| command.strip_prefix(name))?;
    if !after.starts_with([' ', '\t', '<']) {
        return None;
    }
    let after = after.trim_start_matches([' ', '\t']);
    let patch = match after.strip_prefix("<<") {
        Some(heredoc) => heredoc_body(heredoc)?,
        None => match word(after) {
            Some((text, rest)) => rest.trim().is_empty().then_some(text)?,
            None => bare(after)?,
        },
    };
    mentions_begin(&patch).then_some(patch)
}

/// Returns whether a script would run the lines of a patch as commands, or passes a patch to
/// `apply_patch` in a form that [`embedded`] does not accept: with other commands, or with text that
/// the shell would expand.
pub fn is_mixed(script: &str) -> bool {
    mentions_begin(script) && embedded(script).is_none() && shell_script::runs_patch(script)
}

/// As [`is_mixed`], for an argument vector.
pub fn is_mixed_argv(argv: &[String]) -> bool {
    argv.iter().any(|word| mentions_begin(word))
        && embedded_argv(argv).is_none()
        && shell_script::command_runs_patch(argv)
}

/// Returns whether a patch or a diff begins somewhere in `text`, perhaps after a quote.
pub(crate) fn mentions_begin(text: &str) -> bool {
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let begins = |at: usize| marker(&line[at..]).is_some_and(Marker::begins_patch);
        let next = lines.peek().copied();
        let is_diff =
            || line.match_indices(['-', 'd']).any(|(at, _)| unified::begins(&line[at..], next));
        if line.match_indices("***").any(|(at, _)| begins(at)) || is_diff() {
            return true;
        }
    }
    false
}

/// The script of a shell's argument vector.
fn script(argv: &[String]) -> Option<&str> {
    let (shell, rest) = argv.split_first()?;
    let (script, flags) = rest.split_last()?;
    let is_flag = |flag: &String| flag.starts_with('-') && !flag.starts_with("--");
    let names_script = flags.last().is_some_and(|flag| is_script_flag(flag));
    (is_shell(shell) && names_script && flags.iter().all(is_flag)).then_some(script)
}

/// The script after a shell's flags, and the rest.
fn script_word(text: &str) -> Option<(String, &str)> {
    let (mut flag, mut rest) = word(text.trim_start())?;
    while flag.starts_with('-') && !is_script_flag(&flag) {
        (flag, rest) = word(rest.trim_start())?;
    }
    if is_script_flag(&flag) { word(rest.trim_start()) } else { None }
}

pub(crate) fn is_shell(program: &str) -> bool {
    let name = program.rsplit('/').next();
    matches!(name, Some("ash" | "bash" | "dash" | "fish" | "ksh" | "mksh" | "sh" | "zsh"))
}

/// Returns whether a script follows this flag: `-c`, also among other letters, as in `-lc`.
fn is_script_flag(flag: &str) -> bool {
    let letters = flag.strip_prefix('-').unwrap_or_default();
    letters.contains('c') && letters.chars().all(|c| c.is_ascii_alphabetic())
}

/// The body of a heredoc that ends the script. If the delimiter is not quoted, the shell would
/// expand the body, so only a body with nothing to expand is accepted.
fn heredoc_body(text: &str) -> Option<String> {
    let strip_tabs = text.starts_with('-');
    let text = text.strip_prefix('-').unwrap_or(text).trim_start_matches([' ', '\t']);
    let (line, body) = text.split_once('\n')?;
    let line = line.trim();
    let unquoted = line
        .strip_prefix('\'')
        .and_then(|line| line.strip_suffix('\''))
        .or_else(|| line.strip_prefix('"').and_then(|line| line.strip_suffix('"')))
        .or_else(|| line.strip_prefix('\\'));
    let delimiter = unquoted.unwrap_or(line);
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if delimiter.is_empty() || !delimiter.chars().all(is_name) {
        return None;
    }
    let mut patch = String::new();
    let mut lines = body.split('\n');
    loop {
        let line = lines.next()?;
        let line = if strip_tabs { line.trim_start_matches('\t') } else { line };
        if line.trim_end_matches('\r') == delimiter {
            break;
        }
        patch.push_str(line);
        patch.push('\n');
    }
    let quoted = unquoted.is_some();
    let expands = !quoted && patch.contains(['$', '`', '\\']);
    (lines.all(|line| line.trim().is_empty()) && !expands).then_some(patch)
}

/// The first word of `text` and the rest. The word is plain, in quotes, or of such parts in a row,
/// as in `'it'\''s'`, with nothing that a shell would expand.
fn word(text: &str) -> Option<(String, &str)> {
    let mut word = String::new();
    let mut rest = text;
    loop {
        if let Some(quoted) = rest.strip_prefix('\'') {
            let (part, after) = quoted.split_once('\'')?;
            word.push_str(part);
            rest = after;
        } else if let Some(quoted) = rest.strip_prefix('"') {
            let (part, after) = quoted.split_once('"')?;
            if part.contains(['$', '`', '\\']) {
                return None;
            }
            word.push_str(part);
            rest = after;
        } else if let Some(after) = rest.strip_prefix("\\'") {
            word.push('\'');
            rest = after;
        } else {
            let plain = |c: char| c.is_alphanumeric() || "/._-+@%:,=".contains(c);
            let end = rest.find(|c: char| !plain(c)).unwrap_or(rest.len());
            if end == 0 {
                break;
            }
            word.push_str(&rest[..end]);
            rest = &rest[end..];
        }
    }
    let ends = rest.is_empty() || rest.starts_with([' ', '\t', '\n', '&', ';', '|']);
    (rest.len() < text.len() && ends).then_some((word, rest))
}
