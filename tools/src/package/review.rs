//! A dry run of publishing: what registries refuse and what their reviewers look for, checked on the wheels and the
//! packages for npm as they were written. Needs no network: whether a name is still free is not checked.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Cursor, Read as _};
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use flate2::read::GzDecoder;
use serde_json::Value;
use xtask::markdown::{Page, is_external};
use xtask::names::{Names, Registry};

use super::release::Release;

/// The files of a package by their paths.
type Files = BTreeMap<String, Vec<u8>>;

/// Fails with every problem of the packages among these files.
pub(super) fn check(release: &Release, written: &[PathBuf]) -> Result<()> {
    let mut problems = Vec::new();
    for path in written {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let read = || fs::read(path).with_context(|| path.display().to_string());
        let found = match path.extension().and_then(|extension| extension.to_str()) {
            Some("whl") => of_wheel(&release.names, &release.version, &name, &unzipped(&read()?)?),
            Some("tgz") => of_npm(&release.names, &release.version, &name, &untarred(&read()?)?),
            _ => continue,
        };
        problems.extend(found.into_iter().map(|problem| format!("{name}: {problem}")));
    }
    ensure!(
        problems.is_empty(),
        "a registry or its reviewers would object:\n{}",
        problems.join("\n")
    );
    Ok(())
}

fn unzipped(bytes: &[u8]) -> Result<Files> {
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes))?;
    let mut files = Files::new();
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index)?;
        let name = entry.name()?.into_owned();
        let mut content = Vec::new();
        entry.read_to_end(&mut content)?;
        files.insert(name, content);
    }
    Ok(files)
}

fn untarred(bytes: &[u8]) -> Result<Files> {
    let mut files = Files::new();
    for entry in tar::Archive::new(GzDecoder::new(bytes)).entries()? {
        let mut entry = entry?;
        let path = entry.path()?.display().to_string();
        let mut content = Vec::new();
        entry.read_to_end(&mut content)?;
        files.insert(path, content);
    }
    Ok(files)
}

/// The problems of a package while they are collected.
#[derive(Default)]
struct Problems(Vec<String>);

impl Problems {
    fn expect(&mut self, is_right: bool, problem: impl Into<String>) {
        if !is_right {
            self.0.push(problem.into());
        }
    }

    /// A page of a registry has no files next to it.
    fn expect_readme(&mut self, text: &str) {
        self.expect(text.trim().lines().count() > 1, "the README has no text");
        for link in Page::parse(text).links {
            let is_fine = is_external(&link.target) || link.target.starts_with('#');
            self.expect(
                is_fine,
                format!("the link to `{}` leads nowhere on its page", link.target),
            );
        }
    }

    fn expect_file(&mut self, files: &Files, path: &str) {
        let has_text = files.get(path).is_some_and(|bytes| !bytes.is_empty());
        self.expect(has_text, format!("`{path}` is missing or empty"));
    }
}

