//! Tests of watching, on real folders that change.

mod history;
mod picture;
mod rest;
mod watching;
