//! Tests of the store over its public interface, with files in a temporary folder.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod common;
mod crash;
mod files;
mod jobs;
mod joined;
mod leases;
mod lineage;
mod lists;
mod lost_turns;
mod migration;
mod nodes;
mod outages;
mod postgres;
mod queue;
mod round_trips;
mod salvage;
mod taken_away;
mod text_search;
mod transfer;
mod usage;
