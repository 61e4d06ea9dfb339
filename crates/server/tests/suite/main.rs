//! Tests of the server over its protocol: whole conversations over a connection, with a scripted
//! model behind real loopback HTTP, the real sandbox and a real store. One file for each area of
//! the protocol.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod accounts;
mod agent_jobs;
mod agents;
mod answers;
mod approvals;
mod apps;
mod archive;
mod auto_review;
mod background;
mod bad_provider;
mod bad_websocket;
mod budgets;
mod client_processes;
mod command_limits;
mod commands;
mod compaction;
mod config_effects;
mod config_rpc;
mod configuration;
mod connections;
mod costs;
mod crashes;
mod dynamic_tools;
mod elicitations;
mod elsewhere;
mod error_kinds;
mod external_agents;
mod failed_calls;
mod failures;
mod feedback;
mod flow;
mod forks;
mod fs;
mod fs_watch;
mod fuzz;
mod fuzzy_file_search;
mod git_marketplaces;
mod goals;
mod handshake;
mod history;
mod homes;
mod hooks;
mod hosted;
mod idle_sleep;
mod images;
mod import;
mod inject;
mod joining;
mod lines;
mod links;
#[path = "../../../account/tests/suite/login_service.rs"]
mod login_service;
mod lost_leases;
mod managed_network;
mod mcp_clients;
mod mcp_http;
mod mcp_lives;
mod mcp_questions;
mod mcp_servers;
mod mcp_skills;
mod mcp_turns;
mod memories;
mod methods;
mod metrics_page;
mod models;
mod output_order;
mod panics;
mod parameters;
mod patches;
mod permission_requests;
mod permissions;
mod planning;
mod plugins;
#[cfg(target_os = "linux")]
mod policies;
#[cfg(unix)]
mod project_documents;
mod prompt_cache;
mod provider_table;
mod providers;
mod questions;
mod queues;
mod rate_limits;
mod realtime;
mod reconnect;
mod requirements;
mod reviews;
mod rules;
#[cfg(unix)]
mod schema_order;
#[cfg(unix)]
mod searches;
mod skill_needs;
#[cfg(unix)]
mod skills;
mod special_files;
mod steering;
mod stored_facts;
mod streaming;
mod telemetry;
mod threads;
mod token_expiry;
mod tool_search;
mod two_clients;
mod typing;
mod undo;
mod unstored;
mod updates;
mod user_shell;
mod verdicts;
mod waiting;
mod web_search;
mod wires;
mod worktrees;

use serde_json::{Value, json};

/// A response of the model with this text.
fn says(text: &str) -> Value {
    json!({ "steps": [{ "message": text }] })
}

/// A response of the model with a tool call.
fn calls(name: &str, arguments: Value) -> Value {
    json!({ "steps": [{ "function_call": { "name": name, "arguments": arguments } }] })
}

/// A response of the model with a command.
fn runs(command: &str) -> Value {
    calls("exec_command", json!({ "cmd": command }))
}

/// A response of the model with a patch.
fn patches(body: &str) -> Value {
    let input = format!("*** Begin Patch\n{body}\n*** End Patch\n");
    json!({ "steps": [{ "custom_tool_call": { "name": "apply_patch", "input": input } }] })
}

/// The outputs of tools in the last request to the model, oldest first.
fn tool_outputs(env: &testkit::TestEnvironment) -> Vec<String> {
    let requests = env.model().requests();
    let input = requests.last().and_then(|request| request["input"].as_array());
    let outputs = input.into_iter().flatten().filter_map(|item| item["output"].as_str());
    outputs.map(str::to_owned).collect()
}
