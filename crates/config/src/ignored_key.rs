//! A configuration in which one key is as if it were not set, for the check of tests: the test that
//! shows the effect of a key must fail then. Not part of an optimized program.

use crate::environment::Environment;
use crate::kind::matches_pattern;
use crate::value::{Table, Value};

/// Names the key, as the reference page does: `mcp_servers.<id>.command`.
const VARIABLE: &str = "AGENTD_TEST_IGNORED_KEY";

/// Removes the key that the environment names.
pub(crate) fn remove(root: &mut Table, environment: &Environment<'_>) {
    if let Some(key) = (environment.variable)(VARIABLE) {
        let parts: Vec<&str> = key.split('.').collect();
        remove_at(root, &parts);
    }
}

fn remove_at(table: &mut Table, parts: &[&str]) {
    match parts {
        [] => {}
        [last] => table.retain(|name, _| !matches_pattern(last, name)),
        [first, rest @ ..] => {
            let below = table.iter_mut().filter(|(name, _)| matches_pattern(first, name));
            below.for_each(|(_, node)| remove_below(&mut node.value, rest));
        }
    }
}

fn remove_below(value: &mut Value, parts: &[&str]) {
    match value {
        Value::Table(table) => remove_at(table, parts),
        // The first part names the elements.
        Value::Array(all) => {
            let rest = parts.get(1..).unwrap_or_default();
            all.iter_mut().for_each(|node| remove_below(&mut node.value, rest));
        }
        _ => {}
    }
}
