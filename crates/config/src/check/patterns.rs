//! Text with wildcards where the program takes it for a name: without this check it would match
//! nothing, and restrict or grant nothing, without a word.

use super::weight::is;

/// Keys whose text is a name, and what of. `*` stands for any name or index.
const NAMES: [(&str, &str); 15] = [
    ("apps.*", "the id of an app"),
    ("apps.*.tools.*", "the name of a tool"),
    ("mcp_servers.*.disabled_tools.*", "the name of a tool"),
    ("mcp_servers.*.enabled_tools.*", "the name of a tool"),
    ("mcp_servers.*.env_vars.*", "the name of a variable"),
    ("mcp_servers.*.tools.*", "the name of a tool"),
    ("permissions.*.network.allow_unix_sockets.*", "the path of a socket"),
    ("plugins.*", "the id of a plugin"),
    ("project_doc_fallback_filenames.*", "the name of a file"),
    ("project_root_markers.*", "the name of a file or folder"),
    ("projects.*", "the path of a folder"),
    ("sandbox_workspace_write.writable_roots.*", "the path of a folder"),
    ("shell_environment_policy.set.*", "the name of a variable"),
    ("skills.config.*.path", "the path of a folder"),
    ("notice.model_migrations.*", "the id of a model"),
];
/// Those of these whose text is a path, in which brackets and braces are letters like others.
const PATHS: [&str; 5] = [
    "project_doc_fallback_filenames.*",
    "project_root_markers.*",
    "projects.*",
    "sandbox_workspace_write.writable_roots.*",
    "skills.config.*.path",
];
/// Keys whose text may have the wildcards `*` and `?`, but no others.
const PLAIN_GLOBS: [&str; 2] =
    ["shell_environment_policy.exclude.*", "shell_environment_policy.include_only.*"];

/// True if a text would be a pattern of some kind: `*.env`, `a?`, `[ab].env`, `{a,b}`, `!a`.
pub(crate) fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '[', ']', '{', '}']) || text.starts_with('!')
}

/// The text that `key` needs instead of a pattern; `None` where `text` is no pattern, or acts as one.
pub(crate) fn instead_of_pattern(key: &[String], text: &str) -> Option<String> {
    let has_wildcard = text.contains(['*', '?']);
    if is_pattern(text)
        && let Some((_, what)) = NAMES.iter().find(|(name, _)| is(key, name))
        && (has_wildcard || !PATHS.iter().any(|path| is(key, path)))
    {
        return Some(format!("{what}, since patterns have no effect here"));
    }
    let is_glob = || PLAIN_GLOBS.iter().any(|glob| is(key, glob));
    (text.contains(['[', ']', '{', '}']) && is_glob()).then(|| {
        "the name of a variable, in which `*` stands for any characters and `?` for one; other \
         patterns have no effect here"
            .to_owned()
    })
}
