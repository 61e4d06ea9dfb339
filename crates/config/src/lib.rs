//! Turns `config.toml`, command-line overrides and a thread's overrides into one typed [`Config`].
//! It reads no environment and no folder by itself: the caller names the file and passes a lookup.
//!
//! Two steps, two kinds of types: a [`Layer`] is what one source says (parsed, checked against
//! [`keys::KEYS`], nothing resolved); [`resolve`] merges layers and yields a [`Config`] with every
//! default applied. A layer is parsed once and merged as often as threads start.

mod check;
mod error;
mod key_path;
pub mod keys;
mod layer;
mod provider;
mod reader;
mod resolve;
mod suggest;
mod types;
mod value;

pub use error::{Error, Invalid, Origin, Warning};
pub use layer::{Layer, MAX_FILE_BYTES};
pub use provider::{HttpProvider, NotReady, Provider, Secret};
pub use resolve::{Config, Surroundings, resolve};
pub use types::{
    ApprovalPolicy, EnvironmentInherit, Granular, Personality, ReasoningEffort, ReasoningSummary,
    SandboxMode, ServiceTier, ShellEnvironmentPolicy, Verbosity, WorkspaceWrite,
};
