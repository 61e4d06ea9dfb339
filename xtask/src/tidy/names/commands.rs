//! Commands in a line of text that install or run packages by name: of pip, uv, pipx, npm, its relatives and cargo.

use xtask::names::Registry;

/// The words that begin a command, and how it names packages.
struct Form {
    words: &'static [&'static str],
    registry: Registry,
    /// True if only the first argument is a package: the others are for its program.
    runs: bool,
}

const fn form(words: &'static [&'static str], registry: Registry, runs: bool) -> Form {
    Form { words, registry, runs }
}

const FORMS: [Form; 34] = [
    form(&["pip", "install"], Registry::Pypi, false),
    form(&["pip", "download"], Registry::Pypi, false),
    form(&["pip", "wheel"], Registry::Pypi, false),
    form(&["pip", "uninstall"], Registry::Pypi, false),
    form(&["pip3", "install"], Registry::Pypi, false),
    form(&["pipx", "install"], Registry::Pypi, false),
    form(&["pipx", "inject"], Registry::Pypi, false),
    form(&["pipx", "run"], Registry::Pypi, true),
    form(&["uv", "add"], Registry::Pypi, false),
    form(&["uv", "tool", "install"], Registry::Pypi, false),
    form(&["uv", "tool", "run"], Registry::Pypi, true),
    form(&["uvx"], Registry::Pypi, true),
    form(&["poetry", "add"], Registry::Pypi, false),
    form(&["pdm", "add"], Registry::Pypi, false),
    form(&["npm", "install"], Registry::Npm, false),
    form(&["npm", "i"], Registry::Npm, false),
    form(&["npm", "add"], Registry::Npm, false),
    form(&["npm", "uninstall"], Registry::Npm, false),
    form(&["npm", "view"], Registry::Npm, true),
    form(&["npm", "exec"], Registry::Npm, true),
    form(&["npx"], Registry::Npm, true),
    form(&["pnpm", "add"], Registry::Npm, false),
    form(&["pnpm", "install"], Registry::Npm, false),
    form(&["pnpm", "dlx"], Registry::Npm, true),
    form(&["yarn", "add"], Registry::Npm, false),
    form(&["yarn", "global", "add"], Registry::Npm, false),
    form(&["yarn", "dlx"], Registry::Npm, true),
    form(&["bun", "add"], Registry::Npm, false),
    form(&["bun", "install"], Registry::Npm, false),
    form(&["bunx"], Registry::Npm, true),
    form(&["deno", "add"], Registry::Npm, false),
    form(&["cargo", "install"], Registry::Crates, false),
    form(&["cargo", "binstall"], Registry::Crates, false),
    form(&["cargo", "add"], Registry::Crates, false),
];

/// Parts of all first words of the forms: a line without any of them, as most are, needs no closer look.
const PROGRAMS: [&str; 10] =
    ["bun", "cargo", "deno", "npm", "npx", "pdm", "pip", "poetry", "uv", "yarn"];

/// Options whose value is the next word.
const WITH_VALUE: [&str; 22] = [
    "--cache",
    "--cwd",
    "--dest",
    "--directory",
    "--features",
    "--find-links",
    "--git",
    "--index-url",
    "--path",
    "--prefix",
    "--python",
    "--registry",
    "--requirement",
    "--root",
    "--target",
    "--version",
    "--workspace",
    "-C",
    "-F",
    "-d",
    "-r",
    "-t",
];
/// Options whose value is a package.
const WITH_PACKAGE: [&str; 5] = ["--from", "--package", "--spec", "--with", "-p"];

/// The names of packages in the commands of a line, with the registry that each is looked up in.
///
/// A list of quoted words can be a command, as in the configuration of a server, unless `is_rust`: there it can just
/// as well be a list of programs.
pub(super) fn packages(line: &str, is_rust: bool) -> Vec<(Registry, String)> {
    if !PROGRAMS.iter().any(|program| line.contains(program)) {
        return Vec::new();
    }
    // A comment of the shell ends a command, and so does what surrounds one in a document or a program.
    let line = line.replace(" # ", "\n");
    let parts = line.split(['`', '|', ';', '&', '(', ')', '\n']);
    parts.flat_map(|part| of_command(part, is_rust)).collect()
}

fn of_command(part: &str, is_rust: bool) -> Vec<(Registry, String)> {
    let words: Vec<&str> = part.split_whitespace().collect();
    let plain: Vec<&str> = words.iter().map(|word| unquoted(word)).collect();
    for start in 0..plain.len() {
        let begins = |form: &&Form| plain[start..].starts_with(form.words);
        if let Some(form) = FORMS.iter().find(begins) {
            let rest = words[start + form.words.len()..].iter().copied();
            // In a list of a program, words without quotes are its variables.
            let is_quoted = |word: &&str| word.trim_start_matches('[').starts_with(['"', '\'']);
            let is_list = is_quoted(&words[start]) && words[start].ends_with(',');
            if is_list && is_rust {
                return Vec::new();
            }
            let read: Vec<&str> = rest.filter(|word| !is_list || is_quoted(word)).collect();
            return arguments(form, &read);
        }
    }
    Vec::new()
}

