//! Tests of the rules with a simulated file system.

mod files;
mod ordinary;
mod parsing;
mod prefixes;
mod rule_files;
mod safety;
mod showing;

use std::path::{Path, PathBuf};

use super::resolver::normalize;
use super::{Context, GitUse, Resolver};

/// `/usr/bin` holds every program, `/bin` is the same folder, `/opt/tools` is outside of
/// `PATH`; anything else is not trusted. Repositories below `/hostile` name programs, those
/// below `/modules` have submodules.
pub(super) struct Machine;

impl Resolver for Machine {
    fn resolve(&self, program: &str, cwd: &Path) -> Option<PathBuf> {
        if program.is_empty() || program == "missing" {
            return None;
        }
        if !program.contains('/') {
            return Some(Path::new("/usr/bin").join(program));
        }
        let path = normalize(&cwd.join(program));
        let name = path.file_name()?;
        match path.parent()?.to_str()? {
            "/usr/bin" | "/bin" => Some(Path::new("/usr/bin").join(name)),
            "/opt/tools" => Some(path),
            _ => None,
        }
    }

    fn git_is_inert(&self, dir: &Path, usage: GitUse) -> bool {
        let modules = dir.starts_with("/modules") && usage == GitUse::WorkTree;
        !dir.starts_with("/hostile") && !modules
    }
}

pub(super) fn at(cwd: &'static str) -> Context<'static> {
    Context { cwd: Path::new(cwd), resolver: &Machine }
}

pub(super) fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}
