//! Loaded threads: one actor each, which owns the session's machine and carries its effects out.

mod actor;
mod broadcast;
mod budget;
mod configuration;
mod event_log;
mod event_sender;
mod extra;
mod handle;
mod inspect;
mod journal;
mod mailbox;
mod model_stream;
mod panics;
mod patches;
mod questions;
mod replies;
mod running_commands;
mod step;
mod subscribers;
mod turn_hooks;
mod unstored;

pub(crate) use actor::Actor;
pub(crate) use broadcast::Broadcast;
pub(crate) use configuration::ThreadConfiguration;
pub(crate) use event_log::{EventPosition, ReplayGap};
pub(crate) use extra::Extra;
pub(crate) use handle::{AnswerSender, Command, Snapshot, ThreadHandle};
pub(crate) use inspect::{InspectionServices, ToolInspector};
pub(crate) use journal::Journal;
pub(crate) use mailbox::Mailbox;
pub(crate) use model_stream::{ModelStream, TurnBudget};
pub(crate) use questions::Questions;
pub(crate) use replies::Replies;
pub(crate) use running_commands::{CommandServices, RunningCommands};
pub(crate) use turn_hooks::TurnHooks;
