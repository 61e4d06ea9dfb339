//! Plugins and marketplaces: reads their files, fetches them with git, and installs them into the
//! agent's home.
//!
//! Everything that a marketplace or a plugin contains is data here: nothing of it runs, is expanded or
//! is granted. A plugin's files are checked before the first one is written, copied to a staging
//! folder, and appear under their final name by one rename; the record that makes them an installed
//! plugin follows, so that a process that is killed leaves the old or the new state. This crate does not
//! know what skills, hooks and MCP servers do.

mod beneath;
mod claimed;
mod contents;
pub mod declared;
mod error;
mod fetch;
mod git;
mod home;
mod install;
mod installed_file;
mod json;
mod lock;
pub mod manifest;
pub mod marketplace;
mod name;
mod record;
mod source;
mod tree;

pub use contents::{App, Contents, InlineHooks, Plugin};
pub use declared::Declared;
pub use error::{Error, Problem};
pub use git::Git;
pub use home::{Added, Configured, Home, Removed, Staged, Upgrade};
pub use install::Records;
pub use installed_file::InstalledFile;
pub use manifest::{Interface, Manifest};
pub use marketplace::{AuthPolicy, Entry, InstallPolicy, Marketplace};
pub use name::check_name;
pub use record::{Difference, Installed, difference};
pub use source::{MarketplaceSource, Source};
pub use tree::{LeftOut, MAX_BYTES, MAX_DEPTH, MAX_FILE_BYTES, MAX_FILES};
