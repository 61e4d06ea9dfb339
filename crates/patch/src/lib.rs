//! The patch format that models write: read, planned against files, shown as unified diffs.
//!
//! Pure: it never opens a file. [`plan`] asks its caller for contents and answers with what each
//! file would become, all of it or an error.

mod apply;
mod diff;
mod embedded;
mod lines;
mod parse;
mod plan;
mod seek;
mod turn;

pub use diff::{item_diff, unified_diff};
pub use embedded::{Embedded, embedded, embedded_argv};
pub use parse::{Hunk, Line, Operation, ParseError, Patch, parse};
pub use plan::{ApplyError, Change, ChangeKind, ReadError, plan};
pub use turn::{MAX_HELD, TurnDiff};
