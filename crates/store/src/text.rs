//! Words of texts and of search terms, and excerpts. A word is a run of letters and digits without regard to case,
//! accents and compatible forms; of scripts without spaces, each character and each pair of adjacent ones is a word.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;

use unicode_normalization::UnicodeNormalization;

/// The searched texts of items. The store does not parse items: the caller extracts their text.
#[derive(Debug, Clone, Copy)]
pub struct ItemTexts {
    /// The kinds of items that have such a text; others are not read.
    pub kinds: &'static [&'static str],
    /// Returns the text of an item, by its kind and its JSON.
    pub text: fn(&str, &str) -> Option<String>,
}

/// Longest word, in characters; the rest of a longer one is not searched.
const MAX_WORD: usize = 40;
/// Words of a turn that are indexed; further ones are not found.
pub(crate) const MAX_WORDS: usize = 4096;
/// Bytes of the texts of a turn that are indexed; the rest is not found.
pub(crate) const MAX_TEXT: usize = 256 << 10;
/// Words of a term; further ones are ignored.
const MAX_TERM_WORDS: usize = 16;
/// The last word of a term is the beginning of words if it has so many letters. A Korean syllable counts as two.
const MIN_BEGINNING: usize = 3;
/// Characters of an excerpt before the match, and from its beginning on.
const EXCERPT: (usize, usize) = (40, 160);

/// A part of a text, on one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snippet {
    /// The part; `…` stands for what is left out.
    pub text: String,
    /// The characters of it that match.
    pub matched: Range<usize>,
}

/// The distinct words of a turn.
#[derive(Debug, Default)]
pub(crate) struct Words {
    found: BTreeSet<String>,
    bytes: usize,
}

impl Words {
    /// Adds those of a text.
    pub(crate) fn add(&mut self, text: &str) {
        let mut end = text.len().min(MAX_TEXT.saturating_sub(self.bytes));
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.bytes = if end < text.len() { MAX_TEXT } else { self.bytes + end };
        let found = &mut self.found;
        each_word(&text[..end], |word| {
            if found.len() < MAX_WORDS && !found.contains(word) {
                found.insert(word.to_owned());
            }
        });
    }

    /// Returns whether no further word is added.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes >= MAX_TEXT || self.found.len() >= MAX_WORDS
    }

    /// The words, separated by spaces.
    pub(crate) fn joined(&self) -> String {
        let mut joined = String::with_capacity(self.found.iter().map(|word| word.len() + 1).sum());
        for word in &self.found {
            if !joined.is_empty() {
                joined.push(' ');
            }
            joined.push_str(word);
        }
        joined
    }

    /// Returns whether a term matches.
    pub(crate) fn match_term(&self, term: &Term) -> bool {
        let begins = |beginning: &String| {
            let mut from = self.found.range::<String, _>(beginning..);
            from.next().is_some_and(|word| word.starts_with(beginning.as_str()))
        };
        term.words.iter().all(|word| self.found.contains(word))
            && term.beginning.as_ref().is_none_or(begins)
    }
}

/// A search term: a text matches if it has all of its words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Term {
    /// The words.
    pub(crate) words: Vec<String>,
    /// The last word, which may be incomplete.
    pub(crate) beginning: Option<String>,
}

impl Term {
    pub(crate) fn of(term: &str) -> Self {
        let mut words = Vec::new();
        let mut last_run = 0;
        let term = &*folded(term);
        each_run(term, |run, dense| {
            last_run = words.len();
            words_of_run(run, dense, true, |word| words.push(word.to_owned()));
            if dense {
                last_run = words.len();
            }
        });
        let is_open = term.chars().next_back().is_some_and(char::is_alphanumeric);
        let has_open_word = is_open && last_run < words.len();
        let beginning = words.pop_if(|word| {
            let letters = word.chars().map(|letter| if is_hangul(letter) { 2 } else { 1 });
            has_open_word && (MIN_BEGINNING..MAX_WORD).contains(&letters.sum::<usize>())
        });
        words.truncate(MAX_TERM_WORDS);
        Self { words, beginning }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.words.is_empty() && self.beginning.is_none()
    }
}

/// Calls `f` with each word of a text.
fn each_word(text: &str, mut f: impl FnMut(&str)) {
    each_run(&folded(text), |run, dense| words_of_run(run, dense, false, &mut f));
}

/// A text without regard to case, accents and compatible forms, such as full-width letters and ligatures.
fn folded(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        // Words are folded by themselves.
        return Cow::Borrowed(text);
    }
    Cow::Owned(
        text.nfkd().filter(|letter| !is_accent(*letter)).flat_map(folded_case).nfc().collect(),
    )
}

