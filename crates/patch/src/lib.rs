//! The patch format that models write: parses patches, plans their changes, shows them as diffs.
//!
//! Pure: never opens a file. [`plan`] reads contents through its caller and returns the new
//! contents of all files, or an error.

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
mod shell_script;
mod source;
mod streamed;
mod turn;
mod unified;

pub use diff::{item_diff, unified_diff};
pub use embedded::{Embedded, embedded, embedded_argv, is_mixed, is_mixed_argv};
pub use error::{Error, ErrorKind};
pub use parse::{Anchor, Hunk, Line, Operation, Patch, Sign, parse};
pub use plan::{Change, ChangeKind, plan};
pub use streamed::StreamedPatch;
pub use turn::{MAX_HELD, TurnDiff};
