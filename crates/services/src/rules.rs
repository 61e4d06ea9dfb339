//! The command rules that hold in a folder: `.rules` files of the user and of trusted projects,
//! and an administrator's requirements. Files are read again when they change. What a client
//! allows permanently is appended to `<home>/rules/default.rules`.

use std::collections::HashMap;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use config::Config;
use config::RequiredRule;
use config::table::RequiredDecision;
use sandbox::Resolved;
use sandbox::rules::{
    Assessment, Context, Decision, Invocation, MAX_RULES_FILE, Origin, PathResolver, PrefixRule,
    Rules, RulesFile, Token, Verdict, amendment, assess, parse_rules, rule_text,
};
use session::SandboxPolicy;

use crate::command_environment::{command_environment, command_tmpdir, tmpdir_in};
use crate::convert::policies::configured_sandbox;
use crate::error::Error;
use crate::home::make_home;
use crate::options::Options;

/// The file that amendments go to.
const AMENDED_FILE: &str = "default.rules";
/// Files of one folder, at most. More are an error.
const MAX_FILES: usize = 256;
/// Folders whose rules are kept ready.
const MAX_KEPT: usize = 64;

/// The command rules of a folder.
pub struct CommandRules {
    user_file: PathBuf,
    kept: Mutex<HashMap<Vec<PathBuf>, Kept>>,
    appending: Mutex<()>,
}

/// The rules of some folders, and the state of the folders that they were read from.
#[derive(Clone)]
struct Kept {
    sources: Vec<Source>,
    required: Vec<RequiredRule>,
    ready: Arc<Ready>,
}

/// Parsed rules, with the files that they came from.
struct Ready {
    rules: Rules,
    /// The number of rules in each file, or the reason why it cannot be used.
    files: Vec<(PathBuf, Result<usize, Error>)>,
    /// The statements that are left out or read in part, each with its place.
    problems: Vec<String>,
}

/// A file and its metadata when it was read last, or why they cannot be read.
#[derive(Clone, PartialEq, Eq)]
enum Source {
    File { path: PathBuf, modified: Option<SystemTime>, length: u64 },
    Broken { path: PathBuf, why: String },
}

impl CommandRules {
    pub fn new(options: &Options) -> Self {
        Self {
            user_file: options.home.join("rules").join(AMENDED_FILE),
            kept: Mutex::default(),
            appending: Mutex::default(),
        }
    }

    /// Returns the assessment of a command that would run in `cwd`.
    pub fn assess(
        &self,
        invocation: Invocation<'_>,
        cwd: &Path,
        resolver: &PathResolver,
        config: &Config,
    ) -> Assessment {
        assess(invocation, &Context { cwd, resolver }, &self.ready(config).rules)
    }

    /// The files that cannot be used, and the statements that cannot, each with the reason.
    pub fn problems(&self, config: &Config) -> Vec<String> {
        let ready = self.ready(config);
        let broken = ready.files.iter().filter_map(|(_, read)| read.as_ref().err());
        broken.map(ToString::to_string).chain(ready.problems.iter().cloned()).collect()
    }

    fn ready(&self, config: &Config) -> Arc<Ready> {
        let sources: Vec<Source> =
            config.rule_folders.iter().flat_map(|folder| sources(folder)).collect();
        let required = config.requirements.prefix_rules();
        if let Some(kept) = self.kept().get(&config.rule_folders)
            && kept.sources == sources
            && kept.required == required
        {
            return kept.ready.clone();
        }
        // Read without the lock: a file system that does not answer delays no other thread.
        let ready = Arc::new(self.read(&sources, required));
        let mut all = self.kept();
        if all.len() >= MAX_KEPT {
            all.clear();
        }
        let kept = Kept { sources, required: required.to_vec(), ready: ready.clone() };
        all.insert(config.rule_folders.clone(), kept);
        ready
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<Vec<PathBuf>, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, sources: &[Source], required: &[RequiredRule]) -> Ready {
        let mut rules = Rules::default();
        for rule in required {
            let rule = command_rule(rule).and_then(|rule| rules.require(rule));
            // The configuration refuses invalid rules.
            debug_assert!(rule.is_ok(), "{rule:?}");
        }
        let (mut files, mut problems) = (Vec::new(), Vec::new());
        for source in sources {
            let (path, read) = match source {
                Source::File { path, .. } => (path, read_rules(path)),
                Source::Broken { path, why } => {
                    (path, ReadFile::broken(Error::failed(why.clone())))
                }
            };
            let count = read.rules.len();
            read.rules.into_iter().for_each(|rule| rules.add(rule));
            problems.extend(read.problems);
            let counted = match read.broken {
                None => Ok(count),
                Some(error) => {
                    let error = error.within(
                        "the command rules cannot be read, so every command needs approval until \
                         they are fixed",
                    );
                    rules.add_broken(error.to_string());
                    Err(error)
                }
            };
            files.push((path.clone(), counted));
        }
        Ready { rules, files, problems }
    }

