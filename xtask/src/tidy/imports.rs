//! Circles of imports among the files of a crate. Files that import each other, directly or by way of
//! others, can only be understood together: they have at most [`MAX_FILES`] members.
//!
//! An import is what a `use` declaration or a path from `crate`, `super` or `self` names outside of
//! tests, followed through re-exports to the file that defines it. Declaring a module is no import.
//! Circles of modules, where names count as they are written: [`modules`].

mod modules;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemUse, UseTree, Visibility};

use super::finding::Finding;

const RULE: &str = "import-circles";
/// Files of one circle.
const MAX_FILES: usize = 3;
/// Circles that are larger, until they are taken apart: the crate, and how many files its largest
/// circle has. These only shrink.
const KNOWN: &[(&str, usize)] = &[];
/// Re-exports that are followed for one name.
const MAX_REEXPORTS: usize = 8;

pub(crate) fn check(root: &Path) -> Result<Vec<Finding>> {
    let mut findings = modules::check(root)?;
    for folder in source_folders(root)? {
        let name = folder.parent().and_then(Path::file_name).unwrap_or_default();
        let name = name.to_string_lossy();
        let known = KNOWN.iter().find(|(known, _)| *known == name).map(|(_, files)| *files);
        let circles = circles(&root.join(&folder))?;
        let largest = circles.first().map_or(1, Vec::len);
        if known.is_some_and(|known| known > largest.max(MAX_FILES)) {
            let message = format!(
                "the largest circle of `{name}` has {largest} files: correct the table in {}",
                file!()
            );
            findings.push(Finding::error(&folder, 0, RULE, message));
        }
        for circle in circles.iter().filter(|circle| circle.len() > known.unwrap_or(MAX_FILES)) {
            let files: Vec<String> = circle.iter().map(|file| file.display().to_string()).collect();
            let message = format!(
                "{} files import each other, {MAX_FILES} at most: move what they share into a file \
                 that imports none of them, or pass it in ({})",
                files.len(),
                files.join(", ")
            );
            findings.push(Finding::error(&folder, 0, RULE, message));
        }
    }
    Ok(findings)
}

/// A table of the circles of each crate, the largest first.
pub(crate) fn report(root: &Path) -> Result<String> {
    let mut report = String::new();
    for folder in source_folders(root)? {
        let circles = circles(&root.join(&folder))?;
        report.push_str(&format!("{}\n", folder.display()));
        for circle in &circles {
            let files: Vec<String> = circle.iter().map(|file| file.display().to_string()).collect();
            report.push_str(&format!("  {} files: {}\n", files.len(), files.join(" ")));
        }
        for circle in modules::circles(&root.join(&folder))? {
            report.push_str(&format!("  {} modules: {circle}\n", circle.modules.len()));
        }
    }
    Ok(report)
}

fn source_folders(root: &Path) -> Result<Vec<PathBuf>> {
    let mut folders = ["tools/src", "xtask/src"].map(PathBuf::from).to_vec();
    for entry in std::fs::read_dir(root.join("crates")).context("crates/")? {
        folders.push(Path::new("crates").join(entry?.file_name()).join("src"));
    }
    folders.retain(|folder| root.join(folder).is_dir());
    folders.sort();
    Ok(folders)
}

/// The circles among the files of a crate, relative to its `source` folder, the largest first.
fn circles(source: &Path) -> Result<Vec<Vec<PathBuf>>> {
    let modules = Modules::of(source)?;
    let mut graph: BTreeMap<PathBuf, BTreeSet<PathBuf>> = BTreeMap::new();
    for module in modules.by_path.values() {
        let imported = module.imports.iter().filter_map(|path| modules.file_of(path));
        let imported = imported.filter(|file| **file != module.file).cloned();
        graph.entry(module.file.clone()).or_default().extend(imported);
    }
    let relative = |file: &PathBuf| file.strip_prefix(source).unwrap_or(file).to_owned();
    let mut circles: Vec<Vec<PathBuf>> =
        components(&graph).iter().map(|files| files.iter().map(relative).collect()).collect();
    circles.sort_by_key(|circle| (usize::MAX - circle.len(), circle.first().cloned()));
    Ok(circles)
}

