//! Checks arguments against a list of allowed options. Only exact names are allowed: programs
//! accept abbreviations (`--outpu=x`), all of which a list of forbidden options would have to
//! contain.

use super::word::Word;

/// The options and operands with which a program is harmless.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    /// Short options as for `getopt`: `x:` takes a value, `x::` an attached value if any.
    pub(super) short: &'static str,
    /// Lists of long options without `--`, each separated by spaces: `x=` takes a value, `x?` takes
    /// one after `=` if any.
    pub(super) long: &'static [&'static str],
    /// Largest number of operands; [`ANY`] for no limit.
    pub(super) operands: usize,
}

/// No limit on operands.
pub(super) const ANY: usize = usize::MAX;

enum Value {
    None,
    Attached,
    Required,
}

impl Options {
    pub(super) const fn new(
        short: &'static str,
        long: &'static [&'static str],
        operands: usize,
    ) -> Self {
        Self { short, long, operands }
    }

    /// Returns whether all options and the number of operands are allowed.
    pub(super) fn permit(&self, args: &[Word]) -> bool {
        self.operands_of(args).is_some()
    }

    /// The operands, if the arguments are allowed.
    pub(super) fn operands_of<'w>(&self, args: &'w [Word]) -> Option<Vec<&'w Word>> {
        let mut operands = Vec::new();
        let mut rest = args.iter();
        while let Some(word) = rest.next() {
            if word.text == "--" && !word.expands {
                operands.extend(rest);
                break;
            }
            if word.text == "-" || !word.may_be_option() {
                operands.push(word);
                continue;
            }
            // A glob in an option could expand to any letter.
            let takes_next = match word.expands {
                true => return None,
                false => self.option(&word.text)?,
            };
            // Refuses a value that looks like an option, in case this version of the program takes
            // no value here.
            if takes_next && rest.next().is_none_or(Word::may_be_option) {
                return None;
            }
        }
        let limited = self.operands != ANY;
        let fits =
            operands.len() <= self.operands && !(limited && operands.iter().any(|w| w.expands));
        fits.then_some(operands)
    }

    /// Returns whether the next word is the value of the option; `None` if it is not allowed.
    fn option(&self, text: &str) -> Option<bool> {
        match text.strip_prefix("--") {
            Some(long) => self.long_option(long),
            None => self.cluster(text.strip_prefix('-')?),
        }
    }

    fn long_option(&self, text: &str) -> Option<bool> {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        let mut known = self.long.iter().flat_map(|list| list.split_ascii_whitespace());
        let kind = known.find_map(|entry| match entry.strip_suffix(['=', '?']) {
            Some(stem) if stem == name && entry.ends_with('=') => Some(Value::Required),
            Some(stem) if stem == name => Some(Value::Attached),
            _ => (entry == name).then_some(Value::None),
        })?;
        match (kind, value) {
            (Value::None, Some(_)) => None,
            (Value::Required, None) => Some(true),
            _ => Some(false),
        }
    }

    fn cluster(&self, letters: &str) -> Option<bool> {
        for (at, letter) in letters.char_indices() {
            let attached = letters.len() > at + letter.len_utf8();
            match self.short_option(letter)? {
                Value::None => {}
                Value::Attached => return Some(false),
                Value::Required => return Some(!attached),
            }
        }
        Some(false)
    }

    fn short_option(&self, letter: char) -> Option<Value> {
        let at = self.short.find(letter).filter(|_| letter != ':')?;
        let after = &self.short[at + letter.len_utf8()..];
        Some(match after.as_bytes() {
            [b':', b':', ..] => Value::Attached,
            [b':', ..] => Value::Required,
            _ => Value::None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: Options = Options::new("ab:c::", &["plain value=", "maybe?"], 2);

    #[test]
    fn options() {
        let check = |line: &str, expect: bool| {
            let words: Vec<Word> = line.split(' ').map(Word::literal).collect();
            assert_eq!(SAMPLE.permit(&words), expect, "{line}");
        };
        check("x y", true);
        check("x y z", false);
        check("-a -ab 3 x", true);
        check("-ab3 x", true);
        check("-b -a", false);
        check("-b", false);
        check("-cx -ac", true);
        check("-d", false);
        check("-a: x", false);
        check("--plain --value=1 --value 2 --maybe --maybe=3", true);
        check("--plain=1", false);
        check("--value", false);
        check("--value --plain", false);
        check("--val=1", false);
        check("--other", false);
        check("-- -d --other", true);
        check("-", true);
    }
}
