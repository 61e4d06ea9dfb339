//! The patch format that models write: read, planned against files, shown as unified diffs.
//!
//! Pure: it never opens a file. [`plan`] asks its caller for contents and answers with what each
//! file would become, all of it or an error.

mod apply;
mod diff;
mod edit;
mod embedded;
mod error;
mod lines;
mod locate;
mod marker;
mod mismatch;
mod parse;
mod plan;
mod seek;
mod source;
mod turn;

pub use diff::{item_diff, unified_diff};
pub use embedded::{Embedded, embedded, embedded_argv, is_mixed, is_mixed_argv};
pub use error::{ApplyError, ReadError};
pub use parse::{Anchor, Hunk, Line, Operation, ParseError, Patch, Sign, parse};
pub use plan::{Change, ChangeKind, plan};
pub use turn::{MAX_HELD, TurnDiff};
