//! Where plugins and marketplaces come from: local folders and git repositories. Parses and checks what
//! people and marketplaces write; fetches nothing.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use url::{Host, Url};

use crate::name::relative_path;

/// Where a plugin's files are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Source {
    /// A folder of the marketplace; relative to its root, empty for the root itself.
    Local { path: PathBuf },
    Git {
        url: String,
        /// Folder of the repository, relative.
        path: Option<PathBuf>,
        /// Branch or tag.
        ref_name: Option<String>,
        /// The commit that is required: 40 or 64 hexadecimal digits.
        sha: Option<String>,
    },
    /// Held by a remote service; it cannot be installed from here.
    Remote,
}

/// Where a marketplace comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum MarketplaceSource {
    /// A folder, which is read in place. Absolute.
    Local {
        path: PathBuf,
    },
    Git {
        url: String,
        ref_name: Option<String>,
        sparse_paths: Vec<PathBuf>,
    },
}

/// The folder or URL.
impl std::fmt::Display for MarketplaceSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Local { path } => f.write_str(&visible::path(path)),
            Self::Git { url, .. } => f.write_str(&visible::text(url)),
        }
    }
}

impl MarketplaceSource {
    /// Returns whether it is the same folder or repository, at whatever branch or tag.
    #[must_use]
    pub fn is_same_place(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Local { path }, Self::Local { path: other }) => path == other,
            (Self::Git { url, .. }, Self::Git { url: other, .. }) => url == other,
            _ => false,
        }
    }

    /// Returns whether only some folders of a repository are fetched.
    #[must_use]
    pub fn is_sparse(&self) -> bool {
        matches!(self, Self::Git { sparse_paths, .. } if !sparse_paths.is_empty())
    }

    /// Reads what a user names: an absolute path, a URL (`https`, `ssh`, `file`; `http` for this machine
    /// only), `git@host:path`, or `owner/repository[@ref]` of GitHub.
    ///
    /// # Errors
    /// A sentence that says what is wrong.
    pub fn parse(
        source: &str,
        ref_name: Option<&str>,
        sparse_paths: &[String],
    ) -> Result<Self, String> {
        let source = source.trim();
        if source.starts_with('/') {
            if ref_name.is_some() || !sparse_paths.is_empty() {
                return Err(
                    "a local folder has no ref and no sparse paths; give a `file://` URL to \
                            fetch from a local repository"
                        .to_owned(),
                );
            }
            return Ok(Self::Local { path: source.into() });
        }
        let (url, own_ref) = match github(source) {
            Some((repository, own_ref)) => (github_url(repository), own_ref),
            None => (source.to_owned(), None),
        };
        check_url(&url)?;
        let ref_name = ref_name.or(own_ref).map(ToOwned::to_owned);
        ref_name.as_deref().map_or(Ok(()), check_ref)?;
        let sparse = sparse_paths.iter().map(|path| relative_path(path));
        Ok(Self::Git { url, ref_name, sparse_paths: sparse.collect::<Result<_, _>>()? })
    }
}

/// `owner/repository` with an optional `@ref`.
fn github(source: &str) -> Option<(&str, Option<&str>)> {
    let (repository, own_ref) = match source.split_once('@') {
        Some((repository, own_ref)) => (repository, Some(own_ref)),
        None => (source, None),
    };
    is_github_repository(repository).then_some((repository, own_ref))
}

fn is_github_repository(text: &str) -> bool {
    let is_name = |name: &str| {
        let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        !name.is_empty() && !name.starts_with(['.', '-']) && name.bytes().all(legal)
    };
    text.split_once('/').is_some_and(|(owner, name)| is_name(owner) && is_name(name))
}

fn github_url(repository: &str) -> String {
    format!("https://github.com/{}.git", repository.trim_end_matches(".git"))
}

impl Source {
    /// Reads the member `source` of a marketplace's entry, in either layout. `base` is the folder that
    /// relative paths begin in.
    pub(crate) fn from_json(value: &Value, base: &str) -> Result<Self, String> {
        match value {
            Value::String(path) if path.starts_with('.') || !base.is_empty() => local(path, base),
            Value::String(path) => {
                Err(format!("the source `{}` must begin with `./`", visible::text(path)))
            }
            Value::Object(members) => Self::from_members(members, base),
            _ => Err("`source` must be a path or an object".to_owned()),
        }
    }

