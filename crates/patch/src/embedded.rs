//! Recognises shell commands that are patches: models trained on shells write `apply_patch
//! <<'EOF'`, which means the tool and is not run.

/// A patch found in a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Embedded {
    /// The text of the patch.
    pub patch: String,
    /// The folder of a preceding `cd`.
    pub workdir: Option<String>,
}

pub(crate) const NAMES: [&str; 2] = ["apply_patch", "applypatch"];

const BEGIN: &str = "*** Begin Patch";

/// The patch of an argument vector: `["apply_patch", TEXT]`, or a shell with a script.
pub fn embedded_argv(argv: &[String]) -> Option<Embedded> {
    if let [name, text] = argv
        && NAMES.contains(&name.as_str())
    {
        return Some(Embedded { patch: text.clone(), workdir: None });
    }
    embedded(script(argv)?)
}

/// The patch of a script that consists of `apply_patch` with a heredoc or one quoted argument,
/// optionally after `cd FOLDER &&`, and optionally inside of `sh -c`.
pub fn embedded(script: &str) -> Option<Embedded> {
    let mut rest = script.trim();
    if let Some((name, after)) = word(rest)
        && is_shell(&name)
    {
        let (flag, after) = word(after.trim_start())?;
        let (script, end) = word(after.trim_start())?;
        let is_all =
            is_script_flag(&flag) && end.is_empty() && !script.trim_start().starts_with(&name);
        return if is_all { embedded(&script) } else { None };
    }
    let mut workdir = None;
    if let Some(after) = rest.strip_prefix("cd ") {
        let (folder, after) = word(after.trim_start())?;
        let after = after.trim_start_matches([' ', '\t']);
        rest = ["&&", ";", "\n"].iter().find_map(|end| after.strip_prefix(end))?.trim_start();
        workdir = Some(folder);
    }
    let after = NAMES.iter().find_map(|name| rest.strip_prefix(name))?;
    if !after.starts_with([' ', '\t', '<']) {
        return None;
    }
    let after = after.trim_start_matches([' ', '\t']);
    let patch = match after.strip_prefix("<<") {
        Some(heredoc) => heredoc_body(heredoc)?,
        None => {
            let (text, rest) = word(after)?;
            rest.trim().is_empty().then_some(text)?
        }
    };
    patch.contains(BEGIN).then_some(Embedded { patch, workdir })
}

/// Returns whether a script passes a patch to `apply_patch` in a form that [`embedded`] does not
/// accept: with other commands, or with text that the shell would expand.
pub fn is_mixed(script: &str) -> bool {
    let Some((head, text)) = script.split_once("<<") else { return false };
    let command = head.rsplit(['&', '|', ';', '\n', '(']).next().unwrap_or_default().trim();
    NAMES.contains(&command) && text.contains(BEGIN) && embedded(script).is_none()
}

/// As [`is_mixed`], for an argument vector.
pub fn is_mixed_argv(argv: &[String]) -> bool {
    script(argv).is_some_and(is_mixed)
}

/// The script of a shell's argument vector.
fn script(argv: &[String]) -> Option<&str> {
    match argv {
        [shell, flag, script] if is_shell(shell) && is_script_flag(flag) => Some(script),
        [shell, login, flag, script] if is_shell(shell) && login == "-l" && flag == "-c" => {
            Some(script)
        }
        _ => None,
    }
}

fn is_shell(program: &str) -> bool {
    matches!(program.rsplit('/').next(), Some("bash" | "dash" | "ksh" | "sh" | "zsh"))
}

fn is_script_flag(flag: &str) -> bool {
    matches!(flag, "-c" | "-lc" | "-cl")
}

/// The body of a heredoc that ends the script. If the delimiter is not quoted, the shell would
/// expand the body, so only a body with nothing to expand is accepted.
fn heredoc_body(text: &str) -> Option<String> {
    let strip_tabs = text.starts_with('-');
    let text = text.strip_prefix('-').unwrap_or(text).trim_start_matches([' ', '\t']);
    let (line, body) = text.split_once('\n')?;
    let line = line.trim();
    let unquoted = line
        .strip_prefix('\'')
        .and_then(|line| line.strip_suffix('\''))
        .or_else(|| line.strip_prefix('"').and_then(|line| line.strip_suffix('"')));
    let delimiter = unquoted.unwrap_or(line);
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if delimiter.is_empty() || !delimiter.chars().all(is_name) {
        return None;
    }
    let mut patch = String::new();
    let mut lines = body.split('\n');
    loop {
        let line = lines.next()?;
        let line = if strip_tabs { line.trim_start_matches('\t') } else { line };
        if line.trim_end_matches('\r') == delimiter {
            break;
        }
        patch.push_str(line);
        patch.push('\n');
    }
    let quoted = unquoted.is_some();
    let expands = !quoted && patch.contains(['$', '`', '\\']);
    (lines.all(|line| line.trim().is_empty()) && !expands).then_some(patch)
}

/// The first word of `text` and the rest. The word is plain, or in one pair of quotes, with nothing
/// that a shell would expand.
fn word(text: &str) -> Option<(String, &str)> {
    if let Some(quoted) = text.strip_prefix('\'') {
        let (word, rest) = quoted.split_once('\'')?;
        return boundary(word, rest);
    }
    if let Some(quoted) = text.strip_prefix('"') {
        let (word, rest) = quoted.split_once('"')?;
        if word.contains(['$', '`', '\\']) {
            return None;
        }
        return boundary(word, rest);
    }
    let end = text.find([' ', '\t', '\n', '&', ';', '|']).unwrap_or(text.len());
    let word = &text[..end];
    let plain = |c: char| c.is_alphanumeric() || "/._-+@%:,=".contains(c);
    (!word.is_empty() && word.chars().all(plain)).then(|| (word.to_owned(), &text[end..]))
}

fn boundary<'a>(word: &str, rest: &'a str) -> Option<(String, &'a str)> {
    let ends = rest.is_empty() || rest.starts_with([' ', '\t', '\n', '&', ';']);
    ends.then(|| (word.to_owned(), rest))
}