    /// Allows a command prefix from now on.
    ///
    /// # Errors
    /// A program that a command could replace, or a file that cannot be read or written. Then
    /// nothing is allowed.
    pub fn allow(
        &self,
        prefix: &[String],
        cwd: &Path,
        resolver: &PathResolver,
    ) -> Result<(), Error> {
        let pattern = amendment(prefix, &Context { cwd, resolver })
            .map_err(|error| Error::invalid_params(error.to_string()))?;
        let _one_at_a_time = self.appending.lock().unwrap_or_else(PoisonError::into_inner);
        let known = match self.user_file.symlink_metadata() {
            Ok(_) => {
                let read = read_rules(&self.user_file);
                read.broken.map_or(Ok(read.rules), Err)?
            }
            Err(_) => Vec::new(),
        };
        let is_known = |rule: &PrefixRule| {
            let words = rule.tokens().map(|words| words.first().filter(|_| words.len() == 1));
            rule.decision() == Decision::Allow && words.eq(pattern.iter().map(Some))
        };
        if known.iter().any(is_known) {
            return Ok(());
        }
        append(&self.user_file, &rule_text(&pattern))
            .map_err(|error| Error::failed(format!("{}: {error}", self.user_file.display())))
    }
}

/// The `.rules` files of a folder, by name; none when the folder is not there.
fn sources(folder: &Path) -> Vec<Source> {
    let broken = |path: &Path, why: &dyn std::fmt::Display| Source::Broken {
        path: path.to_owned(),
        why: format!("{}: {why}", path.display()),
    };
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => return vec![broken(folder, &error)],
    };
    let mut paths = Vec::new();
    for entry in entries {
        match entry {
            Ok(entry) => paths.push(entry.path()),
            Err(error) => return vec![broken(folder, &error)],
        }
    }
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "rules"));
    if paths.len() > MAX_FILES {
        return vec![broken(folder, &format!("more than {MAX_FILES} files"))];
    }
    paths.sort_unstable();
    let seen = |path: PathBuf| match path.metadata() {
        Ok(found) => Source::File { path, modified: found.modified().ok(), length: found.len() },
        Err(error) => broken(&path, &error),
    };
    paths.into_iter().map(seen).collect()
}

/// The contents of a file, with its path in all places.
#[derive(Default)]
struct ReadFile {
    rules: Vec<PrefixRule>,
    problems: Vec<String>,
    broken: Option<Error>,
}

impl ReadFile {
    fn broken(error: Error) -> Self {
        Self { broken: Some(error), ..Self::default() }
    }
}

fn read_rules(path: &Path) -> ReadFile {
    // One byte over the limit, so that the parser reports the file as too large.
    let most = u64::try_from(MAX_RULES_FILE).unwrap_or(u64::MAX).saturating_add(1);
    let bytes = match files::read_start(path, most) {
        Ok(bytes) => bytes,
        Err(error) => return ReadFile::broken(Error::failed(error.to_string()).with_source(error)),
    };
    let Ok(text) = files::decoded(bytes) else {
        return ReadFile::broken(Error::failed(files::Error::NotText(path.to_owned()).to_string()));
    };
    let file: Arc<Path> = path.into();
    let RulesFile { rules, problems, broken } = parse_rules(&text);
    let place = |(line, rule): (usize, PrefixRule)| {
        rule.at(Origin { file: file.clone(), line: Some(line) })
    };
    ReadFile {
        rules: rules.into_iter().map(place).collect(),
        problems: problems.iter().map(|why| format!("{}:{why}", path.display())).collect(),
        broken: broken.map(|error| Error::failed(format!("{}:{error}", path.display()))),
    }
}

fn append(path: &Path, rule: &str) -> std::io::Result<()> {
    if let Some(parent) = path.parent() {
        make_home(parent)?;
    }
    let files::Opened { mut file, metadata } =
        files::append(path).map_err(files::Error::into_io)?;
    let mut mark = Vec::new();
    Read::by_ref(&mut file).take(2).read_to_end(&mut mark)?;
    let encoding = Encoding::of(&mark);
    let line_break = encoding.encoded("\n");
    let mut last = line_break.clone();
    if metadata.len() >= last.len() as u64 {
        file.seek(SeekFrom::Start(metadata.len() - last.len() as u64))?;
        file.read_exact(&mut last)?;
    }
    // In one write, so that another server cannot write in between.
    let separator = if last == line_break { "" } else { "\n" };
    file.write_all(&encoding.encoded(&format!("{separator}{rule}\n")))?;
    file.sync_data()
}

/// The encoding of a file, which what is appended must have, too.
#[derive(Clone, Copy)]
enum Encoding {
    Utf8,
    Utf16Le,
    Utf16Be,
}

impl Encoding {
    fn of(mark: &[u8]) -> Self {
        match mark {
            [0xff, 0xfe] => Self::Utf16Le,
            [0xfe, 0xff] => Self::Utf16Be,
            _ => Self::Utf8,
        }
    }

