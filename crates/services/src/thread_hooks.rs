//! Hooks of the configuration: which apply in a folder, whether the user trusts them, and their runs.
//! The crate `hooks` knows the formats; the session decides when hooks run and what their answers
//! change.

mod command;
mod notifications;
mod runner;
mod sources;

pub use notifications::{HookReport, event_name, handler_type, hook_source};
pub use runner::{EndedHook, HookPlace, HookRunner, ModelRequest, UsageLog, prompt_with};
pub use sources::{LoadedHook, LoadedHooks, Trust, key_in_plugin, load, load_all};
