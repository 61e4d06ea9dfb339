//! News of later versions, from a feed that the user configures: one JSON document, which is fetched within
//! bounds and compared with the version of this program.
//!
//! The crate knows no default feed, installs nothing and stores nothing: when a feed is asked, and whether the
//! user already knows, is decided by the server.

mod feed;
mod fetch;

pub use feed::{FeedError, Release};
pub use fetch::{FetchError, MAX_BYTES, TIME_LIMIT, fetch};
