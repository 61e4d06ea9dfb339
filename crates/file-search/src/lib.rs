//! Search of files by approximate name.
//!
//! [`Indexes`] holds one [`Index`] a root, which a walk fills and which is searched meanwhile. A search
//! takes its matches from the index alone; only the time of change of the best ones is asked of the file
//! system. [`search_once`] answers once, a [`Session`] whenever its query or a root changes.
//!
//! An index has what `fd --hidden --exclude .git` lists: everything below the root, hidden files
//! included, without what `.gitignore`, `.git/info/exclude`, `.ignore` and the user's own file of git's
//! rules leave out. Links are listed and not followed.
//!
//! Everything here waits for file systems, on threads of its own or the caller's.

mod error;
mod in_folder;
mod index;
mod indexes;
mod letter;
mod listing;
mod paths;
mod query;
mod refresh;
mod rules;
mod scan;
mod score;
mod search;
mod searches;
mod session;
mod signal;
mod stop;
mod top;
mod tree;
mod walk;
mod ways;

pub use error::Error;
pub use index::{Index, Refresh};
pub use indexes::{IDLE, Indexes};
pub use paths::search_paths;
pub use query::{MAX_QUERY_CHARS, MAX_QUERY_WORDS, Query};
pub use search::{Hit, MAX_RESULTS, Search, search_once};
pub use session::{MAX_SESSIONS, Report, Session};
pub use stop::Stop;
pub use walk::MAX_ENTRIES;
