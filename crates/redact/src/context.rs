//! The context before a word that marks it as secret: the name of a value, an option of a command.

use crate::{Range, is_separator, known};

/// Bytes before a word that are looked at.
const LONGEST_NAME: usize = 64;
const LONGEST_COMMAND: usize = 512;
/// Bytes of a header of HTTP or a table of TOML, up to a value in it.
const LONGEST_HEADER: usize = 2048;
/// Letters of a word that may stand in a message after `basic` or `bearer`.
const LONGEST_WORD: usize = 16;
/// Bytes of a value of several words, at most, after the first.
const LONGEST_VALUE: usize = 1024;

/// Programs whose option `-p` is a password, in the same word or the next.
const PASSWORD_PROGRAMS: [&str; 6] =
    ["mysql", "mysqldump", "mysqladmin", "mysqlimport", "mariadb", "sshpass"];

/// The secret part of a word that is the value of an option, as in `--password X` and `mysql -pX`, or
/// that follows `password` as in a `.netrc`.
pub(crate) fn option_value(text: &str, (from, to): Range) -> Option<Range> {
    let word = &text[from..to];
    let runs_with_password = || {
        let line = line_before(text, from, LONGEST_COMMAND);
        let mut words = line.split(is_separator);
        words.any(|word| PASSWORD_PROGRAMS.contains(&word.rsplit('/').next().unwrap_or_default()))
    };
    if word.len() > 2 && word.starts_with("-p") && runs_with_password() {
        return Some((from + 2, to));
    }
    // Arguments may be those of a list in JSON.
    let before = text[..from].trim_end_matches([' ', '"', '\'', ',', '\\']);
    if before.len() == from || before.ends_with('\n') {
        return None;
    }
    let last = last_word(before);
    let is_option = known::is_secret_option(last) || last == "-p" && runs_with_password();
    if !(is_option && known::may_be_value(word) || last == "password" && is_netrc(text, from, to)) {
        return None;
    }
    // Of `NAME:PASSWORD` only the password.
    let start = match last {
        "-u" | "--user" => word.find(':').map_or(0, |at| at + 1),
        _ => 0,
    };
    (start < word.len()).then_some((from + start, to))
}

/// Returns whether a word that follows `password` is a value of a `.netrc`.
fn is_netrc(text: &str, from: usize, to: usize) -> bool {
    let line = line_before(text, from, LONGEST_COMMAND);
    let mut words = line.split_whitespace();
    let is_alone =
        line.trim() == "password" && text[to..].trim_start_matches(' ').starts_with('\n');
    is_alone || words.any(|word| word == "login" || word == "machine")
}

/// The name right before a value: with `:` or `=`, even where the value stands on the next line, or a
/// scheme such as `Bearer`, or a tag.
pub(crate) fn name_before(text: &str, at: usize) -> &str {
    let before =
        text[..at].trim_end_matches(|c| is_separator(c) && c != '\n' && c != ',' && c != ';');
    if let Some(above) = before.strip_suffix('\n') {
        // `password:`, or `password: |`, of YAML.
        let above = above.trim_end_matches([' ', '\r', '|', '>', '-']);
        return above.strip_suffix(':').map(last_word).unwrap_or_default();
    }
    let near = near(before, LONGEST_NAME);
    let near = &near[near.rfind(['\n', ',', ';', '{', '(']).map_or(0, |at| at + 1)..];
    // A tag, as in `<password>X</password>`.
    let is_tag = text[..at].ends_with('>') && !near.ends_with('/');
    if !(near.ends_with([':', '=']) || known::is_scheme(near) || is_tag) {
        return "";
    }
    last_word(near.trim_end_matches(|c| matches!(c, ':' | '=') || is_separator(c)))
}

