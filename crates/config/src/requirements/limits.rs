//! Requirements on the limits of commands: the highest value of each.

use std::collections::BTreeMap;

use super::replacing::{described, replace};
use crate::error::Warning;
use crate::key_path::join;
use crate::origin::Origin;
use crate::requirements_layer::RequirementsLayer;
use crate::table::{CommandLimits, ThreadLimits};
use crate::value::{Table, Value};

const OF_COMMANDS: &str = "command_limits";
const OF_THREADS: &str = "thread_limits";

/// The highest values of limits.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Ceilings {
    /// By table and key. The lowest of all files.
    by_key: BTreeMap<(&'static str, &'static str), (u64, Origin)>,
}

impl Ceilings {
    pub(super) fn narrow(&mut self, layer: &RequirementsLayer) {
        let (command, thread) = (&layer.file.command_limits, &layer.file.thread_limits);
        for (table, key, ceiling) in [
            (OF_COMMANDS, "memory_mib", command.memory_mib),
            (OF_COMMANDS, "processes", command.processes),
            (OF_COMMANDS, "cpu_seconds", command.cpu_seconds),
            (OF_COMMANDS, "disk_written_mib", command.disk_written_mib),
            (OF_COMMANDS, "file_mib", command.file_mib),
            (OF_COMMANDS, "output_mib", command.output_mib),
            (OF_THREADS, "memory_mib", thread.memory_mib),
            (OF_THREADS, "processes", thread.processes),
            (OF_THREADS, "cpu_seconds", thread.cpu_seconds),
            (OF_THREADS, "disk_written_mib", thread.disk_written_mib),
        ] {
            let Some(ceiling) = ceiling else { continue };
            let known = self.by_key.get(&(table, key)).map(|(known, _)| *known);
            if known.is_none_or(|known| *ceiling < known) {
                self.by_key.insert((table, key), (*ceiling, layer.origin(&[table, key])));
            }
        }
    }

    /// The ceiling of a key of the configuration.
    pub(super) fn of(&self, key: &str) -> Option<u64> {
        let (table, key) = key.split_once('.')?;
        let mut found = self.by_key.iter().filter(|((of, name), _)| *of == table && *name == key);
        found.next().map(|(_, (ceiling, _))| *ceiling)
    }

    /// Replaces limits that are too high, and those that are off. A limit that is not set and has no fixed default is
    /// lowered where it is used.
    pub(super) fn constrain(&self, root: &mut Table) -> Vec<Warning> {
        let mut warnings = Vec::new();
        for ((table, key), (ceiling, origin)) in &self.by_key {
            let written = match root.get(*table).map(|node| &node.value) {
                Some(Value::Table(keys)) => match keys.get(*key).map(|node| &node.value) {
                    Some(Value::Integer(number)) => u64::try_from(*number).ok(),
                    _ => None,
                },
                _ => None,
            };
            let Some(wanted) = written.or_else(|| default_of(table, key)) else { continue };
            if wanted == 0 || wanted > *ceiling {
                let requirement = described(&join(&[table, key]), origin);
                let json = (*ceiling).into();
                warnings.extend(replace(root, &[table, key], &json, &requirement, origin));
            }
        }
        warnings
    }
}

fn default_of(table: &str, key: &str) -> Option<u64> {
    let section = if table == OF_COMMANDS { CommandLimits::SECTION } else { ThreadLimits::SECTION };
    (section.entry(key)?.default)()?.as_u64()
}
