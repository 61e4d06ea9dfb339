//! Why a search has no result.

use std::io;
use std::path::PathBuf;

/// Why a root cannot be searched, or a query is refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The root is missing, or cannot be examined.
    #[error("{}: {cause}", .root.display())]
    Root {
        /// The root.
        root: PathBuf,
        /// The system's error.
        cause: io::Error,
    },
    /// The root is not a folder.
    #[error("{}: it is not a folder; name the folder that contains it", .0.display())]
    NotAFolder(PathBuf),
    /// The root has too many entries.
    #[error(
        "{}: it has more than {most} entries; name a folder below it, or exclude folders in an `.ignore` \
         file", .root.display()
    )]
    TooLarge {
        /// The root.
        root: PathBuf,
        /// Most entries of a root.
        most: usize,
    },
    /// The walk of the root takes long.
    #[error(
        "{}: the walk found {found} entries and is not complete; it goes on, so search again, or use a \
         session, which sends results meanwhile", .root.display()
    )]
    StillWalking {
        /// The root.
        root: PathBuf,
        /// Entries found so far.
        found: usize,
    },
    /// Too many roots are searched, or walks do not end.
    #[error("{0}")]
    Exhausted(String),
    /// The query is too long.
    #[error("the query has {found} {unit}, at most {most} are allowed; shorten it")]
    QueryTooLong {
        /// The unit of the counted things.
        unit: &'static str,
        /// The number in the query.
        found: usize,
        /// The maximum.
        most: usize,
    },
    /// A later search replaced this one.
    #[error("the search was cancelled")]
    Cancelled,
}
