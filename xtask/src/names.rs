//! The names of the packages and what they say about themselves, as `packaging/names.toml` has them. Asks no
//! registry: the names were free when they were chosen, and the owner reserves them.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use toml::{Table, Value};

/// Relative to the root.
pub const FILE: &str = "packaging/names.toml";
/// Top-level domain of addresses that the owner has not replaced yet (RFC 2606).
const PLACEHOLDER: &str = ".invalid";

/// A place that packages are installed from by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Registry {
    Pypi,
    Npm,
    Crates,
}

/// The contents of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    pub keywords: Vec<String>,
    pub program: ProgramFacts,
    pub publisher: Publisher,
    pub pypi_program: String,
    pub pypi_sdk: String,
    pub npm_program: String,
    pub npm_sdk: String,
    /// Start of the names of the packages with a program for one platform.
    pub npm_platform: String,
    pub crates_sdk: String,
    /// Packages of other people that commands may name.
    others: Vec<(Registry, String)>,
}

/// Facts about the program, for packages of systems.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramFacts {
    /// One line without a full stop.
    pub summary: String,
    /// Lines of at most 79 characters.
    pub description: String,
    /// An SPDX expression.
    pub license: String,
}

/// The person or organization that publishes, and its addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publisher {
    pub name: String,
    pub email: String,
    pub homepage: String,
    pub documentation: String,
    pub repository: String,
    pub issues: String,
    /// The folder of each version is below it.
    pub downloads: String,
    /// The public key that releases are signed with, as minisign writes it; `None` until there is one.
    pub signing_key: Option<String>,
}

impl Names {
    /// Reads the file of the checkout at `root`.
    pub fn read(root: &Path) -> Result<Names> {
        let text = std::fs::read_to_string(root.join(FILE)).context(FILE)?;
        Names::parse(&text).context(FILE)
    }

    pub fn parse(text: &str) -> Result<Names> {
        let file: Table = text.parse()?;
        let all = &Value::Table(file);
        let mut others = Vec::new();
        for (table, registry) in
            [("pypi", Registry::Pypi), ("npm", Registry::Npm), ("crates", Registry::Crates)]
        {
            others.extend(list(all, &[table, "others"])?.into_iter().map(|name| (registry, name)));
        }
        let publisher = |key| text_at(all, &["publisher", key]);
        Ok(Names {
            keywords: list(all, &["keywords"])?,
            program: ProgramFacts {
                summary: text_at(all, &["program", "summary"])?,
                description: text_at(all, &["program", "description"])?,
                license: text_at(all, &["program", "license"])?,
            },
            publisher: Publisher {
                name: publisher("name")?,
                email: publisher("email")?,
                homepage: publisher("homepage")?,
                documentation: publisher("documentation")?,
                repository: publisher("repository")?,
                issues: publisher("issues")?,
                downloads: publisher("downloads")?,
                signing_key: signing_key(all)?,
            },
            pypi_program: text_at(all, &["pypi", "program"])?,
            pypi_sdk: text_at(all, &["pypi", "sdk"])?,
            npm_program: text_at(all, &["npm", "program"])?,
            npm_sdk: text_at(all, &["npm", "sdk"])?,
            npm_platform: text_at(all, &["npm", "platform"])?,
            crates_sdk: text_at(all, &["crates", "sdk"])?,
            others,
        })
    }

    /// Returns whether a package of this name is one of this project.
    #[must_use]
    pub fn is_ours(&self, registry: Registry, name: &str) -> bool {
        match registry {
            Registry::Pypi => [&self.pypi_program, &self.pypi_sdk].into_iter().any(|it| it == name),
            Registry::Npm => {
                let is_platform = name.strip_prefix(&self.npm_platform);
                [&self.npm_program, &self.npm_sdk].into_iter().any(|it| it == name)
                    || is_platform.is_some_and(|processor| !processor.is_empty())
            }
            Registry::Crates => self.crates_sdk == name,
        }
    }

    /// Returns whether a command may name a package: it is ours or in the list of others.
    #[must_use]
    pub fn may_be_named(&self, registry: Registry, name: &str) -> bool {
        let is_listed = |(of, other): &(Registry, String)| *of == registry && other == name;
        self.is_ours(registry, name) || self.others.iter().any(is_listed)
    }

    /// The scope on npm that all of its packages are in, with the `@`.
    pub fn npm_scope(&self) -> Result<&str> {
        let scope = self.npm_sdk.split('/').next().unwrap_or_default();
        for name in [&self.npm_program, &self.npm_platform] {
            ensure!(
                name.split('/').next() == Some(scope),
                "{FILE}: {name} is not in the scope {scope}: packages of npm share a scope"
            );
        }
        Ok(scope)
    }
}