/// A module as far as names are concerned. Paths begin below `crate`.
#[derive(Default)]
struct Module {
    file: PathBuf,
    /// The paths that its code names.
    imports: Vec<Vec<String>>,
    /// The paths that it passes on by re-exports.
    passed_on: Vec<Vec<String>>,
    /// Names that `use` declarations bring in, and what they stand for.
    names: HashMap<String, Vec<String>>,
    /// Modules all of whose names are brought in.
    globs: Vec<Vec<String>>,
    /// Names that it defines.
    defined: BTreeSet<String>,
}

#[derive(Default)]
struct Modules {
    by_path: BTreeMap<Vec<String>, Module>,
}

impl Modules {
    /// The modules of the crate with this `source` folder.
    fn of(source: &Path) -> Result<Self> {
        let mut modules = Self::default();
        let root = ["lib.rs", "main.rs"].map(|name| source.join(name));
        if let Some(root) = root.iter().find(|file| file.is_file()) {
            modules.load(root, Vec::new(), source)?;
        }
        Ok(modules)
    }

    /// Reads `file`, the module at `path`, and the modules below it.
    fn load(&mut self, file: &Path, path: Vec<String>, source: &Path) -> Result<()> {
        let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let parsed = syn::parse_file(&text).with_context(|| file.display().to_string())?;
        self.add(&parsed.items, file, path, source)
    }

    fn add(&mut self, items: &[Item], file: &Path, path: Vec<String>, source: &Path) -> Result<()> {
        let mut reader = Reader { path: &path, module: Module::default() };
        reader.module.file = file.to_owned();
        let mut below = Vec::new();
        let items = items.iter().filter(|item| !is_test(attributes(item)));
        let (mut uses, mut rest) = (Vec::new(), Vec::new());
        for item in items {
            reader.module.defined.extend(defined(item));
            match item {
                Item::Mod(module) => below.push(module),
                Item::Use(_) => uses.push(item),
                item => rest.push(item),
            }
        }
        // What a path stands for is known once all that is brought in is.
        uses.into_iter().chain(rest).for_each(|item| reader.visit_item(item));
        let module = reader.module;
        self.by_path.insert(path.clone(), module);
        for module in below {
            let name = module.ident.to_string();
            let inner = [path.clone(), vec![name.clone()]].concat();
            match &module.content {
                Some((_, items)) => self.add(items, file, inner, source)?,
                None => {
                    let folder = source.join(path.iter().collect::<PathBuf>());
                    let named = explicit_path(&module.attrs)
                        .map(|path| file.parent().unwrap_or(source).join(path));
                    let candidates = [
                        named.unwrap_or_else(|| folder.join(format!("{name}.rs"))),
                        folder.join(&name).join("mod.rs"),
                    ];
                    if let Some(file) = candidates.iter().find(|file| file.is_file()) {
                        self.load(file, inner, source)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The file that defines what `path` names; `None` for another crate's.
    fn file_of(&self, path: &[String]) -> Option<&PathBuf> {
        let mut path = path.to_vec();
        for _ in 0..MAX_REEXPORTS {
            let (module, rest) = self.longest(&path)?;
            let Some(name) = rest.first() else { return Some(&module.file) };
            let next = match module.names.get(name) {
                Some(target) if !module.defined.contains(name) => target.clone(),
                _ if module.defined.contains(name) => return Some(&module.file),
                _ => match self.through_globs(module, name) {
                    Some(target) => target,
                    None => return Some(&module.file),
                },
            };
            path = [next, rest[1..].to_vec()].concat();
        }
        None
    }

    fn through_globs(&self, module: &Module, name: &String) -> Option<Vec<String>> {
        module.globs.iter().find_map(|glob| {
            let (found, rest) = self.longest(glob)?;
            let has = found.defined.contains(name) || found.names.contains_key(name);
            (rest.is_empty() && has).then(|| [glob.clone(), vec![name.clone()]].concat())
        })
    }

    /// The innermost module that `path` leads into, and the names after it.
    fn longest<'a>(&self, path: &'a [String]) -> Option<(&Module, &'a [String])> {
        (0..=path.len()).rev().find_map(|length| {
            self.by_path.get(&path[..length]).map(|module| (module, &path[length..]))
        })
    }
}

/// Collects what a module names.
struct Reader<'m> {
    path: &'m [String],
    module: Module,
}

impl Reader<'_> {
    /// The path below `crate`; `None` for what is not of this crate.
    fn resolve(&self, segments: &[String]) -> Option<Vec<String>> {
        let mut base = self.path.to_vec();
        let mut rest = segments;
        match rest.first().map(String::as_str) {
            Some("crate") => base.clear(),
            Some("self" | "super") => {}
            Some(name) if self.module.defined.contains(name) => {
                return Some([base, rest.to_vec()].concat());
            }
            _ => return None,
        }
        while let Some((first, after)) = rest.split_first() {
            match first.as_str() {
                "crate" | "self" => {}
                "super" => {
                    base.pop();
                }
                _ => break,
            }
            rest = after;
        }
        Some([base, rest.to_vec()].concat())
    }

    fn use_tree(&mut self, tree: &UseTree, prefix: &[String], public: bool) {
        match tree {
            UseTree::Path(path) => {
                let prefix = [prefix, &[path.ident.to_string()]].concat();
                self.use_tree(&path.tree, &prefix, public);
            }
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.use_tree(tree, prefix, public));
            }
            UseTree::Name(name) => {
                let name = name.ident.to_string();
                self.bring_in(prefix, &name, &name, public);
            }
            UseTree::Rename(rename) => {
                self.bring_in(
                    prefix,
                    &rename.ident.to_string(),
                    &rename.rename.to_string(),
                    public,
                );
            }
            UseTree::Glob(_) => {
                if let Some(module) = self.resolve(prefix) {
                    self.imported(public).push(module.clone());
                    self.module.globs.push(module);
                }
            }
        }
    }

