//! The page that lists which configuration keys have an effect, and the test that shows it. A test
//! names the keys in comments above it (see [`MARKER`]); the option table knows no test.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use config::docs::{Row, requirement_rows, rows};
use config::kind::Effect;

/// Name of the page below `docs/`.
pub(super) const PAGE: &str = "configuration-status.md";
/// Starts a comment line above a test, as in ``// Effect of `model`, `review_model`.``
const MARKER: &str = "// Effect of ";
/// Follows [`MARKER`] when the keys are those of `requirements.toml`.
const REQUIREMENT: &str = "requirement ";

/// A test that shows the effect of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EffectTest {
    /// Folder below `crates/`.
    pub(crate) krate: String,
    /// File without its extension.
    pub(crate) file: String,
    pub(crate) function: String,
}

impl fmt::Display for EffectTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}::{}`", self.file, self.function)
    }
}

/// The tests of each key, in the order of their paths.
#[derive(Debug, Default)]
struct EffectTests {
    of_keys: BTreeMap<String, Vec<EffectTest>>,
    of_requirements: BTreeMap<String, Vec<EffectTest>>,
}

/// The tests of each key of `config.toml`.
///
/// # Errors
/// A file cannot be read, or a comment is malformed.
pub(crate) fn effect_tests(root: &Path) -> Result<BTreeMap<String, Vec<EffectTest>>> {
    Ok(EffectTests::collect(&root.join("crates"))?.of_keys)
}

/// The page.
///
/// # Errors
/// An active key has no test, or a comment names a key that does not exist or is not active.
pub(super) fn page(root: &Path) -> Result<String> {
    let tests = EffectTests::collect(&root.join("crates"))?;
    let keys = rows();
    check("config.toml", &keys, &tests.of_keys)?;
    check("requirements.toml", &requirement_rows(), &tests.of_requirements)?;
    Ok(render(&keys, &tests.of_keys))
}

impl EffectTests {
    fn collect(crates: &Path) -> Result<Self> {
        let mut tests = Self::default();
        for (path, bytes) in super::contents(crates)? {
            let Some(krate) = path.iter().next().and_then(|name| name.to_str()) else { continue };
            let Some(file) = path.file_stem().and_then(|stem| stem.to_str()) else { continue };
            if path.extension().is_some_and(|extension| extension == "rs") {
                let text = String::from_utf8(bytes).with_context(|| path.display().to_string())?;
                tests
                    .read(krate, file, &text)
                    .with_context(|| format!("crates/{}", path.display()))?;
            }
        }
        Ok(tests)
    }

    fn read(&mut self, krate: &str, file: &str, text: &str) -> Result<()> {
        let mut marked = Vec::new();
        for (line, number) in text.lines().map(str::trim).zip(1..) {
            if let Some(keys) = line.strip_prefix(MARKER) {
                ensure!(keys.contains('`'), "line {number}: name the keys in backquotes");
                marked.push(keys);
            } else if let (false, Some(function)) = (marked.is_empty(), function_name(line)) {
                let test = EffectTest {
                    krate: krate.to_owned(),
                    file: file.to_owned(),
                    function: function.to_owned(),
                };
                marked.drain(..).for_each(|keys| self.add(keys, &test));
            }
        }
        ensure!(marked.is_empty(), "no test follows `{MARKER}{}`", marked.join(" "));
        Ok(())
    }

    fn add(&mut self, keys: &str, test: &EffectTest) {
        let (tests, keys) = match keys.strip_prefix(REQUIREMENT) {
            Some(keys) => (&mut self.of_requirements, keys),
            None => (&mut self.of_keys, keys),
        };
        for key in keys.split('`').skip(1).step_by(2) {
            tests.entry(key.to_owned()).or_default().push(test.clone());
        }
    }
}

/// The function that a line declares.
fn function_name(line: &str) -> Option<&str> {
    let declared = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ")?;
    declared.split('(').next()
}

fn check(file: &str, rows: &[Row], tests: &BTreeMap<String, Vec<EffectTest>>) -> Result<()> {
    let is_active = |row: &&Row| row.entry.effect == Effect::Active;
    let active: Vec<&str> = rows.iter().filter(is_active).map(|row| row.path.as_str()).collect();
    if let Some(key) = active.iter().find(|key| !tests.contains_key(**key)) {
        bail!(
            "`{key}` of {file} is active and no test shows its effect: write ``{MARKER}`{key}`.`` \
             above the test that fails without it"
        );
    }
    if let Some((key, tests)) = tests.iter().find(|(key, _)| !active.contains(&key.as_str())) {
        bail!(
            "{} names `{key}`, which is no active key of {file}: correct the comment above the test",
            tests[0]
        );
    }
    Ok(())
}

fn render(rows: &[Row], tests: &BTreeMap<String, Vec<EffectTest>>) -> String {
    let active = rows.iter().filter(|row| row.entry.effect == Effect::Active).count();
    let mut page = format!(
        "# Configuration status\n\nGenerated from the option table and the comments above \
         tests: {active} of {} keys have an effect, shown by\nthe test next to them. The others are \
         checked and kept; setting one gives a warning that it has no effect yet.\n\n\
         | key | crate | test, or the missing component |\n|---|---|---|\n",
        rows.len()
    );
    for row in rows {
        let (krates, shown) = match row.entry.effect {
            Effect::Pending(part) => ("–".to_owned(), format!("not yet: {part}")),
            Effect::Group => ("–".to_owned(), "in its parts".to_owned()),
            Effect::Active => {
                let tests = tests.get(&row.path).map_or(&[][..], Vec::as_slice);
                let mut krates: Vec<&str> = tests.iter().map(|test| test.krate.as_str()).collect();
                krates.dedup();
                let shown: Vec<String> = tests.iter().map(ToString::to_string).collect();
                (krates.join(", "), shown.join(", "))
            }
        };
        page.push_str(&format!("| `{}` | {krates} | {shown} |\n", row.path));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<EffectTests> {
        let mut tests = EffectTests::default();
        tests.read("server", "effects", text).map(|()| tests)
    }

    #[test]
    fn comments_above_a_test_name_its_keys() {
        let text = "// Effect of `a`, `b.<id>.c`.\n// Effect of requirement `d`.\n\
                    #[tokio::test]\nasync fn shows() {}\n#[test]\nfn other() {}\n";
        let tests = read(text).unwrap();
        let keys: Vec<&String> = tests.of_keys.keys().collect();
        assert_eq!(keys, ["a", "b.<id>.c"]);
        assert_eq!(tests.of_keys["a"][0].to_string(), "`effects::shows`");
        assert_eq!(tests.of_requirements["d"][0].function, "shows");
    }

    #[test]
    fn a_comment_without_a_test_or_a_key_is_an_error() {
        assert!(read("// Effect of `a`.\n").is_err());
        assert!(read("// Effect of a.\nfn shows() {}\n").is_err());
    }

    #[test]
    fn every_active_key_needs_a_test_and_every_comment_an_active_key() {
        let rows = rows();
        let all = EffectTests::collect(&xtask::workspace_root().join("crates")).unwrap().of_keys;
        check("config.toml", &rows, &all).unwrap();
        let mut fewer = all.clone();
        fewer.remove("model");
        assert!(check("config.toml", &rows, &fewer).unwrap_err().to_string().contains("`model`"));
        let mut more = all.clone();
        more.insert("nope".to_owned(), all["model"].clone());
        assert!(check("config.toml", &rows, &more).unwrap_err().to_string().contains("`nope`"));
    }
}