fn of_wheel(names: &Names, version: &str, file: &str, files: &Files) -> Vec<String> {
    let mut problems = Problems::default();
    let stem = file.split('-').take(2).collect::<Vec<_>>().join("-");
    let info = format!("{stem}.dist-info");
    problems.expect_file(files, &format!("{info}/licenses/LICENSE"));
    let text = files.get(&format!("{info}/METADATA")).map(|it| String::from_utf8_lossy(it));
    let Some((head, readme)) = text.as_deref().and_then(|text| text.split_once("\n\n")) else {
        problems.expect(false, format!("`{info}/METADATA` is missing or has no description"));
        return problems.0;
    };
    let all = |key: &str| -> Vec<&str> {
        let prefix = format!("{key}: ");
        head.lines().filter_map(|line| line.strip_prefix(prefix.as_str())).collect()
    };
    let one = |key: &str| all(key).first().copied().unwrap_or_default();
    problems.expect(
        names.is_ours(Registry::Pypi, one("Name")),
        format!("the name `{}` is not ours", one("Name")),
    );
    let wanted = format!("{}-{version}", one("Name").replace('-', "_"));
    problems.expect(stem == wanted, format!("its file must begin with `{wanted}`"));
    problems.expect(one("Version") == version, format!("the version is `{}`", one("Version")));
    for key in ["Summary", "Keywords", "License-Expression", "License-File", "Requires-Python"] {
        problems.expect(!one(key).is_empty(), format!("`{key}` is missing"));
    }
    let is_classified = all("Classifier").iter().all(|it| !it.starts_with("License ::"));
    problems
        .expect(is_classified, "classifiers of licences are refused next to `License-Expression`");
    problems.expect(is_address(one("Author-email")), "`Author-email` is no `NAME <ADDRESS>`");
    for label in ["Homepage", "Documentation", "Repository", "Issues"] {
        let urls = all("Project-URL");
        let url = urls.iter().find_map(|url| url.strip_prefix(label)?.strip_prefix(", "));
        let is_secure = url.is_some_and(|url| url.starts_with("https://"));
        problems.expect(is_secure, format!("`Project-URL: {label}` is no https address"));
    }
    for requirement in all("Requires-Dist") {
        let name = requirement.split(['=', '<', '>', '~', '!', '[', ';', ' ']).next();
        let name = name.unwrap_or_default();
        let is_pinned = requirement == format!("{name}=={version}");
        let is_fine = match names.is_ours(Registry::Pypi, name) {
            true => is_pinned,
            false => names.may_be_named(Registry::Pypi, name),
        };
        problems.expect(
            is_fine,
            format!("needs `{requirement}`: ours have this version, others are listed"),
        );
    }
    let is_markdown = one("Description-Content-Type") == "text/markdown";
    problems.expect(is_markdown, "`Description-Content-Type` is not text/markdown");
    problems.expect_readme(readme);
    let record = files.get(&format!("{info}/RECORD")).map(|it| String::from_utf8_lossy(it));
    let recorded = record.as_deref().unwrap_or_default();
    for path in files.keys() {
        let is_recorded = recorded.lines().any(|line| line.split(',').next() == Some(path));
        problems.expect(is_recorded, format!("RECORD lacks `{path}`"));
    }
    problems.0
}

fn of_npm(names: &Names, version: &str, file: &str, files: &Files) -> Vec<String> {
    let mut problems = Problems::default();
    problems.expect_file(files, "package/LICENSE");
    let text = |path: &str| files.get(path).map(|it| String::from_utf8_lossy(it));
    let manifest = text("package/package.json").and_then(|text| serde_json::from_str(&text).ok());
    let Some(manifest): Option<Value> = manifest else {
        problems.expect(false, "`package.json` is missing or no JSON");
        return problems.0;
    };
    let at = |pointer: &str| manifest.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    problems.expect(
        names.is_ours(Registry::Npm, at("/name")),
        format!("the name `{}` is not ours", at("/name")),
    );
    let wanted = format!("{}-{version}.tgz", at("/name").trim_start_matches('@').replace('/', "-"));
    problems.expect(file == wanted, format!("its file must be `{wanted}`"));
    problems.expect(at("/version") == version, format!("the version is `{}`", at("/version")));
    for pointer in ["/description", "/license", "/author/name", "/keywords/0"] {
        problems.expect(!at(pointer).is_empty(), format!("`{pointer}` is missing"));
    }
    for pointer in ["/homepage", "/bugs/url"] {
        let is_secure = at(pointer).starts_with("https://");
        problems.expect(is_secure, format!("`{pointer}` is no https address"));
    }
    // What a proof of provenance names must be what the package names.
    let repository = format!("git+{}.git", names.publisher.repository);
    let is_known = at("/repository/url") == repository && at("/repository/type") == "git";
    problems.expect(is_known, format!("`/repository` is not `{repository}`"));
    problems.expect(
        at("/publishConfig/access") == "public",
        "it would be published as a private package",
    );
    for key in ["private", "scripts", "devDependencies"] {
        problems
            .expect(manifest.get(key).is_none(), format!("has `{key}`, which is for its source"));
    }
    for key in ["dependencies", "optionalDependencies", "peerDependencies"] {
        for (name, wanted) in manifest[key].as_object().into_iter().flatten() {
            let is_fine = names.is_ours(Registry::Npm, name) && *wanted == version;
            problems.expect(
                is_fine,
                format!("needs `{name}` {wanted}: only ours of this version are fine"),
            );
        }
    }
    let mut named = Vec::new();
    for key in ["bin", "exports", "types", "main"] {
        collect_texts(&manifest[key], &mut named);
    }
    for path in named {
        problems.expect_file(files, &format!("package/{}", path.trim_start_matches("./")));
    }
    problems.expect_readme(&text("package/README.md").unwrap_or_default());
    problems.0
}

