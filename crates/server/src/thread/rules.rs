//! The command rules that all threads share, and what users allowed for good: kept in
//! `<home>/rules/allowed.jsonl`, one JSON object a line, bound to the program's file.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError, RwLock};

use config::table::{PrefixRule, RequiredDecision};
use sandbox::rules::{
    Amendment, Assessment, Context, Decision, Invocation, PathResolver, RuleError, Rules, Token,
    assess,
};
use serde::{Deserialize, Serialize};

use crate::options::Options;

/// No more of the file is read: a rule too many asks, it does not allow.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// See the module.
pub(crate) struct SharedRules {
    file: PathBuf,
    rules: OnceLock<RwLock<Rules>>,
    /// The requirements that are among the rules.
    required: Mutex<Vec<PrefixRule>>,
}

/// One line of the file.
#[derive(Serialize, Deserialize)]
struct Line {
    program: PathBuf,
    tokens: Vec<String>,
}

impl SharedRules {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            file: options.home.join("rules").join("allowed.jsonl"),
            rules: OnceLock::new(),
            required: Mutex::default(),
        }
    }

    /// What is known of a command that would run in `cwd`.
    pub(crate) fn assess(
        &self,
        invocation: Invocation<'_>,
        cwd: &Path,
        resolver: &PathResolver,
        required: &[PrefixRule],
    ) -> Assessment {
        self.require(required);
        let rules = self.rules().read().unwrap_or_else(PoisonError::into_inner);
        assess(invocation, &Context { cwd, resolver }, &rules)
    }

    /// Has an administrator's rules hold, as they are now.
    fn require(&self, rules: &[PrefixRule]) {
        let mut required = self.required.lock().unwrap_or_else(PoisonError::into_inner);
        if *required == rules {
            return;
        }
        let mut all = self.rules().write().unwrap_or_else(PoisonError::into_inner);
        all.release();
        for rule in rules {
            let rule = command_rule(rule).and_then(|rule| all.require(rule));
            // The configuration refused whatever cannot be a rule.
            debug_assert!(rule.is_ok(), "{rule:?}");
        }
        *required = rules.to_vec();
    }

    /// Allows a command prefix from now on.
    ///
    /// # Errors
    /// In words: a program that cannot be trusted by its file, or a file that cannot be written;
    /// then the prefix is allowed until the server ends.
    pub(crate) fn allow(
        &self,
        prefix: &[String],
        cwd: &Path,
        resolver: &PathResolver,
    ) -> Result<(), String> {
        let amendment = Amendment::new(prefix, &Context { cwd, resolver })
            .map_err(|error| error.to_string())?;
        let line = Line { program: amendment.program.clone(), tokens: amendment.tokens.clone() };
        self.rules().write().unwrap_or_else(PoisonError::into_inner).amend(amendment);
        self.append(&line).map_err(|error| format!("{}: {error}", self.file.display()))
    }

    fn rules(&self) -> &RwLock<Rules> {
        self.rules.get_or_init(|| {
            let mut rules = Rules::default();
            for line in self.read() {
                rules.amend(Amendment { program: line.program, tokens: line.tokens });
            }
            RwLock::new(rules)
        })
    }

    /// Lines that cannot be read allow nothing.
    fn read(&self) -> Vec<Line> {
        let mut text = String::new();
        let Ok(file) = std::fs::File::open(&self.file) else { return Vec::new() };
        if file.take(MAX_BYTES).read_to_string(&mut text).is_err() {
            return Vec::new();
        }
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    fn append(&self, line: &Line) -> std::io::Result<()> {
        let mut dir = DirBuilder::new();
        let mut options = OpenOptions::new();
        dir.recursive(true);
        options.create(true).append(true);
        #[cfg(unix)]
        {
            std::os::unix::fs::DirBuilderExt::mode(&mut dir, 0o700);
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        }
        if let Some(parent) = self.file.parent() {
            dir.create(parent)?;
        }
        let mut text = serde_json::to_string(line)?;
        text.push('\n');
        options.open(&self.file)?.write_all(text.as_bytes())
    }
}

fn command_rule(rule: &PrefixRule) -> Result<sandbox::rules::PrefixRule, RuleError> {
    let token = |token: &config::table::Token| match &token.token {
        Some(word) => Token::Literal(word.clone()),
        None => Token::AnyOf(token.any_of.clone()),
    };
    let decision = match rule.decision {
        Some(RequiredDecision::Forbidden) | None => Decision::Forbidden,
        Some(RequiredDecision::Prompt) => Decision::Prompt,
    };
    let pattern = rule.pattern.iter().map(token).collect();
    sandbox::rules::PrefixRule::new(pattern, decision, rule.justification.clone())
}