fn arguments(form: &Form, words: &[&str]) -> Vec<(Registry, String)> {
    let mut found = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let plain = unquoted(word);
        if WITH_VALUE.contains(&plain) {
            words.next();
        } else if WITH_PACKAGE.contains(&plain) {
            found.extend(words.next().and_then(|word| name(form.registry, unquoted(word))));
        } else if let Some(package) = package_of_option(plain) {
            found.extend(name(form.registry, package));
        } else if plain == "args" {
            // The key of a configuration with the rest of the command.
        } else if !plain.starts_with('-') && !plain.is_empty() {
            found.extend(name(form.registry, plain));
            if form.runs {
                break;
            }
        }
        // In a sentence. In a list, the comma follows a quote.
        let ends =
            word.ends_with([',', '.', ':']) && !word.ends_with("\",") && !word.ends_with("':");
        if ends && !word.ends_with("\":") {
            break;
        }
    }
    found.into_iter().map(|name| (form.registry, name)).collect()
}

/// The value of an option such as `--package=NAME`.
fn package_of_option(word: &str) -> Option<&str> {
    let (option, package) = word.split_once('=')?;
    WITH_PACKAGE.contains(&option).then_some(package)
}

fn unquoted(word: &str) -> &str {
    word.trim_matches(['"', '\'', ',', ':', '.', '[', ']', '{', '}', '='])
}

/// The package of an argument; none for files, placeholders, and what a program fills in.
fn name(registry: Registry, argument: &str) -> Option<String> {
    let is_scoped = argument.starts_with('@');
    let end = match registry {
        Registry::Npm => argument.get(1..)?.find('@').map(|at| at + 1),
        _ => argument.find(['[', '=', '<', '>', '~', '!', '@']),
    };
    let name = &argument[..end.unwrap_or(argument.len())];
    let is_file = name.contains('/') && !is_scoped
        || [".whl", ".tgz", ".gz", ".txt"].iter().any(|ending| name.ends_with(ending));
    let is_placeholder = !name.contains(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    let is_filled = name.contains(['$', '{', '<', '…', '\\', '%']);
    (!is_file && !is_placeholder && !is_filled).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_packages_of_commands_are_found() {
        for (line, expected) in [
            ("pip install a", "a"),
            ("pip install --no-index --find-links target/packages a-b   # the c", "a-b"),
            ("python3 -m pip install --upgrade 'a[b]' c==1 \"d>=2\"", "a c d"),
            ("pip install -r requirements.txt ./sdk/python a.whl .", ""),
            ("uv pip install a && uvx b c", "a b"),
            ("uv tool run --from a b", "a b"),
            ("pipx run a install b", "a"),
            ("$ npm install --global --prefix place @a/b@1 c@2", "@a/b c"),
            ("npm install --offline ./a-VERSION.tgz PACKAGE @a/${b}", ""),
            ("npm run build, npm ci, npm test", ""),
            ("the packages for pip and npm: npm leaves the program out", ""),
            ("`npm install --omit=optional`. A launcher", ""),
            ("Use `npx -y a@1 b`, not `npx --package=c d`", "a c d"),
            (r#""command": "npx", "args": ["-y", "@a/b", "c"]"#, "@a/b"),
            (r#"command = ["uvx", "a"]"#, "a"),
            (r#"run("npm", "install", "--offline", sdk, "a", cwd=project)"#, "a"),
            ("pip install a, npm install b.", "a"),
            ("cargo install --locked a; cargo add b --features c", "a b"),
            ("cargo xtask package", ""),
            ("set it to \"pip install a\" (pip uninstall b)", "a b"),
        ] {
            let found: Vec<String> =
                packages(line, false).into_iter().map(|(_, name)| name).collect();
            assert_eq!(found.join(" "), expected, "{line}");
        }
        for Form { words, .. } in FORMS {
            assert!(PROGRAMS.iter().any(|program| words[0].contains(program)), "{words:?}");
        }
        assert_eq!(packages("cargo add a", true), [(Registry::Crates, "a".to_owned())]);
        assert_eq!(packages(r#"const RUNNERS: [&str; 2] = ["npx", "busybox"];"#, true), []);
        assert_eq!(packages("bunx a", true), [(Registry::Npm, "a".to_owned())]);
    }
}