    fn from_members(members: &Map<String, Value>, base: &str) -> Result<Self, String> {
        let member = |name: &str| match members.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str())),
            Some(_) => Err(format!("`source.{name}` must be a text")),
        };
        let needed =
            |name: &str| member(name)?.ok_or_else(|| format!("`source.{name}` is missing"));
        let url = match needed("source")? {
            "local" => return local(needed("path")?, base),
            "remote" => return Ok(Self::Remote),
            "npm" => {
                return Err(
                    "packages of npm are not supported as sources; use a git repository".to_owned()
                );
            }
            "github" => {
                let repository = needed("repo")?;
                if !is_github_repository(repository) {
                    return Err("`source.repo` must be `owner/repository`".to_owned());
                }
                github_url(repository)
            }
            "url" | "git" | "git-subdir" => needed("url")?.to_owned(),
            other => {
                return Err(format!("the source `{}` is not supported", visible::text(other)));
            }
        };
        check_url(&url)?;
        let path = member("path")?.map(relative_path).transpose()?;
        let path = path.filter(|path| !path.as_os_str().is_empty());
        let ref_name = member("ref")?.or(member("refName")?).map(ToOwned::to_owned);
        ref_name.as_deref().map_or(Ok(()), check_ref)?;
        let sha = member("sha")?.map(str::to_ascii_lowercase);
        sha.as_deref().map_or(Ok(()), check_sha)?;
        Ok(Self::Git { url, path, ref_name, sha })
    }
}

fn local(path: &str, base: &str) -> Result<Source, String> {
    Ok(Source::Local { path: relative_path(base)?.join(relative_path(path)?) })
}

/// Checks the URL of a repository: `https`, `ssh`, `git@host:path`, `file`, and `http` for this machine.
///
/// # Errors
/// A sentence that says what is wrong.
pub(crate) fn check_url(text: &str) -> Result<(), String> {
    const MAX: usize = 2_048;
    let shown = visible::text(text.get(..200).unwrap_or(text)).into_owned();
    let problem = |why: &str| Err(format!("the source `{shown}` {why}"));
    if text.is_empty() || text.len() > MAX {
        return Err(format!("a source has 1 to {MAX} bytes"));
    }
    if text.starts_with('-') || text.contains("::") {
        return problem("would be an option or a helper of git");
    }
    if text.chars().any(|c| c.is_whitespace() || c.is_control() || visible::is_hidden(c)) {
        return problem("has white space or characters that are not visible");
    }
    if let Some(rest) = text.strip_prefix("git@") {
        return match rest.split_once(':') {
            Some((host, path))
                if is_host(host) && !path.is_empty() && !path.starts_with(['-', '~']) =>
            {
                Ok(())
            }
            _ => problem("is not of the form `git@host:path`"),
        };
    }
    let Ok(url) = Url::parse(text) else {
        return problem(
            "is neither an absolute path, a URL, `git@host:path` nor `owner/repository`",
        );
    };
    if url.password().is_some() || (!url.username().is_empty() && url.scheme() != "ssh") {
        return Err("the source holds credentials; remove them and use ssh or a public repository"
            .to_owned());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return problem("must have no query and no fragment");
    }
    match url.scheme() {
        "https" if url.host().is_some() => Ok(()),
        "ssh" if url.host_str().is_some_and(is_host) && is_user(url.username()) => Ok(()),
        "file" if url.host().is_none() => Ok(()),
        "http" if is_loopback(&url) => Ok(()),
        "http" => problem("is not encrypted; use https"),
        _ => problem("has a protocol that is not supported; use https, ssh or file"),
    }
}

/// Returns whether the URL is fetched with ssh.
pub(crate) fn is_ssh(url: &str) -> bool {
    url.starts_with("git@") || url.starts_with("ssh:")
}

