//! Tests of the public interface, with files in a temporary folder.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod access;
mod diagnostics;
mod edits;
mod file_cache;
mod layers;
mod patterns;
mod people;
mod plugins;
mod properties;
mod providers;
mod requirements;
mod resolve;
mod schema;
mod shapes;
mod store;
mod table;
mod toml_suite;
mod trust;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use config::{
    Config, Environment, Error, FileCache, Layer, LayerName, Overrides, Resolved, Stack, Warning,
    WarningKind,
};
use tempfile::TempDir;

/// The folders of an administrator, a user and a project.
pub(crate) struct TestHome {
    _folder: TempDir,
    pub(crate) root: PathBuf,
    pub(crate) home: PathBuf,
    pub(crate) system: PathBuf,
    pub(crate) cwd: PathBuf,
    pub(crate) files: FileCache,
    pub(crate) flags: Vec<String>,
    pub(crate) thread: serde_json::Value,
    pub(crate) strict: bool,
}

impl TestHome {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (home, system, cwd) = (root.join("me/.agent"), root.join("etc"), root.join("work"));
        for folder in [&home, &system, &cwd.join(".git")] {
            std::fs::create_dir_all(folder).unwrap();
        }
        Self {
            _folder: folder,
            root,
            home,
            system,
            cwd,
            files: FileCache::default(),
            flags: Vec::new(),
            thread: serde_json::json!({}),
            strict: false,
        }
    }

    /// A home whose user file has this text.
    pub(crate) fn with(text: &str) -> Self {
        let home = Self::new();
        home.user(text);
        home
    }

    pub(crate) fn user(&self, text: &str) {
        std::fs::write(self.home.join("config.toml"), text).unwrap();
    }

    pub(crate) fn write(&self, path: impl AsRef<Path>, text: &str) {
        let path = self.root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub(crate) fn flag(mut self, argument: &str) -> Self {
        self.flags.push(argument.to_owned());
        self
    }

    pub(crate) fn resolved(&self) -> Result<Resolved, Error> {
        self.resolved_in(&self.cwd)
    }

    /// How many folders of projects are left out, since they are not trusted.
    pub(crate) fn left_out(&self) -> usize {
        let left_out =
            |stack: &Stack| stack.layers.iter().filter(|it| it.disabled.is_some()).count();
        self.with_stack(&self.cwd, |stack, _| Ok(left_out(stack))).unwrap()
    }

    pub(crate) fn resolved_in(&self, cwd: &Path) -> Result<Resolved, Error> {
        self.with_stack(cwd, config::resolve)
    }

    fn with_stack<T>(
        &self,
        cwd: &Path,
        then: impl FnOnce(&Stack, &Environment<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let user = self.root.join("me").display().to_string();
        let env = move |name: &str| match name {
            "HOME" => Some(user.clone()),
            "MY_KEY" => Some("secret-1".to_owned()),
            "AWS_ACCESS_KEY_ID" => Some("AKID".to_owned()),
            "AWS_SECRET_ACCESS_KEY" => Some("aws-secret-1".to_owned()),
            "MY_ORG" => Some("org-7".to_owned()),
            "EMPTY" => Some(String::new()),
            // The check of the tests of effects.
            "AGENTD_TEST_IGNORED_KEY" => std::env::var(name).ok(),
            _ => None,
        };
        let environment =
            Environment { home: &self.home, system: &self.system, cwd, variable: &env };
        let flags = Arc::new(Layer::command_line(&self.flags)?);
        let thread = Arc::new(Layer::thread(self.thread.as_object().unwrap())?);
        let given = Overrides {
            flags: Some(&flags),
            thread: Some(&thread),
            strict: self.strict,
            ..Overrides::default()
        };
        let stack = Stack::load(&self.files, given, &environment)?;
        then(&stack, &environment)
    }

    pub(crate) fn config(&self) -> Config {
        self.resolved().unwrap_or_else(|error| panic!("{}", error.diagnostic())).config
    }

    pub(crate) fn error(&self) -> String {
        self.resolved().expect_err("this configuration cannot be used").to_string()
    }

    pub(crate) fn warnings(&self) -> Vec<String> {
        self.resolved().unwrap().warnings.iter().map(ToString::to_string).collect()
    }
}

/// Parses a user's file that does not exist on disk.
pub(crate) fn parse(text: &str) -> Result<Layer, Error> {
    Layer::parse(LayerName::User { file: "/home/a/config.toml".into() }, text)
}

/// Returns whether each key accepts its value in this text: none is an error, understood as another
/// value or left out.
pub(crate) fn accepts(text: &str) -> bool {
    let Ok(layer) = parse(text) else { return false };
    let is_odd = |warning: &Warning| {
        let is_mistake = warning.message.contains("must be ");
        warning.kind == WarningKind::Unknown
            || warning.message.contains(" is understood as ")
            || (warning.kind == WarningKind::LeftOut && is_mistake)
    };
    // Without a profile and a provider, which the text may select and not define.
    let selects =
        |line: &&str| line.starts_with("profile = ") || line.starts_with("model_provider = ");
    let lines: Vec<&str> = text.lines().filter(|line| !selects(line)).collect();
    let unselected = lines.join("\n");
    let is_invalid =
        |error: Error| error.each().iter().any(|error| matches!(error, Error::Invalid(_)));
    !layer.warnings().iter().any(is_odd)
        && match TestHome::with(&unselected).resolved() {
            Ok(resolved) => !resolved.warnings.iter().any(is_odd),
            Err(error) => !is_invalid(error),
        }
}
