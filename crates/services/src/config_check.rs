//! Checks a configuration as a whole, with the files, folders, programs and addresses that a first turn
//! would use. Starts nothing and sends nothing.

mod headers;
mod network;
mod programs;
mod providers;
mod servers;

use std::path::Path;

use config::{Error, LayerName, Origin, Resolved, SourceRange, Warning, WarningKind};

use crate::config_source::ConfigSource;
use crate::options::Options;
use crate::rules;
use crate::thread_defaults::MAX_INSTRUCTIONS_BYTES;

const CONFIGURATION: &str = "configuration";

/// A mistake in the configuration, or in what it names.
#[derive(Debug)]
pub struct Finding {
    /// `configuration`, or `rules` for a file of command rules.
    pub about: &'static str,
    /// True if a first turn fails because of it. Otherwise the program works without the part.
    pub is_error: bool,
    /// The mistake with its file and line, and below it that line.
    pub text: String,
}

/// Checks that the terminal interface has a theme of a name; the error says why not.
pub type ThemeCheck<'c> = &'c dyn Fn(&str) -> Result<(), String>;

/// The checks that are no part of the server.
#[derive(Clone, Copy)]
pub struct ClientChecks<'c> {
    pub theme: ThemeCheck<'c>,
    /// Returns what is wrong with an item of `tui.status_line`, if anything.
    pub status_item: &'c dyn Fn(&str) -> Result<(), String>,
}

/// Checks the configuration of the working folder as a whole: every mistake in the order of the files
/// and lines, then those in the files of command rules. A mistake that counts only with a profile that is not
/// selected is a warning.
pub fn check_configuration(options: &Options, client: ClientChecks<'_>) -> Vec<Finding> {
    let (mut findings, resolved) = findings(options, client);
    let Some(resolved) = resolved else { return findings.sorted() };
    let selected = resolved.config.profile.as_ref();
    for name in resolved.profile_names().filter(|name| Some(*name) != selected) {
        let mut options = options.clone();
        let value = config::edit::value_text(&name.as_str().into());
        options.config_overrides.push(format!("profile={value}"));
        let (with_profile, _) = self::findings(&options, client);
        findings.add_those_with_profile(name, with_profile);
    }
    let mut findings = findings.sorted();
    let of_rules = rules::mistakes(options, &resolved.config);
    let of_rules = of_rules.into_iter();
    findings.extend(of_rules.map(|(is_error, text)| Finding { about: "rules", is_error, text }));
    findings
}

/// The mistakes in the configuration with the profile that it selects, and the configuration.
fn findings(options: &Options, client: ClientChecks<'_>) -> (Findings, Option<Resolved>) {
    let (errors, loaded) = ConfigSource::mistakes(options);
    let mut findings = Findings::default();
    errors.into_iter().for_each(|error| findings.error(error));
    let Some(resolved) = loaded else { return (findings, None) };
    resolved.warnings.iter().for_each(|warning| findings.warning(warning));
    let mut check = Check { resolved: &resolved, options, findings };
    check.files();
    check.folders();
    check.thread_database();
    check.notify();
    check.servers();
    check.providers();
    check.telemetry();
    check.networks();
    if let Some(name) = &resolved.config.tui.theme
        && let Err(why) = (client.theme)(name)
    {
        check.add(Severity::Warning, "tui.theme", why);
    }
    for (at, item) in resolved.config.tui.status_line.iter().flatten().enumerate() {
        if let Err(why) = (client.status_item)(item) {
            check.add(Severity::Warning, &format!("tui.status_line.{at}"), why);
        }
    }
    let findings = check.findings;
    (findings, Some(resolved))
}

/// Severity of a mistake: an error if a first turn fails because of it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Severity {
    Error,
    Warning,
}

impl Severity {
    /// The severity of a mistake in a part.
    fn of_part(is_used: bool) -> Self {
        if is_used { Self::Error } else { Self::Warning }
    }
}

/// Layer, line and column.
type Place = (Option<LayerName>, Option<(usize, usize)>);

/// Findings with their places.
#[derive(Default)]
struct Findings(Vec<(Place, Finding)>);

impl Findings {
    fn error(&mut self, error: Error) {
        let found = Finding { about: CONFIGURATION, is_error: true, text: error.diagnostic() };
        self.0.push((place(error.origin()), found));
    }

    fn warning(&mut self, warning: &Warning) {
        let found = Finding { about: CONFIGURATION, is_error: false, text: warning.diagnostic() };
        self.0.push((place(Some(&warning.origin)), found));
    }

    /// Adds the findings that there are only with a profile, at places without another finding.
    fn add_those_with_profile(&mut self, name: &str, with_profile: Findings) {
        let known: Vec<Place> = self.0.iter().map(|(place, _)| place.clone()).collect();
        for (place, mut finding) in with_profile.0 {
            if place.1.is_none() || known.contains(&place) {
                continue;
            }
            let (first, rest) = finding.text.split_once('\n').unwrap_or((&finding.text, ""));
            finding.text = format!("{first} (with the profile `{name}`)\n{rest}");
            finding.text.truncate(finding.text.trim_end().len());
            finding.is_error = false;
            self.0.push((place, finding));
        }
    }

