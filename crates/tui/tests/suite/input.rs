//! What the terminal sends, late and in parts.

use std::time::Duration;

use tui::terminal::input::{Code, Decoder, Input, Key, Reply};

const REPLIES: &[u8] =
    b"\x1b]11;rgb:0000/1111/2222\x1b\\\x1b[?2026;2$y\x1b[?2004;2$y\x1b[?0u\x1b[?62;22c";

/// Feeds the parts with a pause of half a second between them.
fn with_pauses(parts: &[&[u8]]) -> Vec<Input> {
    let mut decoder = Decoder::default();
    let mut inputs = Vec::new();
    for part in parts {
        inputs.extend(decoder.feed(part));
        if decoder.patience().is_some_and(|patience| patience < Duration::from_millis(500)) {
            inputs.extend(decoder.expire());
        }
    }
    inputs
}

#[test]
fn replies_in_two_parts_type_nothing_wherever_they_are_cut() {
    let whole = Decoder::default().feed(REPLIES);
    assert_eq!(whole.len(), 5);
    let escapes: Vec<usize> = (0..REPLIES.len()).filter(|at| REPLIES[*at] == 0x1b).collect();
    for at in 0..REPLIES.len() {
        // Behind an ESC alone, or with the byte that follows, it may be a key.
        let is_key = escapes.iter().any(|escape| at > *escape && at <= escape + 2);
        let inputs = with_pauses(&[&REPLIES[..at], &REPLIES[at..]]);
        let typed = inputs.iter().any(|input| matches!(input, Input::Key(_)));
        assert!(is_key || !typed && inputs == whole, "{at}: {inputs:?}");
    }
}

#[test]
fn a_paste_that_comes_slowly_is_one_paste() {
    let inputs = with_pauses(&[b"\x1b[200~one\r", b"two\rthr", b"ee\x1b[20", b"1~\r"]);
    let paste = Input::Paste("one\ntwo\nthree".to_owned());
    assert_eq!(inputs, [paste, Input::Key(Key::plain(Code::Enter))]);
}

#[test]
fn an_escape_is_the_key_soon_and_what_never_ends_is_dropped() {
    let mut decoder = Decoder::default();
    assert_eq!(decoder.feed(b"\x1b"), []);
    assert!(decoder.patience().unwrap() < Duration::from_millis(100));
    assert_eq!(decoder.expire(), [Input::Key(Key::plain(Code::Esc))]);
    assert_eq!(decoder.feed(b"\x1b]11;rgb:00"), []);
    assert!(decoder.patience().unwrap() < Duration::from_secs(10));
    assert_eq!(decoder.expire(), []);
    assert_eq!(decoder.patience(), None);
    let late = decoder.feed(b"\x1b[?2004;1$y");
    assert_eq!(late, [Input::Reply(Reply::Bracketed(true))]);
}

#[test]
fn a_row_of_the_cursor_is_no_key() {
    let fed = |bytes: &[u8]| Decoder::default().feed(bytes);
    assert_eq!(fed(b"\x1b[5;1R"), [Input::Reply(Reply::Row(5))]);
    assert_eq!(fed(b"\x1b[1;1R"), [Input::Reply(Reply::Row(1))]);
    let f3 = Key::plain(Code::F(3));
    assert_eq!(fed(b"\x1b[1;5R"), [Input::Key(Key { ctrl: true, ..f3 })]);
    assert_eq!(fed(b"\x1b[R"), [Input::Key(f3)]);
}
