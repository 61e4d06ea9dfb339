//! Reads the bodies that pass through the gateway and makes the few edits that it needs: pure functions
//! over bytes, no I/O. It decides nothing about limits, prices or errors.
//!
//! - [`scan`] reads a JSON request in one pass; [`Edits`] change it without copying it.
//! - [`Form`] reads a `multipart/form-data` request; [`Upload`] one that uploads a file.
//! - [`Reader`] watches an answer go by, JSON or a stream of events; [`EventFilter`] also takes the
//!   usage chunk out of a chat stream.

mod answer;
mod edit;
mod estimate;
mod filter;
mod form_ids;
mod gemini;
mod json;
mod messages;
mod multipart;
mod progress;
mod scan;
mod scanned;
mod sse;
mod text;
mod upload;
mod usage;
mod walk;
mod watched;
mod wav;
mod words;

pub use answer::{Outcome, Reader};
pub use edit::{Edited, Edits};
pub use estimate::tokens;
pub use filter::{EventFilter, FilterEnd};
pub use form_ids::FormIds;
pub use json::{MAX_DEPTH, Malformed, Span};
pub use multipart::{FieldText, FilePart, Form, FormError, boundary};
pub use progress::Progress;
pub use scan::scan;
pub use scanned::{
    Background, CacheMark, Calls, Invalid, Kind, MOST_SECONDS, MaxTokens, Member, NamedMember,
    ObjectEnd, SERVER_TOOLS, Scanned, StreamOptions, Text,
};
pub use upload::{Upload, purpose_so_far};
pub use usage::Usage;
