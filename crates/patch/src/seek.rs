//! Finds a run of lines in a file: exactly, then ignoring white space at the ends of lines,
//! then around them. Time grows with the length of the file, not with its product with the
//! length of the run.

use std::collections::HashMap;

use crate::lines::FileLine;

/// How many line comparisons one file may cost. A patch of many hunks that match only
/// loosely reads the whole rest of the file for each.
const MAX_STEPS: usize = 400_000_000;

/// How lines are compared, in the order in which it is tried.
type Form = fn(&str) -> &str;
const FORMS: [Form; 3] = [|text| text, str::trim_end, str::trim];

/// The search took too long.
#[derive(Debug)]
pub(crate) struct TooCostly;

/// The lines of a file, numbered so that equal lines have equal numbers.
pub(crate) struct Haystack<'t> {
    lines: Vec<&'t str>,
    numbered: [Option<Numbered<'t>>; 3],
    steps: usize,
}

struct Numbered<'t> {
    numbers: HashMap<&'t str, u32>,
    lines: Vec<u32>,
}

impl<'t> Haystack<'t> {
    pub(crate) fn new(lines: &[FileLine<'t>]) -> Self {
        Self {
            lines: lines.iter().map(|line| line.text).collect(),
            numbered: [None, None, None],
            steps: 0,
        }
    }

    /// The first place from `start` on where `needle` stands; with `at_end`, the end of the
    /// file is the only place.
    pub(crate) fn find(
        &mut self,
        needle: &[&str],
        start: usize,
        at_end: bool,
    ) -> Result<Option<usize>, TooCostly> {
        let Some(last) = self.lines.len().checked_sub(needle.len()).filter(|last| *last >= start)
        else {
            return Ok(None);
        };
        let start = if at_end { last } else { start };
        for (form, shape) in FORMS.iter().enumerate() {
            self.steps += self.lines.len() - start + needle.len();
            if self.steps > MAX_STEPS {
                return Err(TooCostly);
            }
            let numbered = self.numbered(form);
            let wanted: Option<Vec<u32>> =
                needle.iter().map(|line| numbered.numbers.get(shape(line)).copied()).collect();
            let found = wanted.and_then(|wanted| position(&numbered.lines[start..], &wanted));
            if let Some(at) = found {
                return Ok(Some(start + at));
            }
        }
        Ok(None)
    }

    fn numbered(&mut self, form: usize) -> &Numbered<'t> {
        let lines = &self.lines;
        self.numbered[form].get_or_insert_with(|| {
            let mut numbers = HashMap::new();
            let lines = lines
                .iter()
                .map(|line| {
                    let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
                    *numbers.entry(FORMS[form](line)).or_insert(next)
                })
                .collect();
            Numbered { numbers, lines }
        })
    }
}

/// Knuth, Morris and Pratt: the first place of `needle`, each element looked at once or twice.
fn position(haystack: &[u32], needle: &[u32]) -> Option<usize> {
    if needle.is_empty() {
        return Some(0);
    }
    let borders = borders(needle);
    let mut matched = 0;
    for (at, item) in haystack.iter().enumerate() {
        while matched > 0 && needle[matched] != *item {
            matched = borders[matched - 1];
        }
        if needle[matched] == *item {
            matched += 1;
        }
        if matched == needle.len() {
            return Some(at + 1 - matched);
        }
    }
    None
}

/// For each prefix of `needle` the length of its longest proper border.
fn borders(needle: &[u32]) -> Vec<usize> {
    let mut borders = vec![0; needle.len()];
    let mut length = 0;
    for at in 1..needle.len() {
        while length > 0 && needle[length] != needle[at] {
            length = borders[length - 1];
        }
        if needle[length] == needle[at] {
            length += 1;
        }
        borders[at] = length;
    }
    borders
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn finds_what_a_plain_search_finds(
            haystack in prop::collection::vec(0u32..3, 0..30),
            needle in prop::collection::vec(0u32..3, 1..6),
        ) {
            let plain = haystack.windows(needle.len()).position(|window| window == needle);
            prop_assert_eq!(position(&haystack, &needle), plain);
        }
    }

    #[test]
    fn equal_lines_are_searched_in_linear_time() {
        let text = "a\n".repeat(100_000);
        let lines = crate::lines::lines(&text);
        let mut needle = vec!["a"; 50_000];
        needle.push(" a ");
        let mut haystack = Haystack::new(&lines);
        assert_eq!(haystack.find(&needle, 0, false).ok().flatten(), Some(0));
        assert!(haystack.steps < 1_000_000);
    }
}
