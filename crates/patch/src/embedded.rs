//! Recognises a shell command that is itself a patch: models trained on shells write
//! `apply_patch <<'EOF'`. It is taken as the tool, not run.

/// A patch found in a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Embedded {
    /// The text of the patch.
    pub patch: String,
    /// The folder of a `cd` before it.
    pub workdir: Option<String>,
}

const NAMES: [&str; 2] = ["apply_patch", "applypatch"];

/// The patch of an argument vector: `["apply_patch", TEXT]`, or a shell with a script.
pub fn embedded_argv(argv: &[String]) -> Option<Embedded> {
    match argv {
        [name, text] if NAMES.contains(&name.as_str()) => {
            Some(Embedded { patch: text.clone(), workdir: None })
        }
        [shell, flag, script] if is_shell(shell) && matches!(flag.as_str(), "-c" | "-lc") => {
            embedded(script)
        }
        _ => None,
    }
}

/// The patch of a script that is nothing but `apply_patch` with a heredoc or one quoted argument,
/// perhaps after `cd FOLDER &&`.
pub fn embedded(script: &str) -> Option<Embedded> {
    let mut rest = script.trim_start();
    let mut workdir = None;
    if let Some(after) = rest.strip_prefix("cd ") {
        let (folder, after) = word(after.trim_start())?;
        rest = after.trim_start().strip_prefix("&&")?.trim_start();
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
    patch.contains("*** Begin Patch").then_some(Embedded { patch, workdir })
}

fn is_shell(program: &str) -> bool {
    matches!(program.rsplit('/').next(), Some("bash" | "sh" | "zsh"))
}

/// The body of a heredoc that ends the script. Without quotes around the delimiter the shell
/// would expand the body, so only a body without anything to expand is taken then.
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

/// The first word of `text` and what follows: plain, or in one pair of quotes without anything
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