/// The folded forms of a letter. Through upper case, so that `ß` is `ss`, and the forms of sigma are one.
fn folded_case(letter: char) -> impl Iterator<Item = char> {
    letter.to_uppercase().flat_map(char::to_lowercase).filter(|letter| !is_accent(*letter))
}

/// Returns whether the character is a mark that decomposition takes off letters of Latin, Greek and Cyrillic.
fn is_accent(letter: char) -> bool {
    matches!(letter, '\u{300}'..='\u{36f}')
}

fn is_hangul(letter: char) -> bool {
    matches!(letter, '\u{ac00}'..='\u{d7a3}')
}

/// Calls `f` with each run of letters and digits, and whether its script has no spaces.
fn each_run<'t>(text: &'t str, mut f: impl FnMut(&'t str, bool)) {
    let mut run: Option<(usize, bool)> = None;
    for (at, letter) in text.char_indices() {
        let kind = letter.is_alphanumeric().then(|| is_dense(letter));
        if let Some((start, dense)) = run
            && kind != Some(dense)
        {
            f(&text[start..at], dense);
            run = None;
        }
        if let (None, Some(dense)) = (run, kind) {
            run = Some((at, dense));
        }
    }
    if let Some((start, dense)) = run {
        f(&text[start..], dense);
    }
}

/// The words of a run. A `term` of a script without spaces has only the pairs, which cover it.
fn words_of_run(run: &str, dense: bool, term: bool, mut f: impl FnMut(&str)) {
    if !dense {
        let end = run.char_indices().nth(MAX_WORD).map_or(run.len(), |(at, _)| at);
        return f(&run[..end].to_ascii_lowercase());
    }
    let starts: Vec<usize> = run.char_indices().map(|(at, _)| at).chain([run.len()]).collect();
    let singles = if term && starts.len() > 2 { 0 } else { starts.len() };
    for pair in starts[..singles].windows(2) {
        f(&run[pair[0]..pair[1]]);
    }
    for three in starts.windows(3) {
        f(&run[three[0]..three[2]]);
    }
}

