//! Turns `config.toml` files, the command line and a thread's overrides into one typed [`Config`]
//! that satisfies `requirements.toml`. Reads only files: the caller names the folders and supplies
//! the environment variables.
//!
//! - [`table`] is the option table: each key is one entry, from which everything else is derived.
//! - A [`Layer`] holds the parsed and checked values of one source.
//! - A [`Stack`] holds the layers that apply in a folder; those of projects only if they are
//!   trusted.
//! - [`resolve`] merges a stack, constrains it by the [`Requirements`] and returns the [`Config`].
//!
//! # How a change takes effect
//!
//! Files (parsed once, read again only when they changed) → [`Stack`] → [`resolve`] → [`Config`].
//! A thread keeps the files that its configuration came from. When its next turn starts, it
//! compares their stamps, which reads no contents, and resolves again only when one changed. A
//! setting that still has the configuration's old value takes the new one; a setting that a client
//! chose is kept.

mod add_plugins;
mod check;
mod cloud;
pub mod docs;
pub mod edit;
mod environment;
mod error;
mod expected;
mod file_cache;
mod foreign;
mod form;
#[cfg(debug_assertions)]
mod ignored_key;
mod key_path;
pub mod kind;
mod layer;
mod layer_name;
mod options;
mod origin;
mod pending;
mod permissions;
mod plugin;
mod portable;
mod project_access;
mod provider;
mod renamed;
mod requirements;
mod requirements_layer;
mod resolve;
pub mod schema;
mod stack;
mod suggest;
mod syntax;
pub mod table;
mod thread_database;
mod trust;
mod unused_parts;
mod value;

pub use cloud::{AwsAuth, AwsContainer, CloudAuth, GoogleAuth};
pub use environment::Environment;
pub use error::{Error, Invalid, Strictness, Warning, WarningKind};
pub use file_cache::FileCache;
pub use key_path::{canonical as canonical_key, join as dotted_key, parts as key_parts};
pub use layer::{Layer, MAX_FILE_BYTES, value_of_argument, version};
pub use layer_name::LayerName;
pub use origin::{Origin, SourceFile, SourceRange};
pub use permissions::PermissionProfile;
pub use plugin::PluginParts;
pub use portable::{Portable, PortableSetting};
pub use provider::{HttpProvider, MissingCredential, Provider, Secret, TlsFiles};
pub use requirements::{
    FETCHED_REQUIREMENTS_FILE, FileHooks, MarketplaceSource, REQUIREMENTS_FILE, Replaced,
    RequiredRule, Requirements,
};
pub use resolve::{Config, Resolved, resolve, resolve_usable};
pub use stack::{CONFIG_FILE, Overrides, PROJECT_FOLDER, Stack, StackLayer};
pub use table::{
    Access, Agents, ApprovalPolicy, ApprovalsReviewer, EnvironmentInherit, Granular, NetworkMode,
    NetworkPermissions, OssProvider, Personality, ReasoningEffort, ReasoningSummary, SandboxMode,
    ServiceTier, ShellEnvironmentPolicy, Verbosity, WebSearch, WorkspaceWrite,
};
pub use thread_database::ThreadDatabase;
