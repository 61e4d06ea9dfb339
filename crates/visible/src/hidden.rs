//! The characters that a reader does not see.

/// Characters that have a glyph of nothing, though Unicode neither ignores them nor counts them as
/// white space: a blank pattern of Braille, the filler of Khitan, the blanks of hieroglyphs, an
/// empty notehead.
const BLANK: [(char, char); 4] = [
    ('\u{2800}', '\u{2800}'),
    ('\u{13441}', '\u{13442}'),
    ('\u{16fe4}', '\u{16fe4}'),
    ('\u{1d159}', '\u{1d159}'),
];

/// Unicode's format characters (`Cf`) and those of the property `Default_Ignorable_Code_Point`
/// (Unicode Character Database, `UnicodeData.txt` and `DerivedCoreProperties.txt`), sorted.
const FORMAT_OR_IGNORABLE: [(char, char); 25] = [
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{600}', '\u{605}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{6dd}', '\u{6dd}'),
    ('\u{70f}', '\u{70f}'),
    ('\u{890}', '\u{891}'),
    ('\u{8e2}', '\u{8e2}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{202a}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffb}'),
    ('\u{110bd}', '\u{110bd}'),
    ('\u{110cd}', '\u{110cd}'),
    ('\u{13430}', '\u{1343f}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0000}', '\u{e0fff}'),
];

/// Returns whether a character shows nothing, or changes how text around it is shown: controls,
/// white space other than a space, format characters, ignorable ones, and blanks.
pub fn is_hidden(c: char) -> bool {
    match c {
        ' '..='~' => false,
        _ => {
            c.is_control()
                || c.is_whitespace()
                || contains(&FORMAT_OR_IGNORABLE, c)
                || contains(&BLANK, c)
        }
    }
}

fn contains(ranges: &[(char, char)], c: char) -> bool {
    let after = ranges.partition_point(|(first, _)| *first <= c);
    after.checked_sub(1).and_then(|at| ranges.get(at)).is_some_and(|(_, last)| c <= *last)
}

#[cfg(test)]
mod tests {
    use regex_syntax::hir::{Class, HirKind};

    use super::*;

    /// The ranges of characters of a class, as another implementation of Unicode knows them.
    fn ranges(class: &str) -> Vec<(char, char)> {
        let parsed = regex_syntax::parse(class).unwrap();
        let HirKind::Class(Class::Unicode(class)) = parsed.kind() else { panic!("{class}") };
        class.iter().map(|range| (range.start(), range.end())).collect()
    }

    #[test]
    fn the_table_is_unicodes() {
        let expected = ranges(r"[\p{Cf}\p{Default_Ignorable_Code_Point}]");
        let hex = |(first, last): &(char, char)| {
            format!("('\\u{{{:x}}}', '\\u{{{:x}}}')", *first as u32, *last as u32)
        };
        let rows: Vec<String> = expected.iter().map(hex).collect();
        assert_eq!(FORMAT_OR_IGNORABLE.as_slice(), expected, "expected: {}", rows.join(", "));
    }

    #[test]
    fn every_character_is_hidden_or_not_by_its_properties() {
        let hidden = ranges(
            r"[[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Zs}\p{White_Space}\p{Default_Ignorable_Code_Point}]--\ ]",
        );
        for c in '\0'..=char::MAX {
            let expected = contains(&hidden, c) || contains(&BLANK, c);
            assert_eq!(is_hidden(c), expected, "U+{:04X}", u32::from(c));
        }
    }
}