/// Returns whether the script of a letter has no spaces between words: Thai, Lao, Myanmar, Khmer, Hiragana,
/// Katakana, Han.
fn is_dense(letter: char) -> bool {
    matches!(letter,
        '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        | '\u{3040}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}' | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

/// The part of a text around the first occurrence of a term, without regard to case, accents and compatible forms.
#[must_use]
pub fn snippet(text: &str, term: &str) -> Option<Snippet> {
    let fold = |letter: char| {
        std::iter::once(letter).nfkd().filter(|part| !is_accent(*part)).flat_map(folded_case)
    };
    let wanted: Vec<char> = term.chars().flat_map(fold).collect();
    let first = wanted.first()?;
    // Each folded letter with the number of the letter that it comes from.
    let folded: Vec<(char, usize)> = text
        .chars()
        .enumerate()
        .flat_map(|(at, letter)| fold(letter).map(move |folded| (folded, at)))
        .collect();
    let found = folded.windows(wanted.len()).find(|window| {
        window[0].0 == *first && window.iter().map(|(letter, _)| letter).eq(&wanted)
    })?;
    let (start, end) = (found.first()?.1, found.last()?.1 + 1);
    Some(excerpt(text, start..end))
}

/// The excerpt of an item, and a rating of it; 0 is the best.
pub(crate) fn rated(item: &str, text: &str, term: &Term) -> (u8, Snippet) {
    if let Some(found) = snippet(item, text.trim()) {
        return (0, found);
    }
    let mut words = Words::default();
    words.add(item);
    let first = term.words.first().or(term.beginning.as_ref());
    if let Some(found) = first.and_then(|word| snippet(item, word)) {
        return (if words.match_term(term) { 1 } else { 2 }, found);
    }
    (3, beginning(item))
}

/// The beginning of a text.
pub(crate) fn beginning(text: &str) -> Snippet {
    excerpt(text, 0..0)
}

fn excerpt(text: &str, matched: Range<usize>) -> Snippet {
    let (before, after) = EXCERPT;
    let from = matched.start.saturating_sub(before);
    let to = matched.end.max(matched.start + after);
    let mut part = String::new();
    if from > 0 {
        part.push('…');
    }
    let mut letters = text.chars().skip(from);
    let shown = letters.by_ref().take(to - from);
    part.extend(shown.map(|letter| if letter.is_control() { ' ' } else { letter }));
    if letters.next().is_some() {
        part.push('…');
    }
    let moved = matched.start - from + usize::from(from > 0);
    Snippet { text: part, matched: moved..moved + matched.len() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> String {
        let mut words = Words::default();
        words.add(text);
        words.joined()
    }

    #[test]
    fn texts_have_words() {
        assert_eq!(words("Fix `src/main.rs`, ÖL_2!"), "2 fix main ol rs src");
        assert_eq!(words("東京 tower"), "tower 京 東 東京");
        assert_eq!(words(&"x".repeat(100)), "x".repeat(MAX_WORD));
        assert_eq!(words("-- \u{1f600}"), "");
    }

    #[test]
    fn terms_have_words_and_a_beginning() {
        let check = |term: &str, words: &[&str], beginning: Option<&str>| {
            let expected = Term {
                words: words.iter().map(|word| (*word).to_owned()).collect(),
                beginning: beginning.map(str::to_owned),
            };
            assert_eq!(Term::of(term), expected, "{term}");
        };
        check("Fix conf", &["fix"], Some("conf"));
        check("fix conf ", &["fix", "conf"], None);
        check("src/main.rs", &["src", "main", "rs"], None);
        check("東京都", &["東京", "京都"], None);
        check("東", &["東"], None);
        check("?!", &[], None);
        check("한국", &[], Some("한국"));
        check("ภาษา", &["ภา", "าษ", "ษา"], None);
        check("GRÖSSE ", &["grosse"], None);
        assert!(Term::of(" .").is_empty());
    }

    #[test]
    fn a_term_matches_all_of_its_words() {
        let mut words = Words::default();
        words.add("Parse the configuration in 東京都");
        for (term, expected) in [
            ("conf", true),
            ("PARSE conf", true),
            ("conf parse", false),
            ("configuration pars", true),
            ("onfig", false),
            ("parse missing", false),
            ("京都", true),
            ("都京", false),
        ] {
            assert_eq!(words.match_term(&Term::of(term)), expected, "{term}");
        }
    }

    #[test]
    fn forms_of_the_same_letters_match() {
        for (text, term) in [
            ("caf\u{e9}", "cafe\u{301}"),
            ("cafe\u{301}", "caf\u{e9}"),
            ("caf\u{e9}", "CAFE"),
            ("größe", "GRÖSSE"),
            ("İstanbul", "istanbul"),
            ("Ａ１", "a1"),
            ("ﬁne", "fine"),
            ("ΣΟΦΌΣ", "σοφος"),
            ("한국어", "한국"),
            ("\u{1112}\u{1161}\u{11ab}국어", "한국어"),
            ("ﾊﾟﾘ", "パリ"),
            ("นี่คือภาษาไทย", "ภาษา"),
        ] {
            let mut words = Words::default();
            words.add(text);
            assert!(words.match_term(&Term::of(term)), "{text} {term}: {:?}", words.joined());
            assert!(snippet(text, term).is_some(), "{text} {term}");
        }
        let mut words = Words::default();
        words.add("がき");
        assert!(!words.match_term(&Term::of("かき")), "another word");
    }

    #[test]
    fn long_texts_are_bounded() {
        let mut words = Words::default();
        words.add(&"é ".repeat(MAX_TEXT));
        assert!(words.is_full());
        words.add("later");
        assert_eq!(words.joined(), "e");
        let many: String = (0..MAX_WORDS + 9).map(|number| format!("{number} ")).collect();
        let mut words = Words::default();
        words.add(&many);
        assert_eq!(words.joined().split(' ').count(), MAX_WORDS);
    }

    #[test]
    fn excerpts_surround_the_match() {
        let found = snippet("one\ntwo THREE four", "three").unwrap();
        assert_eq!((found.text.as_str(), found.matched), ("one two THREE four", 8..13));
        let long = format!("{}Öl{}", "a".repeat(100), "b".repeat(300));
        let found = snippet(&long, "öL").unwrap();
        let letters: Vec<char> = found.text.chars().collect();
        assert_eq!(letters[found.matched.clone()], ['Ö', 'l']);
        assert!(found.text.starts_with('…') && found.text.ends_with('…'));
        assert_eq!(letters.len(), 1 + 40 + 160 + 1);
        assert_eq!(snippet("text", "none"), None);
        assert_eq!(snippet("text", ""), None);
        // Folding makes two letters of one.
        assert_eq!(snippet("aİb", "İ").unwrap().matched, 1..2);
    }
}
