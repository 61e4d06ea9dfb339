//! Tests of the wire types and of the schema that is generated from them.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod members;
mod messages;
mod schema;
mod shapes;
mod tables;