    /// Where a name that is brought in is noted. A re-export needs nothing of what it names.
    fn imported(&mut self, public: bool) -> &mut Vec<Vec<String>> {
        if public { &mut self.module.passed_on } else { &mut self.module.imports }
    }

    fn bring_in(&mut self, prefix: &[String], name: &str, known_as: &str, public: bool) {
        let path = match name {
            "self" => prefix.to_vec(),
            name => [prefix, &[name.to_owned()]].concat(),
        };
        let Some(target) = self.resolve(&path) else { return };
        let known_as = if known_as == "self" { prefix.last().cloned() } else { None }
            .unwrap_or_else(|| known_as.to_owned());
        self.imported(public).push(target.clone());
        self.module.names.insert(known_as, target);
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let public = !matches!(item.vis, Visibility::Inherited);
        self.use_tree(&item.tree, &[], public);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> =
            path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        let first = segments.first().map(String::as_str);
        if matches!(first, Some("crate" | "super")) && segments.len() > 1 {
            self.module.imports.extend(self.resolve(&segments));
        } else if segments.len() > 1
            && let Some(module) = first.and_then(|first| self.module.names.get(first))
        {
            // `use crate::tools; … tools::Call`: the file that defines `Call`.
            let path = [module.clone(), segments[1..].to_vec()].concat();
            self.module.imports.push(path);
        } else if segments.len() > 1 && first.is_some_and(|it| self.module.defined.contains(it)) {
            self.module.imports.extend(self.resolve(&segments));
        }
        visit::visit_path(self, path);
    }

    fn visit_item(&mut self, item: &'ast Item) {
        if !is_test(attributes(item)) {
            visit::visit_item(self, item);
        }
    }
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Returns whether an item exists for tests only.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let syn::Meta::List(list) = &attribute.meta else {
            return attribute.path().is_ident("test");
        };
        attribute.path().is_ident("cfg")
            && list
                .tokens
                .to_string()
                .split(|c: char| !c.is_alphanumeric())
                .any(|word| word == "test")
            && !list.tokens.to_string().contains("not")
    })
}

