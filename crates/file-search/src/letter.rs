//! Letters: what a search compares. Where all words of a query are ASCII, letters are bytes, so that
//! names are never decoded; otherwise they are characters.

/// Bit of a mask for all characters that are not ASCII.
pub(crate) const NOT_ASCII: u32 = 1 << 31;

/// The class of a letter, for the starts of words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Slash,
    Separator,
    Lower,
    Upper,
    Digit,
}

pub(crate) trait Letter: Copy + Eq + Send + Sync + 'static {
    /// The letters of a path. What is not UTF-8 in it is U+FFFD where letters are characters.
    fn letters(bytes: &[u8]) -> impl Iterator<Item = Self>;

    /// Number of bytes of the first letter of a text that is not empty.
    fn first_len(bytes: &[u8]) -> usize;

    /// Without the difference of upper and lower case.
    fn fold(self) -> Self;

    fn class(self) -> Class;

    /// The number of its bit in a [`mask`].
    fn bit_number(self) -> usize;

    /// Returns whether no letter but its other case has the same bit.
    fn has_own_bit(self) -> bool;

    /// Returns whether it is a slash or a separator of ASCII: no other letter compares equal to it.
    fn is_ascii_separator(self) -> bool;

    /// Returns whether an extension begins here.
    fn is_dot(self) -> bool;
}

impl Letter for u8 {
    #[inline]
    fn letters(bytes: &[u8]) -> impl Iterator<Item = Self> {
        bytes.iter().copied()
    }

    #[inline]
    fn first_len(_bytes: &[u8]) -> usize {
        1
    }

    #[inline]
    fn fold(self) -> Self {
        self.to_ascii_lowercase()
    }

    #[inline]
    fn class(self) -> Class {
        CLASSES[usize::from(self)]
    }

    #[inline]
    fn bit_number(self) -> usize {
        usize::from(BIT_NUMBERS[usize::from(self)])
    }

    fn has_own_bit(self) -> bool {
        matches!(self, b'a'..=b'z' | b'A'..=b'Z' | b'.' | b'_' | b'-')
    }

    #[inline]
    fn is_ascii_separator(self) -> bool {
        matches!(self.class(), Class::Slash | Class::Separator)
    }

    fn is_dot(self) -> bool {
        self == b'.'
    }
}

impl Letter for char {
    fn letters(bytes: &[u8]) -> impl Iterator<Item = Self> {
        bytes.utf8_chunks().flat_map(|chunk| {
            let marked = (!chunk.invalid().is_empty()).then_some(Self::REPLACEMENT_CHARACTER);
            chunk.valid().chars().chain(marked)
        })
    }

    fn first_len(bytes: &[u8]) -> usize {
        // No letter is longer, and what is not UTF-8 ends before that.
        let longest = &bytes[..bytes.len().min(4)];
        longest.utf8_chunks().next().map_or(1, |chunk| match chunk.valid().chars().next() {
            Some(first) => first.len_utf8(),
            None => chunk.invalid().len(),
        })
    }

    /// One character for one character, so that positions stay those of the path.
    fn fold(self) -> Self {
        let mut lower = self.to_lowercase();
        match (lower.next(), lower.next()) {
            // Masks rely on it that no other character becomes an ASCII letter, as the Kelvin sign would.
            (Some(only), None) if self.is_ascii() || !only.is_ascii() => only,
            _ => self,
        }
    }

    fn class(self) -> Class {
        match u8::try_from(self) {
            Ok(byte) if byte.is_ascii() => byte.class(),
            _ if self.is_uppercase() => Class::Upper,
            _ if self.is_numeric() => Class::Digit,
            _ if self.is_alphanumeric() => Class::Lower,
            _ => Class::Separator,
        }
    }

    fn bit_number(self) -> usize {
        match u8::try_from(self) {
            Ok(byte) if byte.is_ascii() => byte.bit_number(),
            _ => NOT_ASCII.trailing_zeros() as usize,
        }
    }

    fn has_own_bit(self) -> bool {
        u8::try_from(self).is_ok_and(u8::has_own_bit)
    }

    fn is_ascii_separator(self) -> bool {
        u8::try_from(self).is_ok_and(|byte| byte.is_ascii() && byte.is_ascii_separator())
    }

    fn is_dot(self) -> bool {
        self == '.'
    }
}

/// Which letters a name has, without regard to case: a name that lacks a bit of a word's mask does not
/// contain the word.
pub(crate) fn mask(name: &[u8]) -> u32 {
    name.iter().fold(0, |mask, byte| mask | bit(*byte))
}

/// The bit of a byte in a [`mask`].
#[inline]
pub(crate) fn bit(byte: u8) -> u32 {
    1 << BIT_NUMBERS[usize::from(byte)]
}

/// Which pairs of letters stand next to each other in a name, without regard to case: a name that lacks
/// a bit of a word's pairs does not contain the word without gaps.
pub(crate) fn pairs(name: &[u8]) -> u64 {
    name.windows(2).fold(0, |pairs, pair| pairs | self::pair(pair[0], pair[1]))
}

/// The bit of two bytes in [`pairs`].
#[inline]
fn pair(first: u8, second: u8) -> u64 {
    let number = |byte: u8| u32::from(BIT_NUMBERS[usize::from(byte)]);
    1 << ((number(first) * 11 + number(second)) % 64)
}

/// The class of each byte.
const CLASSES: [Class; 256] = {
    let mut classes = [Class::Separator; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = match byte as u8 {
            b'/' => Class::Slash,
            b'a'..=b'z' | 0x80.. => Class::Lower,
            b'A'..=b'Z' => Class::Upper,
            b'0'..=b'9' => Class::Digit,
            _ => Class::Separator,
        };
        byte += 1;
    }
    classes
};

/// The number of each byte's bit.
const BIT_NUMBERS: [u8; 256] = {
    let mut numbers = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        numbers[byte] = match (byte as u8).to_ascii_lowercase() {
            letter @ b'a'..=b'z' => letter - b'a',
            b'0'..=b'9' => 26,
            b'.' => 27,
            b'_' => 28,
            b'-' => 29,
            0x80.. => 31,
            _ => 30,
        };
        byte += 1;
    }
    numbers
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_those_of_the_text_that_clients_get() {
        for bytes in [&b"a/B.rs"[..], "ä/öß".as_bytes(), b"x\xff\xfey\xe2\x82", b"\xf0\x9f"] {
            let shown = String::from_utf8_lossy(bytes);
            assert!(char::letters(bytes).eq(shown.chars()), "{shown}");
            let mut rest = bytes;
            while !rest.is_empty() {
                let (first, other) = rest.split_at(char::first_len(rest));
                assert_eq!(char::letters(first).count(), 1, "{first:?}");
                assert!(char::letters(first).chain(char::letters(other)).eq(char::letters(rest)));
                rest = other;
            }
        }
    }

    #[test]
    fn folding_keeps_one_letter_one_letter() {
        assert_eq!('Ä'.fold(), 'ä');
        // Its lower case has two characters.
        assert_eq!('İ'.fold(), 'İ');
        assert_eq!(b'Z'.fold(), b'z');
    }
}
