//! Tests of confinement, with real processes in the real sandbox.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod attacks;
mod broker;
mod common;
mod confinement;
mod egress;
mod files;
mod guarded;
mod hostile;
mod kept;
mod lifecycle;
mod limits;
mod limits_of_groups;
mod profiles;
mod races;
mod ready;
mod streams;
