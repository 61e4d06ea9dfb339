//! The whole state machine on an emulated terminal, with a server that the test plays.
#![allow(clippy::unwrap_used)]

mod access;
mod app;
mod attempts;
mod cells;
mod colours;
mod commands;
mod dialogs;
mod harness;
mod images;
mod input;
mod joining;
mod notices;
mod other_server;
mod pictures;
mod queue;
mod quiet;
mod reading;
mod screen;
mod start;
mod states;
mod storm;
mod terminals;
mod tmux;
mod vi;
mod worktrees;
