//! Text of bounded size that keeps its head and its tail.

/// Collects text; past its cap the middle is left out and counted.
#[derive(Clone, Debug)]
pub(crate) struct HeadTail {
    cap: usize,
    head: String,
    /// At most twice what is kept, so that trimming it costs little a byte.
    tail: String,
    trimmed: usize,
}

impl HeadTail {
    /// Keeps at most about `cap` bytes.
    pub(crate) fn new(cap: usize) -> Self {
        Self { cap, head: String::new(), tail: String::new(), trimmed: 0 }
    }

    /// Appends.
    pub(crate) fn push(&mut self, text: &str) {
        let mut rest = text;
        if self.tail.is_empty() && self.trimmed == 0 {
            let room = (self.cap / 2).saturating_sub(self.head.len());
            let fits = floor_boundary(rest, room);
            self.head.push_str(&rest[..fits]);
            rest = &rest[fits..];
        }
        if rest.len() > self.keep() {
            self.trimmed += self.tail.len();
            self.tail.clear();
            let start = ceil_boundary(rest, rest.len() - self.keep());
            self.trimmed += start;
            rest = &rest[start..];
        }
        self.tail.push_str(rest);
        if self.tail.len() > 2 * self.keep() {
            let start = self.tail_start();
            self.trimmed += start;
            self.tail.drain(..start);
        }
    }

    /// The text, with a line in the middle that says how much is missing.
    pub(crate) fn text(&self) -> String {
        let start = self.tail_start();
        let omitted = self.omitted();
        if omitted == 0 {
            return format!("{}{}", self.head, self.tail);
        }
        let tail = &self.tail[start..];
        format!("{}\n… {omitted} bytes of output left out …\n{tail}", self.head)
    }

    /// Bytes of the middle that are missing.
    pub(crate) fn omitted(&self) -> usize {
        self.trimmed + self.tail_start()
    }

    /// Takes the text out and starts over.
    pub(crate) fn take(&mut self) -> String {
        let text = self.text();
        *self = Self::new(self.cap);
        text
    }

    /// Bytes seen so far, kept or not.
    pub(crate) fn seen(&self) -> usize {
        self.head.len() + self.trimmed + self.tail.len()
    }

    fn keep(&self) -> usize {
        self.cap - self.cap / 2
    }

    fn tail_start(&self) -> usize {
        ceil_boundary(&self.tail, self.tail.len().saturating_sub(self.keep()))
    }
}

/// Shortens `text` to about `cap` bytes, head and tail kept.
pub(crate) fn shorten(text: &str, cap: usize) -> String {
    if text.len() <= cap {
        return text.to_owned();
    }
    let mut short = HeadTail::new(cap);
    short.push(text);
    short.text()
}

fn floor_boundary(text: &str, at: usize) -> usize {
    if at >= text.len() {
        return text.len();
    }
    (0..=at).rev().find(|&index| text.is_char_boundary(index)).unwrap_or(0)
}

fn ceil_boundary(text: &str, at: usize) -> usize {
    (at..=text.len()).find(|&index| text.is_char_boundary(index)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collect(cap: usize, parts: &[&str]) -> String {
        let mut output = HeadTail::new(cap);
        for part in parts {
            output.push(part);
        }
        output.text()
    }

    #[test]
    fn short_text_is_kept_whole() {
        assert_eq!(collect(100, &["a", "bc", "", "d"]), "abcd");
    }

    #[test]
    fn the_middle_is_dropped_first() {
        assert_eq!(collect(4, &["abcdefgh"]), "ab\n… 4 bytes of output left out …\ngh");
        let by_one = ["a", "b", "c", "d", "e", "f", "g", "h"];
        assert_eq!(collect(4, &by_one), collect(4, &["abcdefgh"]));
    }

    #[test]
    fn what_is_missing_is_counted() {
        let mut output = HeadTail::new(4);
        output.push("abcd");
        assert_eq!(output.omitted(), 0);
        output.push("efgh");
        assert_eq!(output.omitted(), 4);
    }

    #[test]
    fn characters_are_never_split() {
        let text = collect(5, &["ééééé", "üüüüü"]);
        assert!(text.starts_with('é') && text.ends_with('ü'), "{text}");
    }

    #[test]
    fn the_result_does_not_depend_on_the_split() {
        let text: String = (0..200).map(|n| char::from(b'a' + (n % 26) as u8)).collect();
        for cap in [1, 2, 7, 50, 199, 200, 500] {
            for step in [1, 3, 64, 200] {
                let mut output = HeadTail::new(cap);
                let mut at = 0;
                while at < text.len() {
                    let end = (at + step).min(text.len());
                    output.push(&text[at..end]);
                    at = end;
                }
                assert_eq!(output.text(), collect(cap, &[&text]), "cap {cap}, step {step}");
            }
        }
    }
}