    fn sorted(mut self) -> Vec<Finding> {
        self.0.sort_by(|(one, _), (other, _)| one.cmp(other));
        self.0.into_iter().map(|(_, finding)| finding).collect()
    }
}

fn place(origin: Option<&Origin>) -> Place {
    let range = origin.and_then(Origin::range);
    (origin.map(Origin::layer), range.map(SourceRange::line_column))
}

/// A check of what a configuration names.
struct Check<'c> {
    resolved: &'c Resolved,
    options: &'c Options,
    findings: Findings,
}

impl Check<'_> {
    /// Adds a mistake in the value of a dotted key.
    fn add(&mut self, severity: Severity, key: &str, message: impl Into<String>) {
        let origin = self.resolved.origin_near(key).cloned().unwrap_or(Origin::Process);
        let message = message.into();
        match severity {
            Severity::Error => self.findings.error(Error::at(&origin, key, message)),
            Severity::Warning => {
                let warning = Warning::at(&origin, key, message, WarningKind::Note);
                self.findings.warning(&warning);
            }
        }
    }

    /// The files of models, instructions and prompts.
    fn files(&mut self) {
        let config = &self.resolved.config;
        let prose = |path: &Path| {
            let read = files::read_text(path, MAX_INSTRUCTIONS_BYTES);
            read.err().map(|error| error.to_string())
        };
        let catalog = |path: &Path| model::catalog::read(path).err().map(|error| error.to_string());
        let named = [
            ("model_catalog_json", config.model_catalog_json.as_deref().and_then(catalog)),
            ("model_instructions_file", config.model_instructions_file.as_deref().and_then(prose)),
            (
                "experimental_compact_prompt_file",
                config.experimental_compact_prompt_file.as_deref().and_then(prose),
            ),
        ];
        for (key, why) in named {
            if let Some(why) = why {
                self.add(Severity::Error, key, why);
            }
        }
    }

    /// The folders that commands may write, and those of this program's own files.
    fn folders(&mut self) {
        let config = &self.resolved.config;
        for (index, root) in config.sandbox_workspace_write.writable_roots.iter().enumerate() {
            if let Err(why) = folder(root) {
                let key = format!("sandbox_workspace_write.writable_roots.{index}");
                let message = format!("{why}; commands can write there once it is a folder");
                self.add(Severity::Warning, &key, message);
            }
        }
        for (index, skill) in config.skills.config.iter().enumerate() {
            if let Some(Err(why)) = skill.path.as_deref().map(folder) {
                let message = format!("{why}; correct the path, or remove the entry");
                self.add(Severity::Warning, &format!("skills.config.{index}.path"), message);
            }
        }
        for (key, path) in [("sqlite_home", &config.sqlite_home), ("log_dir", &config.log_dir)] {
            let is_set = self.resolved.value(key).is_some();
            if is_set && let Err(why) = own_folder(path) {
                self.add(Severity::Error, key, format!("{why}; name a folder that can be written"));
            }
        }
    }

    /// The password and the authorities of the database of threads.
    fn thread_database(&mut self) {
        let database = self.resolved.config.thread_database.as_ref();
        if let Some(Err(error)) = database.map(crate::thread_database::check) {
            self.add(Severity::Error, "store", error.to_string());
        }
    }

    fn notify(&mut self) {
        let config = &self.resolved.config;
        let Some(program) = config.notify.first() else { return };
        let environment = crate::command_environment::command_environment(self.options, config);
        let path = environment.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path);
        if let Err(why) = programs::find(program, &self.options.cwd, path.map(AsRef::as_ref)) {
            let message = format!("{why}; turns are not announced until then");
            self.add(Severity::Warning, "notify", message);
        }
    }
}

/// Checks that a folder of this program is there or could be made, and can be written. In a file system that
/// refuses new entries, only the attempt shows it: it makes an empty folder and removes it at once.
fn own_folder(path: &Path) -> Result<(), String> {
    let existing = path.ancestors().find(|ancestor| ancestor.symlink_metadata().is_ok());
    let Some(existing) = existing else { return Ok(()) };
    if !existing.is_dir() {
        return Err(format!("{} is not a folder", existing.display()));
    }
    let attempt = existing.join(format!(".agentd-check-{}", std::process::id()));
    match std::fs::create_dir(&attempt) {
        Ok(()) => {
            let removed = std::fs::remove_dir(&attempt);
            removed.map_err(|error| format!("{}: {error}", attempt.display()))
        }
        Err(error) => Err(format!("nothing can be written in {}: {error}", existing.display())),
    }
}

fn folder(path: &Path) -> Result<(), String> {
    match path.metadata() {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(format!("{} is not a folder", path.display())),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}
