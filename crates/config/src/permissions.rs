//! Permission profiles as configured (`permissions.<name>`): their paths and tokens read. What a
//! profile allows is enforced elsewhere.

use std::path::{Component, Path, PathBuf};

use crate::error::{Error, Origin};
use crate::key_path::join;
use crate::kind::Reading;
use crate::table::{Access, FileAccess, NetworkPermissions, Permissions, SandboxMode};
use crate::value::{Table, Value};

/// A permission profile.
#[derive(Debug, Clone, PartialEq)]
pub struct PermissionProfile {
    /// Its name below `permissions`.
    pub name: String,
    /// What commands may do to files. The deepest rule that covers a path decides.
    pub rules: Vec<PermissionRule>,
    /// Its network, as written.
    pub network: NetworkPermissions,
}

/// One rule of a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionRule {
    /// The place.
    pub place: PermissionPlace,
    /// Below that place; `None` is the place itself. Relative, and never upwards.
    pub subpath: Option<PathBuf>,
    /// What is allowed there.
    pub access: Access,
}

/// Where a rule holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PermissionPlace {
    /// `:root`: the whole file system.
    Root,
    /// `:minimal`: what programs of the system need to run.
    Minimal,
    /// `:project_roots`: the root of the project.
    ProjectRoots,
    /// `:tmpdir`: the folder that `$TMPDIR` names.
    Tmpdir,
    /// `:slash_tmp`: `/tmp`.
    SlashTmp,
    /// An absolute path.
    Path(PathBuf),
}

impl PermissionProfile {
    /// The sandbox mode that is at least as loose as this profile: what requirements judge it by.
    pub fn mode(&self) -> SandboxMode {
        let writes = |rule: &&PermissionRule| rule.access == Access::Write;
        let everywhere = |rule: &PermissionRule| {
            rule.subpath.is_none()
                && match &rule.place {
                    PermissionPlace::Root => true,
                    PermissionPlace::Path(path) => path == Path::new("/"),
                    _ => false,
                }
        };
        let mut written = self.rules.iter().filter(writes).peekable();
        if written.peek().is_none() && !self.network.enabled {
            return SandboxMode::ReadOnly;
        }
        if written.any(everywhere) {
            return SandboxMode::DangerFullAccess;
        }
        SandboxMode::WorkspaceWrite
    }
}

/// Reads the profile `name`; `root` is the merged table, for the places of errors.
pub(crate) fn profile(
    name: &str,
    permissions: &Permissions,
    root: &Table,
    cx: &Reading<'_>,
) -> Result<PermissionProfile, Error> {
    let mut rules = Vec::new();
    for (text, access) in &permissions.filesystem {
        let path = ["permissions", name, "filesystem", text.as_str()];
        let refused = |message: String| Error::Refused {
            origin: origin(root, &path),
            key: join(&path),
            message,
        };
        let place = place(text, cx).map_err(refused)?;
        match access {
            FileAccess::Whole(access) => rules.push(rule(place, None, *access).map_err(refused)?),
            FileAccess::Nested(all) => {
                for (subpath, access) in all {
                    let subpath = below(subpath).map_err(refused)?;
                    rules.push(rule(place.clone(), subpath, *access).map_err(refused)?);
                }
            }
        }
    }
    Ok(PermissionProfile { name: name.to_owned(), rules, network: permissions.network.clone() })
}

fn place(text: &str, cx: &Reading<'_>) -> Result<PermissionPlace, String> {
    Ok(match text {
        ":root" => PermissionPlace::Root,
        ":minimal" => PermissionPlace::Minimal,
        ":project_roots" => PermissionPlace::ProjectRoots,
        ":tmpdir" => PermissionPlace::Tmpdir,
        ":slash_tmp" => PermissionPlace::SlashTmp,
        _ if text.starts_with(':') => {
            return Err("there is no such token; the tokens are `:root`, `:minimal`, \
                        `:project_roots`, `:tmpdir` and `:slash_tmp`"
                .to_owned());
        }
        _ => {
            let path = match (text.strip_prefix("~/"), &cx.user_home) {
                (Some(rest), Some(home)) => home.join(rest),
                _ => PathBuf::from(text),
            };
            let plain = path.components().all(|part| !matches!(part, Component::ParentDir));
            if !path.is_absolute() || !plain {
                return Err("a path here is absolute, or starts with `~/`, and has no `..`".into());
            }
            PermissionPlace::Path(path)
        }
    })
}

fn rule(
    place: PermissionPlace,
    subpath: Option<PathBuf>,
    access: Access,
) -> Result<PermissionRule, String> {
    if place == PermissionPlace::Minimal && (subpath.is_some() || access != Access::Read) {
        return Err("`:minimal` can only be `read`".to_owned());
    }
    Ok(PermissionRule { place, subpath, access })
}

fn below(text: &str) -> Result<Option<PathBuf>, String> {
    if text == "." {
        return Ok(None);
    }
    let path = Path::new(text);
    let inside =
        path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if text.is_empty() || !inside || text.contains('\0') {
        return Err(format!(
            "the subpath `{text}` leaves its folder; write a relative path without `..`, or `.`"
        ));
    }
    Ok(Some(path.to_owned()))
}

fn origin(root: &Table, path: &[&str]) -> Origin {
    let mut table = Some(root);
    let mut origin = Origin::Process;
    for part in path {
        let Some(node) = table.and_then(|table| table.get(*part)) else { break };
        origin = node.origin.clone();
        table = match &node.value {
            Value::Table(inner) => Some(inner),
            _ => None,
        };
    }
    origin
}
