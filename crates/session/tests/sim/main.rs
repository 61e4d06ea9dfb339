//! The session driven through whole turns by a simulation: scripted model, commands and
//! clients, virtual time, explored orders, and a checker of what must hold in every run.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod approval_stories;
mod attempt_stories;
mod auto_review_stories;
mod chaos;
mod checker;
mod failing_provider;
mod hook_stories;
mod image_stories;
mod job_stories;
mod lasting;
mod outside;
mod permission_stories;
mod prompts;
mod question_stories;
mod refusal_stories;
mod repeated_call_stories;
mod response;
mod scenarios;
mod script;
mod server_stories;
mod simulation;
mod skill_stories;
mod stories;
mod sweeps;
mod typing_stories;
mod user_words_stories;
mod verdict_stories;