/// Where a value ends whose first word is this: at the closing quote, and that of a pass phrase without
/// quotes at the end of its line.
pub(crate) fn end_of_value(text: &str, from: usize, to: usize, name: &str) -> usize {
    let mut limit = text.len().min(to + LONGEST_VALUE);
    while !text.is_char_boundary(limit) {
        limit -= 1;
    }
    let line_end = text[to..limit].find('\n').map_or(limit, |at| to + at);
    match text[..from].chars().next_back() {
        Some(quote @ ('"' | '\'' | '`')) => {
            // A quote in quotes is escaped as the first one is.
            let escapes = text[..from - 1].ends_with('\\');
            let closing = if escapes { format!("\\{quote}") } else { quote.to_string() };
            let mut ends = text[to..line_end].match_indices(&closing).map(|(at, _)| to + at);
            let is_end = |at: &usize| escapes || !text[..*at].ends_with('\\');
            ends.find(is_end).unwrap_or(to)
        }
        _ if text[to..line_end].trim().is_empty() => to,
        // A scheme, and what goes with it.
        _ if name.to_ascii_lowercase().ends_with("authorization") => {
            let before = line_before(text, from, LONGEST_COMMAND);
            let is_open = |quote| before.matches(quote).count() % 2 == 1;
            let rest = &text[to..line_end];
            let end = rest.find(|c| c == '\\' || matches!(c, '"' | '\'') && is_open(c));
            to + end.unwrap_or(rest.trim_end().len())
        }
        _ if name.to_ascii_lowercase().ends_with("passphrase") => {
            let rest = &text[to..line_end];
            to + rest.find(['"', '\'', ',', ';', '}', '\\']).unwrap_or(rest.trim_end().len())
        }
        _ => to + signs_within(&text[to..line_end]),
    }
}

/// Length of what belongs to a value at the beginning of `rest`: a value may have `&` and the like within
/// it. They end it before a space, and before the next name.
fn signs_within(rest: &str) -> usize {
    let is_within = |c: char| matches!(c, '&' | ',' | ';' | ')');
    let mut length = 0;
    loop {
        let word = rest[length..].trim_start_matches(is_within);
        let start = rest.len() - word.len();
        let end = start + word.find(is_separator).unwrap_or(word.len());
        let word = &rest[start..end];
        let name = word.find(['=', ':']).map_or("", |at| &word[..at]);
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if start == length || word.is_empty() || !name.is_empty() && name.chars().all(is_name) {
            return length;
        }
        length = end;
    }
}

/// Returns whether `name` is that of a cookie in a header, and not one of its attributes.
pub(crate) fn is_cookie(text: &str, from: usize, name: &str) -> bool {
    const ATTRIBUTES: [&str; 6] = ["path", "domain", "expires", "max-age", "samesite", "priority"];
    const HEADERS: [&str; 4] = ["cookie: ", "cookie\": \"", "cookie\":\"", "cookie': '"];
    let Some(name) = name.strip_suffix('=') else { return false };
    // The first one, or one after another.
    text[..from].trim_end_matches(' ').ends_with([':', ';', '"', '\''])
        && !ATTRIBUTES.iter().any(|known| name.eq_ignore_ascii_case(known))
        && {
            let line = line_before(text, from, LONGEST_HEADER).to_ascii_lowercase();
            HEADERS.iter().any(|header| line.contains(header))
        }
}

/// Returns whether a value in quotes is that of a parameter that a provider's requests have
/// (`query_params` of the configuration): some services take their keys there. A version is none.
pub(crate) fn is_query_parameter(text: &str, from: usize) -> bool {
    const TABLE: &str = "query_params";
    if !text[..from].ends_with(['"', '\'']) {
        return false;
    }
    let name = name_before(text, from).to_ascii_lowercase();
    if name.is_empty() || name.ends_with("version") {
        return false;
    }
    line_before(text, from, LONGEST_COMMAND).contains(TABLE) || {
        let above = near(&text[..from], LONGEST_HEADER);
        let header =
            above.rfind("\n[").map_or("", |at| above[at + 1..].lines().next().unwrap_or(""));
        header.trim_end().ends_with("query_params]")
    }
}

/// Returns whether a text describes a fault rather than the value of `name`, as in `invalid basic
/// string` and `unexpected token: string`.
pub(crate) fn is_diagnosis(text: &str, from: usize, name: &str, value: &str) -> bool {
    if !value.chars().all(|c| c.is_ascii_lowercase()) || text[..from].ends_with(['"', '\'']) {
        return false;
    }
    let line = line_before(text, from, LONGEST_NAME).to_ascii_lowercase();
    match known::is_scheme(name) {
        true => !line.contains("authorization") && value.len() < LONGEST_WORD,
        false => line.contains("unexpected token") || line.contains("expected token"),
    }
}

fn line_before(text: &str, at: usize, most: usize) -> &str {
    let near = near(&text[..at], most);
    &near[near.rfind('\n').map_or(0, |at| at + 1)..]
}

fn last_word(text: &str) -> &str {
    text.rsplit(is_separator).next().unwrap_or_default()
}

/// The end of a text, of so many bytes at most.
fn near(text: &str, most: usize) -> &str {
    let mut start = text.len().saturating_sub(most);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}
