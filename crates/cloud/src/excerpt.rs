//! Text of servers in messages.

/// The beginning of a text on one line, with hidden characters as numbers.
pub(crate) fn excerpt(text: &str) -> String {
    const MOST_CHARS: usize = 200;
    let flat: Vec<&str> = text.split_whitespace().collect();
    let flat = flat.join(" ");
    let mut out = String::new();
    for c in flat.chars().take(MOST_CHARS) {
        match visible::is_hidden(c) {
            true => out.extend(c.escape_unicode()),
            false => out.push(c),
        }
    }
    if flat.chars().count() > MOST_CHARS {
        out.push('…');
    }
    out
}
