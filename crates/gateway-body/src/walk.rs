//! Reads JSON incrementally, in bounded memory, and extracts the values that the gateway needs of a
//! response. It does not validate: malformed JSON yields nothing, or an implausible value.

use memchr::memchr2;

use super::estimate::eighths;
use super::progress::Progress;
use super::scanned::SERVER_TOOLS;
use super::usage::{Draft, milliseconds, whole_number};
use super::watched::{Container, Field, Reported, field};
use super::words;

/// Longest key, id or number that is kept, in bytes; longer ones are skipped.
const MAX_TOKEN: usize = 256;
/// Strings are scanned word by word up to this length, and with vectors beyond it.
const SHORT: usize = 48;
/// Deepest level of objects and arrays that is observed.
const MAX_WATCHED: usize = 12;

/// The observations of one JSON value.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) usage: Option<Draft>,
    pub(super) usage_invalid: bool,
    /// True if `usage` is present and not null.
    pub(super) has_usage: bool,
    pub(super) id: Option<String>,
    pub(super) kind: Option<String>,
    pub(super) progress: Option<Progress>,
    /// Estimated output, in eighths of a token.
    pub(super) output_eighths: u64,
    /// The same of `delta`; the event's type decides whether it is text.
    pub(super) delta_eighths: u64,
    /// True if it reports an error.
    pub(super) has_error: bool,
    /// True if it says why the model stopped.
    pub(super) has_finish: bool,
    pub(super) data_entries: Option<u64>,
    pub(super) choices: Option<u64>,
    /// True if it has a member that only answers of Gemini have.
    pub(super) is_of_gemini: bool,
    /// Searches that the server lists for the answer.
    pub(super) queries: Option<u64>,
    pub(super) duration_ms: Option<u64>,
    pub(super) trained_tokens: Option<u64>,
    pub(super) service_tier: Option<Box<str>>,
    pub(super) size: Option<Box<str>>,
    pub(super) quality: Option<Box<str>>,
    /// Items that are calls of the server's own tools, by [`SERVER_TOOLS`].
    pub(super) calls: [u32; SERVER_TOOLS.len()],
    /// True if the whole value was received.
    pub(super) closed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lexed {
    Between,
    /// A string, and its use.
    String(Use),
    /// A number, `true`, `false` or `null`.
    Scalar,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Pass,
    Key,
    Keep,
    Count,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Escape {
    No,
    Backslash,
    /// Digits so far, and their value.
    Hex(u8, u32),
}

/// A reader of one value after another: [`Walk::restart`] starts the next.
#[derive(Debug)]
pub(super) struct Walk {
    pub(super) seen: Seen,
    /// True if text counts as output: in a whole response, not in an event.
    whole: bool,
    stack: [(Container, bool); MAX_WATCHED],
    depth: usize,
    /// Open objects and arrays inside an unobserved one.
    skipped: u64,
    lexed: Lexed,
    escape: Escape,
    /// The high surrogate of a pair, until the low one is received.
    high: Option<u32>,
    token: Vec<u8>,
    too_long: bool,
    field: Field,
    /// True if a value is next, not a key.
    value: bool,
    usage: Draft,
    /// A step of the model in the usage, while it is read.
    iteration: Option<Iteration>,
}

/// A step of the model.
#[derive(Debug, Default)]
struct Iteration {
    usage: Draft,
    /// True if the server compacted the context in it.
    is_compaction: bool,
}

impl Walk {
    /// Creates a reader; `whole` for a JSON body, else for the events of a stream.
    pub(super) fn new(whole: bool) -> Self {
        Self {
            seen: Seen::default(),
            whole,
            stack: [(Container::Root, true); MAX_WATCHED],
            depth: 0,
            skipped: 0,
            lexed: Lexed::Between,
            escape: Escape::No,
            high: None,
            token: Vec::new(),
            too_long: false,
            field: Field::Into(Container::Root),
            value: true,
            usage: Draft::default(),
            iteration: None,
        }
    }

    /// Ends the value and starts the next. Returns the observations.
    pub(super) fn restart(&mut self) -> Seen {
        self.depth = 0;
        self.skipped = 0;
        self.lexed = Lexed::Between;
        self.escape = Escape::No;
        self.high = None;
        self.field = Field::Into(Container::Root);
        self.value = true;
        self.iteration = None;
        std::mem::take(&mut self.seen)
    }

    /// Bytes of the input that are held.
    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        let texts = [&self.seen.id, &self.seen.kind];
        let reported = [&self.seen.service_tier, &self.seen.size, &self.seen.quality];
        self.token.capacity()
            + texts.into_iter().flatten().map(String::capacity).sum::<usize>()
            + reported.into_iter().flatten().map(|text| text.len()).sum::<usize>()
    }

    pub(super) fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let taken = match self.lexed {
                Lexed::Between => self.between(bytes),
                Lexed::String(to) => self.string(bytes, to),
                Lexed::Scalar => self.scalar(bytes),
            };
            bytes = &bytes[taken..];
        }
    }

    fn between(&mut self, bytes: &[u8]) -> usize {
        if self.skipped > 0 {
            return self.skip(bytes);
        }
        for (at, byte) in bytes.iter().enumerate() {
            match byte {
                b' ' | b'\n' | b'\r' | b'\t' => continue,
                b'"' => self.begin_string(),
                b'{' => self.open(true),
                b'[' => self.open(false),
                b'}' | b']' => self.close(),
                b',' => self.value = !self.in_object(),
                b':' => self.value = true,
                _ => {
                    self.lexed = Lexed::Scalar;
                    self.begin_value();
                    self.begin_token();
                    return at;
                }
            }
            if self.lexed != Lexed::Between || self.skipped > 0 {
                return at + 1;
            }
        }
        bytes.len()
    }

    /// Skips the inside of an unobserved object or array.
    fn skip(&mut self, bytes: &[u8]) -> usize {
        for (at, byte) in bytes.iter().enumerate() {
            match SKIPPED[usize::from(*byte)] {
                0 => {}
                1 => {
                    self.lexed = Lexed::String(Use::Pass);
                    return at + 1;
                }
                2 => self.skipped += 1,
                _ => {
                    self.skipped -= 1;
                    if self.skipped == 0 {
                        self.after_value();
                        return at + 1;
                    }
                }
            }
        }
        bytes.len()
    }

    fn in_object(&self) -> bool {
        self.depth > 0 && self.stack[self.depth - 1].1
    }

    /// The container of the next value or key.
    fn container(&self) -> Option<Container> {
        self.depth.checked_sub(1).map(|top| self.stack[top].0)
    }

    /// Counts an element of an array, and derives its field from the array.
    fn begin_value(&mut self) {
        if self.depth == 0 || self.in_object() {
            return;
        }
        self.field = match self.container() {
            Some(Container::Data) => {
                count_one(&mut self.seen.data_entries);
                Field::Unwatched
            }
            Some(Container::Choices) => {
                count_one(&mut self.seen.choices);
                Field::Into(Container::Choice)
            }
            Some(Container::Queries) => {
                count_one(&mut self.seen.queries);
                Field::Unwatched
            }
            Some(container @ (Container::Output | Container::Arguments)) => Field::Into(container),
            Some(Container::Iterations) => Field::Into(Container::Iteration),
            _ => Field::Unwatched,
        };
    }

    fn open(&mut self, object: bool) {
        self.begin_value();
        let container = match self.field {
            Field::Into(container) if self.depth < MAX_WATCHED => container,
            Field::Text | Field::Delta if self.depth < MAX_WATCHED => Container::Output,
            _ => return self.open_unwatched(),
        };
        let fits = match container {
            Container::Data | Container::Choices | Container::Iterations | Container::Queries => {
                !object
            }
            Container::Output | Container::Arguments => true,
            _ => object,
        };
        match container {
            Container::Usage => {
                self.seen.has_usage = true;
                self.usage = Draft::default();
                self.seen.usage_invalid |= !object;
            }
            Container::Iteration if object => self.iteration = Some(Iteration::default()),
            _ => {}
        }
        if !fits {
            return self.open_unwatched();
        }
        match container {
            Container::Data => self.seen.data_entries = Some(0),
            Container::Choices => self.seen.choices = Some(0),
            _ => {}
        }
        self.stack[self.depth] = (container, object);
        self.depth += 1;
        self.value = !object;
    }

    fn open_unwatched(&mut self) {
        if let Field::Number(_) = self.field {
            self.draft().invalid = true;
        }
        self.skipped = 1;
    }

    fn close(&mut self) {
        // A bracket that closes nothing is malformed JSON.
        let Some(container) = self.container() else { return };
        self.depth -= 1;
        match container {
            Container::Usage => {
                self.seen.duration_ms = self.usage.duration_ms.or(self.seen.duration_ms);
                self.seen.usage = Some(match self.seen.usage {
                    Some(earlier) => earlier.then(self.usage),
                    None => self.usage,
                });
            }
            Container::Iteration => {
                let iteration = self.iteration.take().unwrap_or_default();
                if iteration.is_compaction {
                    self.usage.add_compaction(iteration.usage);
                }
            }
            _ => {}
        }
        self.after_value();
    }

    /// The numbers that are being read.
    fn draft(&mut self) -> &mut Draft {
        self.iteration.as_mut().map_or(&mut self.usage, |iteration| &mut iteration.usage)
    }

    fn after_value(&mut self) {
        self.seen.closed |= self.depth == 0;
        self.value = !self.in_object();
    }

    fn begin_string(&mut self) {
        let to = if self.value {
            self.begin_value();
            match self.field {
                Field::Id if self.seen.id.is_none() => Use::Keep,
                Field::Type => match self.container() {
                    Some(Container::Root | Container::Iteration) => Use::Keep,
                    _ => Use::Pass,
                },
                Field::Duration | Field::Number(_) | Field::Status | Field::Trained => Use::Keep,
                Field::Reported(_) | Field::Item => Use::Keep,
                Field::Delta | Field::Text => Use::Count,
                Field::Into(Container::Output | Container::Arguments) => Use::Count,
                _ => Use::Pass,
            }
        } else {
            Use::Key
        };
        self.begin_token();
        self.lexed = Lexed::String(to);
    }

    fn begin_token(&mut self) {
        self.token.clear();
        self.too_long = false;
        self.high = None;
    }

    fn string(&mut self, bytes: &[u8], to: Use) -> usize {
        if self.escape != Escape::No {
            self.escaped(bytes[0], to);
            return 1;
        }
        let short = &bytes[..bytes.len().min(SHORT)];
        let end = words::find(short, words::closing, |byte| byte == b'"' || byte == b'\\');
        let end = end.or_else(|| {
            let long = memchr2(b'"', b'\\', &bytes[short.len()..]);
            long.map(|at| short.len() + at)
        });
        let plain = &bytes[..end.unwrap_or(bytes.len())];
        self.take(plain, to);
        let Some(end) = end else { return bytes.len() };
        match bytes[end] {
            b'"' => self.end_string(to),
            _ => self.escape = Escape::Backslash,
        }
        end + 1
    }

    fn take(&mut self, utf8: &[u8], to: Use) {
        if utf8.is_empty() {
            return;
        }
        match to {
            Use::Pass => {}
            Use::Count => self.add_text(eighths(utf8)),
            Use::Key | Use::Keep if self.token.len() + utf8.len() <= MAX_TOKEN => {
                self.token.extend_from_slice(utf8);
            }
            Use::Key | Use::Keep => self.too_long = true,
        }
        self.high = None;
    }

    fn add_text(&mut self, eighths: u64) {
        match self.field {
            Field::Delta => self.seen.delta_eighths += eighths,
            _ => self.seen.output_eighths += eighths,
        }
    }

    fn escaped(&mut self, byte: u8, to: Use) {
        self.escape = match self.escape {
            Escape::Hex(seen, value) => {
                let value = value << 4 | char::from(byte).to_digit(16).unwrap_or(0);
                if seen == 3 {
                    self.unicode(value, to);
                    Escape::No
                } else {
                    Escape::Hex(seen + 1, value)
                }
            }
            _ if byte == b'u' => Escape::Hex(0, 0),
            _ => {
                let plain = match byte {
                    b'n' => b'\n',
                    b't' => b'\t',
                    b'r' => b'\r',
                    b'b' => 8,
                    b'f' => 12,
                    other => other,
                };
                self.take(&[plain], to);
                Escape::No
            }
        };
    }

    fn unicode(&mut self, code: u32, to: Use) {
        let code = match (self.high.take(), code) {
            (Some(high), 0xDC00..=0xDFFF) => 0x10000 + ((high - 0xD800) << 10) + (code - 0xDC00),
            (_, 0xD800..=0xDBFF) => {
                self.high = Some(code);
                return;
            }
            (_, code) => code,
        };
        let mut utf8 = [0; 4];
        let char = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
        self.take(char.encode_utf8(&mut utf8).as_bytes(), to);
    }

    fn end_string(&mut self, to: Use) {
        self.lexed = Lexed::Between;
        match to {
            Use::Key => {
                self.field = match self.too_long {
                    true => Field::Unwatched,
                    false => field(self.container(), &self.token, self.whole),
                };
                self.seen.is_of_gemini |= self.depth == 1
                    && matches!(&*self.token, b"candidates" | b"usageMetadata" | b"promptFeedback");
                return;
            }
            Use::Keep if !self.too_long => self.keep(),
            _ => {}
        }
        if self.skipped == 0 {
            match self.field {
                Field::Into(Container::Usage) => self.seen.usage_invalid = true,
                Field::Into(Container::Failure) | Field::Cause => self.seen.has_error = true,
                Field::Finish => self.seen.has_finish = true,
                _ => {}
            }
            self.after_value();
        }
    }

    fn keep(&mut self) {
        let text = || String::from_utf8_lossy(&self.token).into_owned();
        match self.field {
            Field::Id => self.seen.id = Some(text()),
            Field::Type => match &mut self.iteration {
                Some(iteration) => iteration.is_compaction = self.token == b"compaction",
                None => self.seen.kind = Some(text()),
            },
            Field::Status => self.seen.progress = Some(Progress::named(&self.token)),
            Field::Reported(what) => {
                let text = Some(text().into());
                match what {
                    Reported::ServiceTier => self.seen.service_tier = text,
                    Reported::Size => self.seen.size = text,
                    Reported::Quality => self.seen.quality = text,
                }
            }
            Field::Item => {
                let name = self.token.strip_suffix(b"_call").unwrap_or_default();
                if let Some(tool) = SERVER_TOOLS.iter().position(|tool| tool.as_bytes() == name) {
                    self.seen.calls[tool] = self.seen.calls[tool].saturating_add(1);
                }
            }
            Field::Duration => self.duration(),
            // A number in quotes is invalid.
            Field::Number(_) => self.draft().invalid = true,
            Field::Trained => self.seen.usage_invalid = true,
            _ => {}
        }
    }

    fn duration(&mut self) {
        let Some(duration) = milliseconds(&self.token) else { return };
        match self.container() {
            Some(Container::Usage) => self.usage.duration_ms = Some(duration),
            _ => self.seen.duration_ms = self.seen.duration_ms.or(Some(duration)),
        }
    }

    fn scalar(&mut self, bytes: &[u8]) -> usize {
        let ends = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t');
        // Other punctuation also ends a malformed word, so that every byte is read once.
        let ends = |byte: &u8| ends(byte) || matches!(byte, b'"' | b'{' | b'[' | b':');
        let end = bytes.iter().position(ends);
        let word = &bytes[..end.unwrap_or(bytes.len())];
        if self.token.len() + word.len() <= MAX_TOKEN {
            self.token.extend_from_slice(word);
        } else {
            self.too_long = true;
        }
        let Some(end) = end else { return bytes.len() };
        self.lexed = Lexed::Between;
        self.end_scalar();
        end
    }

    fn end_scalar(&mut self) {
        match self.field {
            Field::Number(_) if self.too_long => self.draft().invalid = true,
            Field::Number(count) => {
                let token = std::mem::take(&mut self.token);
                self.draft().set(count, &token);
                self.token = token;
            }
            Field::Duration => self.duration(),
            Field::Trained => match whole_number(&self.token) {
                Some(trained) if !self.too_long => self.seen.trained_tokens = Some(trained),
                _ => self.seen.usage_invalid |= self.token != b"null",
            },
            Field::Into(Container::Usage) if self.token != b"null" => {
                self.seen.has_usage = true;
                self.seen.usage_invalid = true;
            }
            _ => {}
        }
        self.after_value();
    }
}

fn count_one(count: &mut Option<u64>) {
    *count = Some(count.unwrap_or(0) + 1);
}

/// Bytes that matter while skipping: 1 starts a string, 2 opens and 3 closes an array or object.
const SKIPPED: [u8; 256] = {
    let mut table = [0; 256];
    table[b'"' as usize] = 1;
    table[b'{' as usize] = 2;
    table[b'[' as usize] = 2;
    table[b'}' as usize] = 3;
    table[b']' as usize] = 3;
    table
};
