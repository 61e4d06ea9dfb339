//! Skills: folders with a `SKILL.md` whose front matter says what they are for, and whose text tells an
//! agent how to do it (the public Agent Skills format).
//!
//! This crate finds, reads and checks skills, and writes the catalog that a model is sent. It runs
//! nothing, writes nothing, and does not know who uses a skill.

pub mod catalog;
mod copies;
mod definition;
mod discover;
mod front_matter;
mod problem;
mod skill;
mod template;
mod validate;
mod variables;

pub use definition::{Dependencies, Dependency, Interface};
pub use discover::{Found, Root, discover};
pub use front_matter::{Field, FrontMatter, MAX_FRONT_MATTER_BYTES, Value, parse};
pub use problem::{Fault, Problem};
pub use skill::{MAX_SKILL_BYTES, SKILL_FILE, Scope, Skill, check, read_body};
pub use template::template;
pub use validate::{Report, check_name, validate};