fn defined(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Mod(item) => &item.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

/// `#[path = "…"]`.
fn explicit_path(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().find(|attribute| attribute.path().is_ident("path")).and_then(|attribute| {
        let syn::Meta::NameValue(pair) = &attribute.meta else { return None };
        let syn::Expr::Lit(literal) = &pair.value else { return None };
        let syn::Lit::Str(text) = &literal.lit else { return None };
        Some(text.value())
    })
}

/// The strongly connected components of more than one node, by Tarjan's algorithm.
fn components<N: Clone + Eq + Hash + Ord>(graph: &BTreeMap<N, BTreeSet<N>>) -> Vec<Vec<N>> {
    let mut search = Search {
        graph,
        index: HashMap::new(),
        low: HashMap::new(),
        stack: Vec::new(),
        found: Vec::new(),
    };
    for node in graph.keys() {
        if !search.index.contains_key(node) {
            search.connect(node);
        }
    }
    search.found.retain(|component| component.len() > 1);
    search.found.iter_mut().for_each(|component| component.sort());
    search.found
}

struct Search<'g, N> {
    graph: &'g BTreeMap<N, BTreeSet<N>>,
    index: HashMap<&'g N, usize>,
    low: HashMap<&'g N, usize>,
    stack: Vec<&'g N>,
    found: Vec<Vec<N>>,
}

impl<'g, N: Clone + Eq + Hash + Ord> Search<'g, N> {
    fn connect(&mut self, node: &'g N) {
        let at = self.index.len();
        self.index.insert(node, at);
        self.low.insert(node, at);
        self.stack.push(node);
        for next in self.graph.get(node).into_iter().flatten() {
            if !self.index.contains_key(next) {
                self.connect(next);
                self.lower(node, self.low[next]);
            } else if self.stack.contains(&next) {
                self.lower(node, self.index[next]);
            }
        }
        if self.low[node] == self.index[node]
            && let Some(from) = self.stack.iter().position(|other| *other == node)
        {
            self.found.push(self.stack.split_off(from).into_iter().cloned().collect());
        }
    }

    fn lower(&mut self, node: &'g N, to: usize) {
        self.low.entry(node).and_modify(|low| *low = to.min(*low));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crate_of(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            let file = folder.path().join(name);
            std::fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
            std::fs::write(file, text).expect("a file");
        }
        let circles = circles(folder.path()).expect("it can be read");
        let name = |file: &PathBuf| file.display().to_string();
        circles.iter().map(|circle| circle.iter().map(name).collect()).collect()
    }

    #[test]
    fn circles_are_found_through_re_exports_modules_and_paths() {
        for (files, expected) in [
            (
                &[
                    ("lib.rs", "mod a; mod b;"),
                    ("a.rs", "use crate::b::B;"),
                    ("b.rs", "pub struct B;"),
                ][..],
                &[][..],
            ),
            (
                &[
                    ("lib.rs", "mod a; mod b; pub use a::A;"),
                    ("a.rs", "use crate::b::B; pub struct A;"),
                    ("b.rs", "pub struct B(crate::A);"),
                ],
                &[&["a.rs", "b.rs"][..]],
            ),
            (
                &[
                    ("lib.rs", "mod a; use a::f; pub struct Id;"),
                    ("a/mod.rs", "mod c; pub fn f() { c::g() }"),
                    ("a/c.rs", "use super::super::Id; use crate::a; pub fn g() { a::f() }"),
                ],
                &[&["a/c.rs", "a/mod.rs", "lib.rs"]],
            ),
            (
                &[
                    ("lib.rs", "mod a; mod b;"),
                    ("a.rs", "#[cfg(test)] mod tests { use crate::b::B; } pub struct A;"),
                    ("b.rs", "use crate::a::A; pub struct B;"),
                ],
                &[],
            ),
        ] {
            assert_eq!(crate_of(files), expected, "{files:?}");
        }
    }
}