fn is_host(host: &str) -> bool {
    let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.');
    !host.is_empty() && !host.starts_with('-') && host.bytes().all(legal)
}

fn is_user(user: &str) -> bool {
    let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    !user.starts_with('-') && user.bytes().all(legal)
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// Checks the name of a branch or tag by a subset of git's own rules.
pub(crate) fn check_ref(name: &str) -> Result<(), String> {
    let legal = |b: u8| b.is_ascii_alphanumeric() || b"-_./+@".contains(&b);
    let begins_wrong = name.starts_with(['-', '/', '.', '+', '@']);
    let has_wrong = ["..", "//", "@{", "/."].iter().any(|part| name.contains(part));
    let ends_wrong = name.ends_with(['/', '.']) || name.ends_with(".lock");
    if name.is_empty() {
        return Err("the name of a branch or tag must not be empty".to_owned());
    }
    if name.len() > 200 || !name.bytes().all(legal) || begins_wrong || has_wrong || ends_wrong {
        return Err(format!(
            "`{}` is not the name of a branch or tag",
            visible::text(&name.chars().take(200).collect::<String>())
        ));
    }
    Ok(())
}

fn check_sha(sha: &str) -> Result<(), String> {
    if !matches!(sha.len(), 40 | 64) || !sha.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err("`source.sha` must have 40 or 64 hexadecimal digits".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let good = [
            "https://example.com/a.git",
            "ssh://git@example.com/a",
            "git@example.com:a/b.git",
            "file:///srv/a.git",
            "http://127.0.0.1:8000/a",
            "http://localhost/a",
            "http://[::1]/a",
        ];
        for url in good.iter().filter(|url| !url.contains("::")) {
            assert_eq!(check_url(url), Ok(()), "{url}");
        }
        let bad = [
            "",
            "-oProxyCommand=x",
            "--upload-pack=x",
            "ext::sh -c x",
            "ext::x",
            "fd::3",
            "https://user:secret@example.com/a",
            "https://token@example.com/a",
            "git://example.com/a",
            "http://example.com/a",
            "ftp://example.com/a",
            "https://example.com/a b",
            "https://example.com/a\n",
            "ssh://-oProxyCommand=x/a",
            "git@-oProxyCommand=x:a",
            "git@host:-x",
            "file://host/share",
            "https://example.com/?x",
            "relative/path/three",
            "ssh://-x@host/a",
            "javascript:alert(1)",
            "https://example.com/\u{202e}",
        ];
        for url in bad {
            assert!(check_url(url).is_err(), "{url:?}");
        }
    }

    #[test]
    fn refs() {
        for good in ["main", "v1.2.3", "feature/x_y", "release-1+2", "a@b"] {
            assert_eq!(check_ref(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "-x",
            "--upload-pack=x",
            "a..b",
            "a:b",
            "+a",
            "a b",
            "@{u}",
            "x.lock",
            "a~1",
            "a^",
            "/a",
        ] {
            let error = check_ref(bad).unwrap_err();
            assert!(error.contains(bad), "{bad:?}: {error}");
        }
    }

    #[test]
    fn what_a_user_names() {
        let parsed = |source| MarketplaceSource::parse(source, None, &[]);
        let git = |url: &str, ref_name: Option<&str>| MarketplaceSource::Git {
            url: url.to_owned(),
            ref_name: ref_name.map(ToOwned::to_owned),
            sparse_paths: Vec::new(),
        };
        assert_eq!(parsed("/a/b"), Ok(MarketplaceSource::Local { path: "/a/b".into() }));
        assert_eq!(parsed("o/r"), Ok(git("https://github.com/o/r.git", None)));
        assert_eq!(parsed("o/r@v1"), Ok(git("https://github.com/o/r.git", Some("v1"))));
        assert_eq!(parsed("git@h:o/r"), Ok(git("git@h:o/r", None)));
        assert!(parsed("./a").is_err() && parsed("../a").is_err() && parsed("o/r@-x").is_err());
        assert!(MarketplaceSource::parse("/a", Some("main"), &[]).is_err());
        assert!(MarketplaceSource::parse("o/r", None, &["../x".to_owned()]).is_err());
    }
}
