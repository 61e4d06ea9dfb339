//! Circles of modules. A name counts as it is written: `crate::peer::Peer` is an arrow to the module `peer`,
//! whatever file defines the type. So "may this module know that one?" has an answer that a reader sees.
//!
//! A top-level module is one room with everything below it: arrows inside it do not matter to its
//! neighbours. The same rule holds inside each room among the modules directly below its own file. The file
//! itself stands for the room and is no member, so children may use what it holds.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use anyhow::Result;

use super::{Modules, components, source_folders};
use crate::tidy::finding::Finding;

const RULE: &str = "module-circles";
/// Modules of one circle.
const MAX_MODULES: usize = 2;
/// Circles that are larger, until they are taken apart: the crate, and how many modules its largest
/// circle has. These only shrink.
const KNOWN: &[(&str, usize)] = &[];

/// Modules of one room that import each other, directly or by way of others.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ModuleCircle {
    /// Path of the room below `crate`; empty for the crate itself.
    room: Vec<String>,
    pub(super) modules: Vec<String>,
}

impl fmt::Display for ModuleCircle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let room: String = self.room.iter().map(|name| format!("{name}::")).collect();
        write!(f, "{room}{{{}}}", self.modules.join(", "))
    }
}

pub(super) fn check(root: &Path) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for folder in source_folders(root)? {
        let name = match folder.parent().and_then(Path::file_name) {
            Some(name) => name.to_string_lossy().into_owned(),
            None => continue,
        };
        let known = KNOWN.iter().find(|(known, _)| *known == name).map(|(_, modules)| *modules);
        let circles = circles(&root.join(&folder))?;
        let largest = circles.iter().map(|circle| circle.modules.len()).max().unwrap_or(1);
        if known.is_some_and(|known| known > largest) {
            let message = format!(
                "the largest circle of `{name}` has {largest} modules: correct the table in {}",
                file!()
            );
            findings.push(Finding::error(&folder, 0, RULE, message));
        }
        let bound = known.unwrap_or(MAX_MODULES);
        for circle in circles.iter().filter(|circle| circle.modules.len() > bound) {
            let message = format!(
                "{} modules import each other, {MAX_MODULES} at most: move what they share into a \
                 module that imports none of them, or pass it in ({circle})",
                circle.modules.len()
            );
            findings.push(Finding::error(&folder, 0, RULE, message));
        }
    }
    Ok(findings)
}

/// The circles of each room of the crate with this `source` folder.
pub(super) fn circles(source: &Path) -> Result<Vec<ModuleCircle>> {
    let modules = Modules::of(source)?;
    let rooms: BTreeSet<&[String]> =
        modules.by_path.keys().filter_map(|path| Some(path.split_last()?.1)).collect();
    let circles_of = |room: &[String]| {
        let room = room.to_vec();
        let circles = components(&graph(&modules, &room)).into_iter();
        circles.map(move |modules| ModuleCircle { room: room.clone(), modules })
    };
    Ok(rooms.into_iter().flat_map(circles_of).collect())
}

/// The arrows among the modules directly in `room`, each with all modules below it.
fn graph(modules: &Modules, room: &[String]) -> BTreeMap<String, BTreeSet<String>> {
    let member = |path: &[String]| {
        let name = path.strip_prefix(room)?.first()?;
        modules
            .by_path
            .contains_key(&[room, std::slice::from_ref(name)].concat())
            .then(|| name.clone())
    };
    let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (path, module) in &modules.by_path {
        let Some(from) = member(path) else { continue };
        let named = module.imports.iter().chain(&module.passed_on);
        let to = named.filter_map(|path| member(path)).filter(|to| *to != from);
        graph.entry(from.clone()).or_default().extend(to);
    }
    graph
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The circles of a crate, as they are shown.
    fn circles_of(files: &[(&str, &str)]) -> Vec<String> {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            let file = folder.path().join(name);
            std::fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
            std::fs::write(file, text).expect("a file");
        }
        let circles = circles(folder.path()).expect("it can be read");
        circles.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_name_is_an_arrow_to_the_module_in_its_path_whatever_file_defines_it() {
        let files = [
            ("lib.rs", "mod accounts; mod connection; mod server;"),
            ("accounts.rs", "use crate::connection::Peer; pub struct Accounts(Peer);"),
            ("connection.rs", "mod peer; pub use peer::Peer; use crate::server::Server;"),
            ("connection/peer.rs", "pub struct Peer;"),
            ("server.rs", "pub struct Server(crate::accounts::Accounts);"),
        ];
        assert_eq!(circles_of(&files), ["{accounts, connection, server}"]);
    }

    #[test]
    fn a_room_counts_with_all_modules_below_it() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "mod c;"),
            ("a/c.rs", "mod d;"),
            ("a/c/d.rs", "use crate::b::B;"),
            ("b.rs", "mod e; pub use e::B;"),
            ("b/e.rs", "pub struct B; fn f() { crate::a::c::g() }"),
        ];
        assert_eq!(circles_of(&files), ["{a, b}"]);
    }

    #[test]
    fn siblings_in_a_room_are_checked_and_the_file_of_the_room_is_no_member() {
        let files = [
            ("lib.rs", "mod a;"),
            ("a.rs", "mod b; mod c; mod d; use b::B; pub struct Id;"),
            ("a/b.rs", "use super::Id; use super::c::C; pub struct B;"),
            ("a/c.rs", "use super::d::D; pub struct C;"),
            ("a/d.rs", "use crate::a::b; use crate::a::Id; pub struct D(b::B);"),
        ];
        assert_eq!(circles_of(&files), ["a::{b, c, d}"]);
    }

    #[test]
    fn a_re_export_from_a_sibling_is_an_arrow_and_tests_are_not() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "pub use crate::b::B;"),
            ("b.rs", "use crate::a::A; pub struct B;"),
            ("c.rs", "#[cfg(test)] mod tests { use crate::a::B; }"),
        ];
        assert_eq!(circles_of(&files), ["{a, b}"]);
    }
}
