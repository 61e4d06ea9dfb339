//! Reads permission profiles (`permissions.<name>`) with their paths and tokens. The sandbox
//! enforces what a profile allows.

use std::path::{Component, Path, PathBuf};

use crate::error::{Error, Origin};
use crate::key_path::join;
use crate::kind::ReadContext;
use crate::table::{Access, FileAccess, NetworkPermissions, Permissions, SandboxMode};
use crate::value::{Table, Value};

/// A permission profile.
#[derive(Debug, Clone, PartialEq)]
pub struct PermissionProfile {
    /// Its name below `permissions`.
    pub name: String,
    /// The access of commands to files. The deepest rule that covers a path applies.
    pub rules: Vec<PermissionRule>,
    /// The network of its commands, as configured.
    pub network: NetworkPermissions,
}

/// One rule of a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionRule {
    /// The base of `subpath`.
    pub base: PermissionBase,
    /// A relative path without `..`; `None` is the base itself.
    pub subpath: Option<PathBuf>,
    /// The access that is allowed there.
    pub access: Access,
}

/// Where a rule applies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PermissionBase {
    /// `:root`: the whole file system.
    Root,
    /// `:minimal`: what the system's programs need to run.
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
    /// The strictest sandbox mode that allows all that this profile allows. Requirements apply to
    /// it.
    pub fn mode(&self) -> SandboxMode {
        let writes = |rule: &&PermissionRule| rule.access == Access::Write;
        let everywhere = |rule: &PermissionRule| {
            rule.subpath.is_none()
                && match &rule.base {
                    PermissionBase::Root => true,
                    PermissionBase::Path(path) => path == Path::new("/"),
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

/// Reads the profile `name`; `root` is the merged table, for the origins of errors.
pub(crate) fn profile(
    name: &str,
    permissions: &Permissions,
    root: &Table,
    cx: &ReadContext<'_>,
) -> Result<PermissionProfile, Error> {
    let mut rules = Vec::new();
    for (text, access) in &permissions.filesystem {
        let key = RuleKey { path: ["permissions", name, "filesystem", text.as_str()], root };
        let base = key.base(text, cx)?;
        match access {
            FileAccess::Whole(access) => rules.push(key.rule(base, None, *access)?),
            FileAccess::Nested(all) => {
                for (subpath, access) in all {
                    rules.push(key.rule(base.clone(), key.subpath(subpath)?, *access)?);
                }
            }
        }
    }
    Ok(PermissionProfile { name: name.to_owned(), rules, network: permissions.network.clone() })
}

/// The key below which rules are read.
struct RuleKey<'k> {
    path: [&'k str; 4],
    root: &'k Table,
}

impl RuleKey<'_> {
    fn refused(&self, message: impl Into<String>) -> Error {
        Error::refused(&origin(self.root, &self.path), join(&self.path), message)
    }

    fn base(&self, text: &str, cx: &ReadContext<'_>) -> Result<PermissionBase, Error> {
        Ok(match text {
            ":root" => PermissionBase::Root,
            ":minimal" => PermissionBase::Minimal,
            ":project_roots" => PermissionBase::ProjectRoots,
            ":tmpdir" => PermissionBase::Tmpdir,
            ":slash_tmp" => PermissionBase::SlashTmp,
            _ if text.starts_with(':') => {
                return Err(self.refused(
                    "unknown token; the tokens are `:root`, `:minimal`, `:project_roots`, \
                     `:tmpdir` and `:slash_tmp`",
                ));
            }
            _ => {
                let path = match (text.strip_prefix("~/"), &cx.user_home) {
                    (Some(rest), Some(home)) => home.join(rest),
                    _ => PathBuf::from(text),
                };
                let plain = path.components().all(|part| !matches!(part, Component::ParentDir));
                if !path.is_absolute() || !plain {
                    return Err(self.refused(
                        "write an absolute path or one that starts with `~/`, without `..`",
                    ));
                }
                PermissionBase::Path(path)
            }
        })
    }

    fn rule(
        &self,
        base: PermissionBase,
        subpath: Option<PathBuf>,
        access: Access,
    ) -> Result<PermissionRule, Error> {
        if base == PermissionBase::Minimal && (subpath.is_some() || access != Access::Read) {
            return Err(self.refused("`:minimal` can only be `read`"));
        }
        Ok(PermissionRule { base, subpath, access })
    }

    fn subpath(&self, text: &str) -> Result<Option<PathBuf>, Error> {
        if text == "." {
            return Ok(None);
        }
        let path = Path::new(text);
        let inside =
            path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if text.is_empty() || !inside || text.contains('\0') {
            return Err(self.refused(format!(
                "the subpath `{text}` leaves its folder; write a relative path without `..`, or `.`"
            )));
        }
        Ok(Some(path.to_owned()))
    }
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
