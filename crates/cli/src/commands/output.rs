//! Standard output. A reader that goes away, such as `head`, has what it wants: the program then ends
//! without a word, and with the exit code of one that SIGPIPE ended.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

/// As a shell reports a program that SIGPIPE ended: 128 and the number of the signal.
const ENDED_BY_SIGPIPE: u8 = 128 + 13;

/// Standard output for the results of a command. Its errors tell a reader that is gone from a broken pipe
/// elsewhere, such as to a server.
pub(crate) struct Output(io::Stdout);

/// The standard output of this program.
pub(crate) fn stdout() -> Output {
    Output(io::stdout())
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(marked)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(marked)
    }
}

/// In an [`io::Error`]: what read standard output reads it no longer.
#[derive(Debug)]
struct ReaderGone;

impl fmt::Display for ReaderGone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("standard output no longer has a reader")
    }
}

impl std::error::Error for ReaderGone {}

fn marked(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::BrokenPipe => io::Error::new(io::ErrorKind::BrokenPipe, ReaderGone),
        _ => error,
    }
}

/// Returns whether the reader of standard output is gone.
pub(crate) fn is_reader_gone(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<ReaderGone>())
}

/// The exit code of a program that ends with `error`, if that is a reader of standard output which is
/// gone: nothing is to be said about it.
pub(crate) fn quiet_end(error: &anyhow::Error) -> Option<ExitCode> {
    let is_gone = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<io::Error>().is_some_and(is_reader_gone)
    };
    error.chain().any(is_gone).then(|| ExitCode::from(ENDED_BY_SIGPIPE))
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn only_the_reader_of_standard_output_may_go() {
        let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
        let ends = |error: io::Error| {
            quiet_end(&Err::<(), _>(error).context("writing").unwrap_err()).is_some()
        };
        assert!(ends(marked(broken())));
        assert!(!ends(broken()), "a pipe to another program");
        assert!(!ends(marked(io::Error::from(io::ErrorKind::StorageFull))));
    }
}
