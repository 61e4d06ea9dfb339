//! Text that is piped to `agentd exec` next to a prompt, as in `git diff | agentd exec "review this"`. It is
//! appended to the prompt as a marked block.

use std::io::{self, BufRead, IsTerminal, Read};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use anyhow::{Context, bail};

use crate::commands::eprint;

/// More is cut, in bytes: with the prompt it stays below the server's bound on the texts of an input.
const MAX_TEXT: usize = 512 << 10;

/// Longest wait for the first byte. A parent that hands over a pipe and never writes to it must not stop the
/// program.
const PATIENCE: Duration = Duration::from_secs(3);

/// The block of what is piped to the program, if anything is.
///
/// # Errors
/// Standard input cannot be read.
pub(super) fn block() -> anyhow::Result<Option<String>> {
    if io::stdin().is_terminal() {
        return Ok(None);
    }
    let Some(piped) = Piped::await_first_byte(|| io::stdin().lock(), PATIENCE)? else {
        eprint(format_args!(
            "agentd: standard input stayed open for {} s without text, so it was not read. Close it to avoid the \
             wait (`< /dev/null`); for a slower command, write the prompt into the pipe: \
             `(echo PROMPT; COMMAND) | agentd exec -`",
            PATIENCE.as_secs()
        ));
        return Ok(None);
    };
    for notice in piped.notices() {
        eprint(format_args!("agentd: {notice}"));
    }
    Ok(piped.block())
}

/// The text that was piped to the program.
struct Piped {
    text: String,
    /// The text goes on after its bound.
    is_cut: bool,
    /// Bytes that are no text were replaced.
    is_repaired: bool,
}

impl Piped {
    /// Reads to the end; `None` when neither the first byte nor the end comes within `patience`. Then the
    /// thread that waits is left behind.
    fn await_first_byte<R: BufRead>(
        open: impl FnOnce() -> R + Send + 'static,
        patience: Duration,
    ) -> anyhow::Result<Option<Self>> {
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let mut input = open();
            let begun = input.fill_buf().map(|_| None);
            let is_read = begun.is_ok();
            // An error means that the wait is over: so is the work.
            if sender.send(begun).is_ok() && is_read {
                let _ = sender.send(Self::read(input).map(Some));
            }
        });
        match receiver.recv_timeout(patience) {
            Ok(begun) => begun.context("cannot read standard input")?,
            Err(RecvTimeoutError::Timeout) => return Ok(None),
            Err(RecvTimeoutError::Disconnected) => bail!("cannot read standard input"),
        };
        receiver.recv().context("cannot read standard input")?.context("cannot read standard input")
    }

    fn read(input: impl Read) -> io::Result<Self> {
        let mut bytes = Vec::new();
        input.take(MAX_TEXT as u64 + 1).read_to_end(&mut bytes)?;
        let is_cut = bytes.len() > MAX_TEXT;
        bytes.truncate(MAX_TEXT);
        if is_cut {
            // A character that the cut splits is no damage of the text.
            let whole = bytes.utf8_chunks().last().map_or(0, |last| last.invalid().len());
            if whole < 4 {
                bytes.truncate(bytes.len() - whole);
            }
        }
        let (text, is_repaired) = match files::decoded(bytes) {
            Ok(text) => (text, false),
            Err(bytes) => (String::from_utf8_lossy(&bytes).into_owned(), true),
        };
        Ok(Self { text, is_cut, is_repaired })
    }

    fn notices(&self) -> Vec<String> {
        let mut notices = Vec::new();
        if self.is_cut {
            notices.push(format!(
                "standard input is larger than {} KiB: only its beginning was sent. Refer to a file instead",
                MAX_TEXT >> 10
            ));
        }
        if self.is_repaired {
            notices.push("standard input is not all UTF-8: other bytes were replaced".to_owned());
        }
        notices
    }

    fn block(&self) -> Option<String> {
        if self.text.trim().is_empty() {
            return None;
        }
        let end = if self.text.ends_with('\n') { "" } else { "\n" };
        let cut = if self.is_cut { "[the rest was cut]\n" } else { "" };
        // A name that the text does not close.
        let mut name = "stdin".to_owned();
        while self.text.contains(&format!("</{name}>")) {
            name.push('_');
        }
        Some(format!("<{name}>\n{}{end}{cut}</{name}>", self.text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(input: &[u8]) -> (Option<String>, usize) {
        let piped = Piped::read(input).unwrap();
        (piped.block(), piped.notices().len())
    }

    #[test]
    fn text_is_marked() {
        assert_eq!(block(b"+ a\n"), (Some("<stdin>\n+ a\n</stdin>".to_owned()), 0));
        assert_eq!(block(b"a").0.unwrap(), "<stdin>\na\n</stdin>");
        assert_eq!((block(b" \n"), block(b"")), ((None, 0), (None, 0)));
        assert_eq!(block(b"\xef\xbb\xbfa").0.unwrap(), "<stdin>\na\n</stdin>");
        assert_eq!(block(b"\xff\xfea\0").0.unwrap(), "<stdin>\na\n</stdin>");
        assert_eq!(block(b"a</stdin>").0.unwrap(), "<stdin_>\na</stdin>\n</stdin_>");
        let (text, notices) = block(b"gr\xfc\xdfe");
        assert_eq!(
            (text.unwrap().as_str(), notices),
            ("<stdin>\ngr\u{fffd}\u{fffd}e\n</stdin>", 1)
        );
    }

    #[test]
    fn more_than_the_bound_is_cut_and_named() {
        let (text, notices) = block("ä".repeat(MAX_TEXT / 2).as_bytes());
        assert!(text.unwrap().ends_with("ä\n</stdin>") && notices == 0);
        let odd = ["x", &"ä".repeat(MAX_TEXT)].concat();
        let (text, notices) = block(odd.as_bytes());
        let text = text.unwrap();
        assert!(text.ends_with("ä\n[the rest was cut]\n</stdin>") && text.len() < MAX_TEXT + 100);
        assert_eq!(notices, 1);
        // Without an end.
        assert!(Piped::read(io::repeat(b'y')).unwrap().is_cut);
    }

    #[test]
    fn a_pipe_without_a_writer_is_left() {
        let (reader, writer) = io::pipe().unwrap();
        let open = || io::BufReader::new(reader);
        assert!(Piped::await_first_byte(open, Duration::from_millis(20)).unwrap().is_none());
        drop(writer);
        let text = Piped::await_first_byte(|| &b"text"[..], Duration::MAX).unwrap().unwrap();
        assert_eq!(text.block().unwrap(), "<stdin>\ntext\n</stdin>");
    }
}
