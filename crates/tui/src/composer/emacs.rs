//! The keys that edit while text is inserted: arrows and the Emacs keys that shells have, too.

use crate::terminal::input::{Code, Key};

use super::edit::Editor;
use super::motion;

/// Takes a key; returns whether there was something to do for it.
pub(super) fn key(editor: &mut Editor, key: Key) -> bool {
    let previous = editor.begin();
    let (ctrl, alt) = (key.ctrl, key.alt);
    let at = editor.cursor();
    let by_word = ctrl || alt;
    match key.code {
        Code::Up => return editor.vertical(false, &previous),
        Code::Down => return editor.vertical(true, &previous),
        Code::Char('p') if ctrl => return editor.vertical(false, &previous),
        Code::Char('n') if ctrl => return editor.vertical(true, &previous),
        Code::Left if by_word => editor.move_to(motion::word_left(editor.buffer(), at)),
        Code::Right if by_word => editor.move_to(motion::word_right(editor.buffer(), at)),
        Code::Char('b') if alt => editor.move_to(motion::word_left(editor.buffer(), at)),
        Code::Char('f') if alt => editor.move_to(motion::word_right(editor.buffer(), at)),
        Code::Left => editor.move_to(editor.left()),
        Code::Right => editor.move_to(editor.right()),
        Code::Char('b') if ctrl => editor.move_to(editor.left()),
        Code::Char('f') if ctrl => editor.move_to(editor.right()),
        Code::Home if ctrl => editor.move_to(Default::default()),
        Code::End if ctrl => editor.move_to(editor.buffer().end()),
        Code::Home => editor.move_to(motion::line_start(at)),
        Code::End => editor.move_to(motion::line_end(editor.buffer(), at)),
        Code::Char('a') if ctrl => editor.move_to(motion::line_start(at)),
        Code::Char('e') if ctrl => editor.move_to(motion::line_end(editor.buffer(), at)),
        Code::Backspace if by_word => {
            editor.kill(motion::word_left(editor.buffer(), at)..at, &previous);
        }
        Code::Delete if by_word => {
            editor.kill(at..motion::word_right(editor.buffer(), at), &previous);
        }
        Code::Char('d') if alt => {
            editor.kill(at..motion::word_right(editor.buffer(), at), &previous);
        }
        Code::Char('w') if ctrl => {
            editor.kill(motion::token_left(editor.buffer(), at)..at, &previous);
        }
        Code::Char('k') if ctrl => {
            let end = motion::line_end(editor.buffer(), at);
            let end = if end == at { editor.right() } else { end };
            editor.kill(at..end, &previous);
        }
        Code::Char('u') if ctrl => {
            let start = motion::line_start(at);
            let start = if start == at { editor.left() } else { start };
            editor.kill(start..at, &previous);
        }
        Code::Backspace => return editor.delete(editor.left()..at),
        Code::Char('h') if ctrl => return editor.delete(editor.left()..at),
        Code::Delete => return editor.delete(at..editor.right()),
        // With an empty text it is for the application: it quits.
        Code::Char('d') if ctrl => {
            let had_text = !editor.buffer().is_empty();
            editor.delete(at..editor.right());
            return had_text;
        }
        Code::Char('y') if ctrl => return editor.yank(false, previous),
        Code::Char('y') if alt => return editor.yank(true, previous),
        Code::Char('t') if ctrl => transpose(editor),
        Code::Char('_' | '/') if ctrl => return editor.undo(),
        Code::Char('_') if alt => return editor.redo(),
        _ => return false,
    }
    true
}

/// Exchanges the two characters around the cursor; at the end of a line, those before it.
fn transpose(editor: &mut Editor) {
    let at = editor.cursor();
    let is_end = motion::line_end(editor.buffer(), at) == at;
    let middle = if is_end { editor.left() } else { at };
    let start = motion::left(editor.buffer(), middle);
    let end = motion::right(editor.buffer(), middle);
    if start.line != end.line || start == middle || middle == end {
        return;
    }
    let first = editor.buffer().slice(start..middle);
    let second = editor.buffer().slice(middle..end);
    editor.replace(start..end, &(second + &first));
}