fn collect_texts<'v>(value: &'v Value, texts: &mut Vec<&'v str>) {
    match value {
        Value::String(text) => texts.push(text),
        Value::Object(members) => members.values().for_each(|it| collect_texts(it, texts)),
        _ => {}
    }
}

fn is_address(author: &str) -> bool {
    let address = author.split_once(" <").and_then(|(_, rest)| rest.strip_suffix('>'));
    address.and_then(|address| address.split_once('@')).is_some_and(|(_, host)| host.contains('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        Names::read(&xtask::workspace_root()).unwrap()
    }

    /// The problems of a package whose file at `path` has `from` replaced.
    fn changed(
        files: &Files,
        path: &str,
        (from, to): (&str, &str),
        check: impl Fn(&Files) -> Vec<String>,
    ) -> Vec<String> {
        let mut files = files.clone();
        let text = String::from_utf8(files[path].clone()).unwrap();
        assert!(text.contains(from), "{path} has no {from:?}: {text}");
        files.insert(path.to_owned(), text.replacen(from, to, 1).into_bytes());
        check(&files)
    }

    #[test]
    fn each_problem_of_a_wheel_is_named() {
        let names = names();
        let release = Release::for_tests(std::path::Path::new("unused"), "1.2.3");
        let (name, program) = (&names.pypi_sdk, &names.pypi_program);
        let stem = format!("{}-1.2.3", name.replace('-', "_"));
        let info = format!("{stem}.dist-info");
        let metadata = format!(
            "Metadata-Version: 2.4\nName: {name}\nVersion: 1.2.3\nSummary: s\n{}License-Expression: MIT\n\
             License-File: LICENSE\nClassifier: A :: B\nRequires-Python: >=3.10\nRequires-Dist: {program}==1.2.3\n\
             Requires-Dist: websockets>=13; extra == 'websocket'\nDescription-Content-Type: text/markdown\n\n\
             # Title\n\n[a](https://a.test) [b](#title)\n",
            super::super::wheel::of_publisher(&release.names)
        );
        let paths = ["METADATA", "RECORD", "licenses/LICENSE"].map(|path| format!("{info}/{path}"));
        let record: String = paths.iter().map(|path| format!("{path},,\n")).collect();
        let [at_metadata, at_record, at_license] = paths;
        let files = Files::from([
            (at_metadata.clone(), metadata.into_bytes()),
            (at_record.clone(), record.into_bytes()),
            (at_license.clone(), b"text".to_vec()),
        ]);
        let check =
            |files: &Files| of_wheel(&names, "1.2.3", &format!("{stem}-py3-none-any.whl"), files);
        assert_eq!(check(&files), Vec::<String>::new());
        let email = format!("<{}>", names.publisher.email);
        for (path, change, expected) in [
            (&at_metadata, ("Version: 1.2.3", "Version: 1.2.4"), "the version is `1.2.4`"),
            (&at_metadata, ("Summary: s\n", ""), "`Summary` is missing"),
            (&at_metadata, ("Keywords: ", "Words: "), "`Keywords` is missing"),
            (&at_metadata, ("A :: B", "License :: A"), "classifiers of licences"),
            (&at_metadata, (email.as_str(), "here"), "`Author-email` is no"),
            (&at_metadata, ("Issues, https", "Issues, http"), "`Project-URL: Issues` is no https"),
            (&at_metadata, ("==1.2.3", "==1.2.2"), "ours have this version"),
            (&at_metadata, ("websockets", "unlisted"), "needs `unlisted>=13"),
            (&at_metadata, ("text/markdown", "text/plain"), "is not text/markdown"),
            (&at_metadata, ("https://a.test", "../a.md"), "the link to `../a.md` leads nowhere"),
            (
                &at_metadata,
                ("# Title\n\n[a](https://a.test) [b](#title)\n", "\n"),
                "the README has no text",
            ),
            (&at_license, ("text", ""), "LICENSE` is missing or empty"),
            (&at_record, ("METADATA", "OTHER"), "RECORD lacks"),
        ] {
            let found = changed(&files, path, change, check);
            assert!(found.len() == 1 && found[0].contains(expected), "{change:?}: {found:?}");
        }
        let without = files.iter().filter(|(path, _)| **path != at_metadata);
        let without: Files = without.map(|(path, text)| (path.clone(), text.clone())).collect();
        assert_eq!(check(&without), [format!("`{at_metadata}` is missing or has no description")]);
        let found = changed(&files, &at_metadata, ("Name: agentd-embed", "Name: agentd"), check);
        assert_eq!(found[0], "the name `agentd` is not ours");
    }

    #[test]
    fn each_problem_of_a_package_for_npm_is_named() {
        let names = names();
        let (name, publisher) = (&names.npm_sdk, &names.publisher);
        let platform = format!("{}x64", names.npm_platform);
        let manifest = serde_json::json!({
            "name": name, "version": "1.2.3", "description": "d", "license": "MIT", "keywords": ["k"],
            "author": { "name": "n" }, "homepage": "https://h.test", "bugs": { "url": "https://b.test" },
            "repository": { "type": "git", "url": format!("git+{}.git", publisher.repository) },
            "publishConfig": { "access": "public" }, "optionalDependencies": { platform: "1.2.3" },
            "exports": { ".": { "default": "./dist/index.js" } },
        });
        let files = Files::from([
            ("package/package.json".to_owned(), manifest.to_string().into_bytes()),
            ("package/README.md".to_owned(), b"# Title\n\n[a](https://a.test)\n".to_vec()),
            ("package/LICENSE".to_owned(), b"text".to_vec()),
            ("package/dist/index.js".to_owned(), b"code".to_vec()),
        ]);
        let file = format!("{}-1.2.3.tgz", name.trim_start_matches('@').replace('/', "-"));
        let check = |files: &Files| of_npm(&names, "1.2.3", &file, files);
        assert_eq!(check(&files), Vec::<String>::new());
        let manifest = "package/package.json";
        for (path, change, expected) in [
            (manifest, ("\"description\"", "\"d\""), "`/description` is missing"),
            (manifest, ("\"homepage\":\"https", "\"homepage\":\"http"), "`/homepage` is no https"),
            (manifest, ("git+https", "https"), "`/repository` is not `git+"),
            (manifest, ("\"public\"", "\"restricted\""), "as a private package"),
            (manifest, ("{\"name\"", "{\"scripts\":{},\"name\""), "has `scripts`"),
            (
                manifest,
                ("{\"name\"", "{\"dependencies\":{\"agentd\":\"1.2.3\"},\"name\""),
                "needs `agentd`",
            ),
            (manifest, ("x64\":\"1.2.3\"", "x64\":\"^1.2.3\""), "only ours of this version"),
            (manifest, ("index.js", "other.js"), "`package/dist/other.js` is missing"),
            (manifest, ("{", "["), "`package.json` is missing or no JSON"),
            ("package/README.md", ("https://a.test", "a.md"), "the link to `a.md` leads nowhere"),
            ("package/LICENSE", ("text", ""), "LICENSE` is missing or empty"),
        ] {
            let found = changed(&files, path, change, check);
            assert!(found.len() == 1 && found[0].contains(expected), "{change:?}: {found:?}");
        }
        let found = changed(&files, manifest, ("@agentd-embed/sdk", "@agentd/sdk"), check);
        assert_eq!(found[0], "the name `@agentd/sdk` is not ours");
    }
}
