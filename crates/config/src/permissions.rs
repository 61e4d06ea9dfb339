//! Reads permission profiles (`permissions.<name>`) with their paths and tokens. The sandbox
//! enforces what a profile allows.

use std::path::{Component, Path, PathBuf};

use policy::{Location, ProfileFiles, ProfileRule, Reach};

use crate::check::is_pattern;
use crate::error::Error;
use crate::key_path::join;
use crate::kind::ReadContext;
use crate::origin::Origin;
use crate::table::{Access, FileAccess, NetworkPermissions, Permissions, SandboxMode};
use crate::value::{Table, Value};

/// A permission profile.
#[derive(Debug, Clone, PartialEq)]
pub struct PermissionProfile {
    /// Its name below `permissions`.
    pub name: String,
    /// The access of commands to files. The deepest rule that covers a path applies.
    pub rules: Vec<ProfileRule>,
    /// The network of its commands, as configured.
    pub network: NetworkPermissions,
}

impl PermissionProfile {
    /// The strictest sandbox mode that allows all that this profile allows in the project at
    /// `project_root`. Requirements apply to it.
    pub fn mode(&self, project_root: &Path) -> SandboxMode {
        ProfileFiles::new(&self.rules, project_root, None).reach(self.network.enabled).into()
    }
}

impl From<Reach> for SandboxMode {
    fn from(reach: Reach) -> Self {
        match reach {
            Reach::Read => Self::ReadOnly,
            Reach::Workspace => Self::WorkspaceWrite,
            Reach::Everything => Self::DangerFullAccess,
        }
    }
}

impl From<Access> for policy::Access {
    fn from(access: Access) -> Self {
        match access {
            Access::None => Self::None,
            Access::Read => Self::Read,
            Access::Write => Self::Write,
        }
    }
}

/// Reads the profile `name`; `root` is the merged table, for the origins of errors.
///
/// # Errors
/// Every rule that cannot be used.
pub(crate) fn profile(
    name: &str,
    permissions: &Permissions,
    root: &Table,
    cx: &ReadContext<'_>,
) -> Result<PermissionProfile, Vec<Error>> {
    let (mut rules, mut mistakes) = (Vec::new(), Vec::new());
    for (text, access) in &permissions.filesystem {
        let path = vec!["permissions", name, "filesystem", text.as_str()];
        let key = RuleKey { path, root };
        let base = match key.base(text, cx) {
            Ok(base) => base,
            Err(mistake) => {
                mistakes.push(mistake);
                continue;
            }
        };
        match access {
            FileAccess::Whole(access) => {
                let rule = key.rule(base, None, *access);
                rule.map_or_else(|mistake| mistakes.push(mistake), |rule| rules.push(rule));
            }
            FileAccess::Nested(all) => {
                for (subpath, access) in all {
                    let key = key.below(subpath);
                    let rule = key.subpath(subpath);
                    let rule = rule.and_then(|path| key.rule(base.clone(), path, *access));
                    rule.map_or_else(|mistake| mistakes.push(mistake), |rule| rules.push(rule));
                }
            }
        }
    }
    if !mistakes.is_empty() {
        return Err(mistakes);
    }
    Ok(PermissionProfile { name: name.to_owned(), rules, network: permissions.network.clone() })
}

/// The key below which rules are read.
struct RuleKey<'k> {
    path: Vec<&'k str>,
    root: &'k Table,
}

impl<'k> RuleKey<'k> {
    fn below(&self, name: &'k str) -> Self {
        let path = self.path.iter().copied().chain([name]).collect();
        Self { path, root: self.root }
    }

    fn refused(&self, message: impl Into<String>) -> Error {
        Error::refused(&origin(self.root, &self.path), join(&self.path), message)
    }

    /// Refuses a pattern: it would be taken for the name of one file, and restrict no other.
    fn refuse_pattern(&self, text: &str) -> Result<(), Error> {
        if !is_pattern(text) {
            return Ok(());
        }
        Err(self.refused(format!(
            "`{text}` is a pattern, and patterns have no effect here; name each file or folder"
        )))
    }

    fn base(&self, text: &str, cx: &ReadContext<'_>) -> Result<Location, Error> {
        self.refuse_pattern(text)?;
        Ok(match text {
            ":root" => Location::Root,
            ":minimal" => Location::Minimal,
            // The second is the name of another agent for it.
            ":project_roots" | ":workspace_roots" => Location::ProjectRoots,
            ":tmpdir" => Location::Tmpdir,
            ":slash_tmp" => Location::SlashTmp,
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
                Location::Path(path)
            }
        })
    }

    fn rule(
        &self,
        base: Location,
        subpath: Option<PathBuf>,
        access: Access,
    ) -> Result<ProfileRule, Error> {
        if base == Location::Minimal && (subpath.is_some() || access != Access::Read) {
            return Err(self.refused("`:minimal` can only be `read`"));
        }
        Ok(ProfileRule { base, subpath, access: access.into() })
    }

    fn subpath(&self, text: &str) -> Result<Option<PathBuf>, Error> {
        if text == "." {
            return Ok(None);
        }
        self.refuse_pattern(text)?;
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
