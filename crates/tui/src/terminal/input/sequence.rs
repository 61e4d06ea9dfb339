//! The meaning of one finished sequence.

use super::{Code, Input, Key, Reply};

/// ESC O and a letter: keys in application mode.
pub(super) fn single(byte: u8) -> Option<Key> {
    letter(byte).map(Key::plain)
}

fn letter(byte: u8) -> Option<Code> {
    Some(match byte {
        b'A' => Code::Up,
        b'B' => Code::Down,
        b'C' => Code::Right,
        b'D' => Code::Left,
        b'F' => Code::End,
        b'H' => Code::Home,
        b'M' => Code::Enter,
        b'P'..=b'S' => Code::F(byte - b'P' + 1),
        _ => return None,
    })
}

/// ESC [, parameters and a final byte.
pub(super) fn control(parameters: &[u8], last: u8) -> Option<Input> {
    let text = str::from_utf8(parameters).ok()?;
    match (text, last) {
        ("", b'I') => return Some(Input::Focus(true)),
        ("", b'O') => return Some(Input::Focus(false)),
        _ => {}
    }
    if let Some(text) = text.strip_prefix('?') {
        return private(text, last).map(Input::Reply);
    }
    let numbers: Vec<u32> = text
        .split(';')
        // After a colon come alternatives of the same key.
        .map(|number| number.split(':').next().and_then(|number| number.parse().ok()).unwrap_or(1))
        .collect();
    let is_release = text.split(';').nth(1).is_some_and(|modifiers| modifiers.ends_with(":3"));
    if is_release {
        return None;
    }
    let (first, second) = (numbers[0], numbers.get(1).copied().unwrap_or(1));
    if let (b'R', [row, column]) = (last, numbers.as_slice())
        && (*column == 1 || *row > 1)
    {
        return usize::try_from(*row).ok().map(|row| Input::Reply(Reply::Row(row)));
    }
    let (code, modifiers) = match last {
        b'Z' => (Code::Tab, 2),
        b'~' if first == 27 => (unicode(*numbers.get(2)?)?, second),
        b'~' => (numbered(first)?, second),
        b'u' => (unicode(first)?, second),
        _ => (letter(last)?, second),
    };
    Some(Input::Key(with_modifiers(code, modifiers)))
}

/// Keys that are reported by a number.
fn numbered(number: u32) -> Option<Code> {
    Some(match number {
        1 | 7 => Code::Home,
        2 => Code::Insert,
        3 => Code::Delete,
        4 | 8 => Code::End,
        5 => Code::PageUp,
        6 => Code::PageDown,
        11..=15 => Code::F(number as u8 - 10),
        17..=21 => Code::F(number as u8 - 11),
        23 | 24 => Code::F(number as u8 - 12),
        _ => return None,
    })
}

/// Keys that are reported by the number of their character.
fn unicode(number: u32) -> Option<Code> {
    Some(match number {
        9 => Code::Tab,
        13 | 57414 => Code::Enter,
        27 => Code::Esc,
        8 | 127 => Code::Backspace,
        // The keypad.
        57399..=57408 => Code::Char(char::from_digit(number - 57399, 10)?),
        57417 => Code::Left,
        57418 => Code::Right,
        57419 => Code::Up,
        57420 => Code::Down,
        57421 => Code::PageUp,
        57422 => Code::PageDown,
        57423 => Code::Home,
        57424 => Code::End,
        57425 => Code::Insert,
        57426 => Code::Delete,
        // Other keys of the keyboard protocol: modifiers, media keys.
        57344..=63743 => return None,
        _ => Code::Char(char::from_u32(number).filter(|c| !c.is_control())?),
    })
}

/// `modifiers` is one more than the sum of 1 for Shift, 2 for Alt and 4 for Ctrl.
fn with_modifiers(code: Code, modifiers: u32) -> Key {
    let bits = modifiers.wrapping_sub(1);
    let (shift, alt, ctrl) = (bits & 1 != 0, bits & 2 != 0, bits & 4 != 0);
    match code {
        Code::Char(c) if shift && !ctrl => {
            let mut upper = c.to_uppercase();
            let c = upper.next().filter(|_| upper.next().is_none()).unwrap_or(c);
            Key { code: Code::Char(c), ctrl, alt, shift: false }
        }
        _ => Key { code, ctrl, alt, shift },
    }
}

/// ESC [ ?: replies.
fn private(text: &str, last: u8) -> Option<Reply> {
    match last {
        b'c' => Some(Reply::Attributes),
        b'u' => Some(Reply::Keyboard),
        b'y' => {
            let (mode, state) = text.strip_suffix('$')?.split_once(';')?;
            let is_known = matches!(state, "1" | "2" | "3");
            match mode {
                "2026" => Some(Reply::Synchronized(is_known)),
                "2004" => Some(Reply::Bracketed(is_known)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// A string that has ended, with the byte that began it.
pub(super) fn text(bytes: &[u8]) -> Option<Input> {
    let text = str::from_utf8(bytes).ok()?;
    let (r, g, b) = color(text.strip_prefix("]11;")?)?;
    Some(Input::Reply(Reply::Background(r, g, b)))
}

/// `rgb:RRRR/GGGG/BBBB` with one to four digits each, as X11 writes colours.
fn color(text: &str) -> Option<(u8, u8, u8)> {
    let rgb = text.strip_prefix("rgb:").or_else(|| text.strip_prefix("rgba:"))?;
    let mut parts = rgb.split('/').map(|part| {
        let value = u32::from_str_radix(part.get(..4).unwrap_or(part), 16).ok()?;
        let most = (1_u32 << (4 * part.len().min(4))).checked_sub(1).filter(|most| *most > 0)?;
        u8::try_from(value * 255 / most).ok()
    });
    Some((parts.next()??, parts.next()??, parts.next()??))
}
