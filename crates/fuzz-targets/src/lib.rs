//! Fuzz targets: functions of bytes that panic when a parser breaks its promise. `cargo xtask fuzz` runs
//! them with generated inputs (the package `fuzz`, outside of the workspace), the tests of this crate with
//! the seeds, the dictionaries and inputs near them.

pub mod catalog;
pub mod gateway_answer;
pub mod gateway_body;
pub mod gateway_multipart;
pub mod hooks;
pub mod images;
mod input;
pub mod limits;
pub mod markdown;
pub mod migration;
pub mod output;
pub mod patch;
pub mod plugins;
pub mod realtime;
pub mod rules;
pub mod search;
pub mod shell;
pub mod skill;
pub mod token;
pub mod tool_schema;
pub mod websocket;
pub mod wire;

/// A function that panics when it is given bytes that show a defect.
pub type Run = fn(&[u8]);

/// The targets with their names.
pub const TARGETS: &[(&str, Run)] = &[
    ("catalog", catalog::run),
    ("gateway_answer", gateway_answer::run),
    ("gateway_body", gateway_body::run),
    ("gateway_multipart", gateway_multipart::run),
    ("hooks", hooks::run),
    ("images", images::run),
    ("limits", limits::run),
    ("markdown", markdown::run),
    ("migration", migration::run),
    ("output", output::run),
    ("patch", patch::run),
    ("plugins", plugins::run),
    ("realtime", realtime::run),
    ("rules", rules::run),
    ("search", search::run),
    ("shell", shell::run),
    ("skill", skill::run),
    ("token", token::run),
    ("tool_schema", tool_schema::run),
    ("websocket", websocket::run),
    ("wire", wire::run),
];
