//! Turns `config.toml` files, the command line and a thread's overrides into one typed [`Config`],
//! within what `requirements.toml` allows. Reads files and nothing else of the world: the caller
//! names the folders and passes a lookup for the environment.
//!
//! - [`table`] is the option table: every key is one entry, and everything else follows from it.
//! - A [`Layer`] is what one source says: parsed, checked, nothing resolved.
//! - A [`Stack`] is the layers that hold in a folder, found and, for projects, trusted.
//! - [`resolve`] merges a stack, constrains it by the [`Requirements`] and yields the [`Config`].

mod check;
pub mod docs;
pub mod edit;
mod error;
mod files;
mod held_off;
mod key_path;
pub mod kind;
mod layer;
mod layer_name;
mod options;
mod permissions;
mod provider;
mod requirements;
mod requirements_layer;
mod resolve;
pub mod schema;
mod stack;
mod suggest;
pub mod table;
mod trust;
mod value;

pub use error::{Error, Invalid, Origin, Place, SourceFile, Warning, WarningKind};
pub use files::Files;
pub use key_path::join as dotted_key;
pub use layer::{Layer, MAX_FILE_BYTES, value_of_argument, version};
pub use layer_name::LayerName;
pub use permissions::{PermissionPlace, PermissionProfile, PermissionRule};
pub use provider::{HttpProvider, NotReady, Provider, Secret};
pub use requirements::{
    FETCHED_REQUIREMENTS_FILE, REQUIREMENTS_FILE, Replaced, RequiredRule, Requirements,
};
pub use resolve::{Config, Resolved, resolve};
pub use stack::{CONFIG_FILE, Given, PROJECT_FOLDER, Stack, StackLayer, Surroundings};
pub use table::{
    Access, ApprovalPolicy, EnvironmentInherit, Granular, NetworkMode, NetworkPermissions,
    Personality, ReasoningEffort, ReasoningSummary, SandboxMode, ServiceTier,
    ShellEnvironmentPolicy, Verbosity, WebSearch, WorkspaceWrite,
};
