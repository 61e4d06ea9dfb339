//! Runs commands confined by a permission policy.

pub mod rules;
