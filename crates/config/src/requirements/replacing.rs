//! Replaces a value that requirements do not allow, and says why.

use crate::error::{Warning, WarningKind};
use crate::key_path::join;
use crate::layer::nested;
use crate::origin::Origin;
use crate::value::{Node, Table, Value, merge};

pub(super) fn described(key: &str, origin: &Origin) -> String {
    format!("the requirement `{key}` ({origin})")
}

pub(super) fn replace(
    root: &mut Table,
    path: &[&str],
    json: &serde_json::Value,
    requirement: &str,
    origin: &Origin,
) -> Option<Warning> {
    let mut table = Some(&*root);
    let mut written = None;
    for part in path {
        written = table.and_then(|table| table.get(*part));
        table = match written.map(|node| &node.value) {
            Some(Value::Table(inner)) => Some(inner),
            _ => None,
        };
    }
    let warning = written.map(|node| Warning {
        origin: node.origin.clone(),
        key: join(path),
        message: format!("{requirement} does not allow this value; using {json} instead"),
        kind: WarningKind::Replaced,
    });
    let parts: Vec<String> = path.iter().map(|part| (*part).to_owned()).collect();
    merge(root, &nested(&parts, Node::from_json(json, origin)));
    warning
}