impl Publisher {
    /// The keys that the owner has not replaced yet.
    #[must_use]
    pub fn placeholders(&self) -> Vec<&'static str> {
        let all = [
            ("email", &self.email),
            ("homepage", &self.homepage),
            ("documentation", &self.documentation),
            ("repository", &self.repository),
            ("issues", &self.issues),
            ("downloads", &self.downloads),
        ];
        let is_open = |value: &str| {
            let address = value.split_once("://").map_or(value, |(_, rest)| rest);
            address.split('/').next().is_some_and(|host| host.ends_with(PLACEHOLDER))
        };
        let open = all.into_iter().filter(|(_, value)| is_open(value)).map(|(key, _)| key);
        open.chain(self.signing_key.is_none().then_some("signing_key")).collect()
    }
}

fn value<'v>(all: &'v Value, path: &[&str]) -> Result<&'v Value> {
    let found = path.iter().try_fold(all, |value, key| value.get(key));
    found.with_context(|| format!("`{}` is missing", path.join(".")))
}

fn text_at(all: &Value, path: &[&str]) -> Result<String> {
    let text = value(all, path)?.as_str().filter(|text| !text.is_empty());
    Ok(text.with_context(|| format!("`{}` is not a text", path.join(".")))?.to_owned())
}

fn signing_key(all: &Value) -> Result<Option<String>> {
    /// Characters of a key of minisign: 42 bytes in Base64.
    const LENGTH: usize = 56;
    let key = value(all, &["publisher", "signing_key"])?.as_str();
    let key = key.context("`publisher.signing_key` is not a text")?;
    let is_base64 = |c: char| c.is_ascii_alphanumeric() || c == '+' || c == '/';
    ensure!(
        key.is_empty() || key.len() == LENGTH && key.chars().all(is_base64),
        "`publisher.signing_key` is not a public key of minisign: write the second line of its file"
    );
    Ok((!key.is_empty()).then(|| key.to_owned()))
}

fn list(all: &Value, path: &[&str]) -> Result<Vec<String>> {
    let not_texts = || format!("`{}` is not a list of texts", path.join("."));
    let list = value(all, path)?.as_array().with_context(not_texts)?;
    list.iter().map(|it| Ok(it.as_str().with_context(not_texts)?.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        Names::read(&crate::workspace_root()).unwrap()
    }

    #[test]
    fn ours_are_known_in_each_registry() {
        let names = Names::parse(
            "keywords = ['k']\n[program]\nsummary = 's'\ndescription = 'd'\nlicense = 'l'\n[publisher]\nname = 'n'\nemail = 'a@b.test'\nhomepage = 'https://b.test'\n\
             documentation = 'https://b.test/d'\nrepository = 'https://b.invalid/r'\nissues = 'https://b.test/i'\n\
             downloads = 'https://b.test/d'\nsigning_key = ''\n\
             [pypi]\nprogram = 'p-program'\nsdk = 'p'\nothers = ['other']\n\
             [npm]\nprogram = '@p/program'\nsdk = '@p/sdk'\nplatform = '@p/linux-'\nothers = []\n\
             [crates]\nsdk = 'p'\nothers = []\n",
        )
        .unwrap();
        for (registry, name, ours, named) in [
            (Registry::Pypi, "p-program", true, true),
            (Registry::Pypi, "other", false, true),
            (Registry::Pypi, "@p/sdk", false, false),
            (Registry::Npm, "@p/linux-x64", true, true),
            (Registry::Npm, "@p/linux-", false, false),
            (Registry::Npm, "@p/other", false, false),
            (Registry::Npm, "other", false, false),
            (Registry::Crates, "p", true, true),
            (Registry::Crates, "p-program", false, false),
        ] {
            assert_eq!(names.is_ours(registry, name), ours, "{registry:?} {name}");
            assert_eq!(names.may_be_named(registry, name), named, "{registry:?} {name}");
        }
        assert_eq!(names.npm_scope().unwrap(), "@p");
        assert_eq!(names.publisher.placeholders(), ["repository", "signing_key"]);
        let apart = Names { npm_program: "program".to_owned(), ..names };
        assert!(apart.npm_scope().unwrap_err().to_string().contains("not in the scope @p"));
    }

    #[test]
    fn a_missing_name_is_an_error_with_its_key() {
        let error = Names::parse("keywords = ['k']").unwrap_err();
        assert_eq!(error.to_string(), "`pypi.others` is missing");
    }

    #[test]
    fn a_signing_key_is_one_of_minisign() {
        let read = |key: &str| {
            signing_key(&Value::Table(
                format!("[publisher]\nsigning_key = '{key}'").parse().unwrap(),
            ))
        };
        assert_eq!(read("").unwrap(), None);
        let key = format!("RWS{}", "a".repeat(53));
        assert_eq!(read(&key).unwrap(), Some(key));
        for wrong in ["RWSshort", &format!("RWS{}", "-".repeat(53))] {
            assert!(read(wrong).unwrap_err().to_string().contains("not a public key"), "{wrong}");
        }
    }

    /// crates.io takes at most five, of at most 20 characters.
    #[test]
    fn the_names_are_those_that_registries_take() {
        let names = names();
        assert!(names.keywords.len() <= 5);
        for name in
            [&names.keywords[..], &[names.pypi_program, names.pypi_sdk, names.crates_sdk]].concat()
        {
            let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(name.len() <= 20 && name.chars().all(is_plain), "{name}");
        }
    }
}
