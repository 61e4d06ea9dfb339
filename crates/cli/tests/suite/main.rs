//! Tests of the program as its users run it: real processes in a home of their own.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stdout)]

mod acp;
mod agent_jobs;
mod agents;
mod app_server;
mod browser;
mod commands;
mod common;
mod config;
mod config_repairs;
mod config_writes;
mod crash;
#[cfg(target_os = "linux")]
mod dead_mounts;
mod demo;
mod dialect;
#[cfg(unix)]
mod doctor;
#[cfg(unix)]
mod doors;
mod exec;
#[cfg(target_os = "linux")]
mod first_day;
#[cfg(target_os = "linux")]
mod flood;
#[cfg(unix)]
mod gateway;
#[cfg(unix)]
mod gateway_backup;
#[cfg(unix)]
mod gateway_nodes;
mod hooks;
mod import;
#[cfg(unix)]
mod listen;
#[cfg(unix)]
mod login;
mod mcp;
mod mcp_server;
mod mcp_server_http;
#[cfg(unix)]
mod pacing;
mod plugins;
#[cfg(unix)]
mod proxy;
mod review;
#[cfg(unix)]
mod sdk;
mod sequences;
mod skills;
#[cfg(unix)]
mod store;
#[cfg(unix)]
mod systemd;
#[cfg(target_os = "linux")]
mod terminal;
#[cfg(unix)]
mod termination;
mod threads;
#[cfg(unix)]
mod web;
mod worktree;
