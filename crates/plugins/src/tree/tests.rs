//! Tests of the rules for files.
