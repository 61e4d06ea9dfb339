//! Splits the text of a message in plan mode into what is said and what is proposed: the lines
//! between `<proposed_plan>` and `</proposed_plan>`.

const OPEN: &str = "<proposed_plan>";
const CLOSE: &str = "</proposed_plan>";

/// A piece of streamed text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Said.
    Text(String),
    /// A plan begins.
    Open,
    /// Part of the plan.
    Plan(String),
    /// The plan ends.
    Close,
}

/// Splits a stream; a tag may arrive in any number of parts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Splitter {
    /// The end of the text so far that may be the beginning of a tag.
    held: String,
    inside: bool,
}

impl Splitter {
    /// The pieces that `text` completes.
    pub(crate) fn push(&mut self, text: &str) -> Vec<Piece> {
        self.held.push_str(text);
        let mut pieces = Vec::new();
        loop {
            let tag = if self.inside { CLOSE } else { OPEN };
            if let Some(at) = self.held.find(tag) {
                let before: String = self.held.drain(..at + tag.len()).collect();
                self.emit(&before[..at], &mut pieces);
                pieces.push(if self.inside { Piece::Close } else { Piece::Open });
                self.inside = !self.inside;
                continue;
            }
            let safe = self.held.len() - partial_tag(&self.held, tag);
            let ready: String = self.held.drain(..safe).collect();
            self.emit(&ready, &mut pieces);
            return pieces;
        }
    }

    /// Returns the remaining pieces at the end of the message.
    pub(crate) fn finish(&mut self) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let rest = std::mem::take(&mut self.held);
        self.emit(&rest, &mut pieces);
        if std::mem::take(&mut self.inside) {
            pieces.push(Piece::Close);
        }
        pieces
    }

    fn emit(&self, text: &str, pieces: &mut Vec<Piece>) {
        if text.is_empty() {
            return;
        }
        let text = text.to_owned();
        pieces.push(if self.inside { Piece::Plan(text) } else { Piece::Text(text) });
    }
}

/// Returns the number of bytes at the end of `text` that may be the beginning of `tag`.
fn partial_tag(text: &str, tag: &str) -> usize {
    (1..tag.len()).rev().find(|&n| text.ends_with(&tag[..n])).unwrap_or(0)
}

/// Splits a whole text: what is said, and what is proposed.
pub(crate) fn split(text: &str) -> (String, Option<String>) {
    let mut splitter = Splitter::default();
    let mut pieces = splitter.push(text);
    pieces.extend(splitter.finish());
    let (mut said, mut plan) = (String::new(), None);
    for piece in pieces {
        match piece {
            Piece::Text(text) => said.push_str(&text),
            Piece::Open => plan = Some(String::new()),
            Piece::Plan(text) => plan.get_or_insert_default().push_str(&text),
            Piece::Close => {}
        }
    }
    (said.trim().to_owned(), plan.map(|plan| plan.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_found_for_any_split() {
        let text = "Before <b>\n<proposed_plan>\n1. a < b\n</proposed_plan>\nafter";
        let whole = split(text);
        assert_eq!(whole, ("Before <b>\n\nafter".into(), Some("1. a < b".into())));
        for step in 1..20 {
            let mut splitter = Splitter::default();
            let (mut said, mut plan) = (String::new(), String::new());
            let chars: Vec<char> = text.chars().collect();
            let mut pieces = Vec::new();
            for part in chars.chunks(step) {
                pieces.extend(splitter.push(&part.iter().collect::<String>()));
            }
            pieces.extend(splitter.finish());
            for piece in pieces {
                match piece {
                    Piece::Text(text) => said.push_str(&text),
                    Piece::Plan(text) => plan.push_str(&text),
                    _ => {}
                }
            }
            assert_eq!(said, "Before <b>\n\nafter", "step {step}");
            assert_eq!(plan, "\n1. a < b\n", "step {step}");
        }
    }

    #[test]
    fn an_unclosed_plan_is_closed_at_the_end() {
        assert_eq!(split("<proposed_plan>x"), (String::new(), Some("x".into())));
        assert_eq!(split("no plan </proposed_plan>").1, None);
    }
}