    fn encoded(self, text: &str) -> Vec<u8> {
        match self {
            Self::Utf8 => text.as_bytes().to_vec(),
            Self::Utf16Le => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
            Self::Utf16Be => text.encode_utf16().flat_map(u16::to_be_bytes).collect(),
        }
    }
}

/// A requirement's rule, with the file that contains it.
fn command_rule(required: &RequiredRule) -> Result<PrefixRule, sandbox::Error> {
    let rule = &required.rule;
    let token = |token: &config::table::Token| match &token.token {
        Some(word) => Token::Literal(word.clone()),
        None => Token::AnyOf(token.any_of.clone()),
    };
    let decision = match rule.decision {
        Some(RequiredDecision::Forbidden) | None => Decision::Forbidden,
        Some(RequiredDecision::Prompt) => Decision::Prompt,
    };
    let pattern = rule.pattern.iter().map(token).collect();
    let rule = PrefixRule::new(pattern, decision, rule.justification.clone())?;
    Ok(match required.origin.range() {
        Some(place) => {
            let (line, _) = place.line_column();
            rule.at(Origin { file: place.path().into(), line: Some(line) })
        }
        None => rule,
    })
}

/// Finds programs as a command would, except in folders that it may write.
pub fn resolver(
    options: &Options,
    config: &Config,
    policy: &SandboxPolicy,
    cwd: &Path,
) -> PathResolver {
    let environment = command_environment(options, config);
    let tmpdir = tmpdir_in(&environment);
    let path = environment.into_iter().find(|(name, _)| name == "PATH").map(|(_, value)| value);
    let resolved = Resolved::new(&policy.rooted(cwd), tmpdir.as_deref());
    // Under full access nothing is listed, but what the agent itself writes is not trusted.
    let mut writable = resolved.writable_folders();
    writable.push(cwd.to_owned());
    writable.extend(policy::temporary_folders(tmpdir.as_deref()).map(Path::to_owned));
    PathResolver::new(&path.unwrap_or_default(), &writable)
}

/// Why a rule decides as it does, for the prompt or the refusal: its justification, and the file and
/// line that it stands at.
pub fn reason(verdict: Verdict) -> Option<String> {
    let place = verdict.origin.map(|origin| format!("the rule at {origin}"));
    match (verdict.justification, place) {
        (Some(why), Some(place)) => Some(format!("{why} ({place})")),
        (why, place) => why.or(place),
    }
}

/// Why a command would run, need approval or be refused: `agentd rules check`.
pub struct Explained {
    /// The combined decision of the rules; `None` when none matches.
    pub verdict: Option<Verdict>,
    /// Every rule that matches, with the command that it matches.
    pub matching: Vec<(PrefixRule, String)>,
    /// True if it only reads.
    pub known_safe: bool,
    /// True if it destroys data permanently, or runs as another user.
    pub dangerous: bool,
    /// The prefix that a client would be offered to allow permanently.
    pub proposed: Option<Vec<String>>,
    /// The files of rules that hold here: how many rules each has, or why it cannot be used.
    pub files: Vec<(PathBuf, Result<usize, Error>)>,
    /// The statements in them that are left out or read in part, each with its place.
    pub problems: Vec<String>,
}

/// The mistakes in the files of rules that hold under a configuration, each with its place: whether every
/// command needs approval because of it, and the message.
pub(crate) fn mistakes(options: &Options, config: &Config) -> Vec<(bool, String)> {
    let ready = CommandRules::new(options).ready(config);
    let broken = ready.files.iter().filter_map(|(_, read)| read.as_ref().err());
    let broken = broken.map(|error| (true, error.to_string()));
    broken.chain(ready.problems.iter().map(|problem| (false, problem.clone()))).collect()
}

/// Explains how a command in the working folder would be treated under the configuration there.
///
/// # Errors
/// A configuration that cannot be used.
pub fn explain_command(
    options: &Options,
    invocation: Invocation<'_>,
) -> Result<Explained, config::Error> {
    let config = crate::config_source::configuration(options, true)?.config;
    let policy = configured_sandbox(&config, &options.cwd, command_tmpdir(options, &config));
    let resolver = resolver(options, &config, &policy, &options.cwd);
    let context = Context { cwd: &options.cwd, resolver: &resolver };
    let ready = CommandRules::new(options).ready(&config);
    let assessed = assess(invocation, &context, &ready.rules);
    let matching = ready.rules.matching(invocation, &context).into_iter();
    Ok(Explained {
        verdict: assessed.decision,
        matching: matching.map(|(rule, command)| (rule.clone(), command)).collect(),
        known_safe: assessed.known_safe,
        dangerous: assessed.dangerous,
        proposed: assessed.proposed_amendment,
        files: ready.files.clone(),
        problems: ready.problems.clone(),
    })
}
