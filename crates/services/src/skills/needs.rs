//! The needs of skills besides their texts (`dependencies` of `SKILL.json`): environment variables,
//! for which the user is asked, and MCP servers, which are added to the configuration when the user
//! consents.

use std::path::Path;

use config::Config;
use sandbox::env::CORE_VARIABLES;
use serde_json::{Value, json};
use session::{QuestionOption, UsedSkill, UserQuestion};
use skills::{Dependency, Skill};

use super::{Skills, Switches};
use crate::error::Error;

/// The option that consents to an MCP server.
pub const INSTALL: &str = "Install";
/// The other option.
const DECLINE: &str = "Do not install";
/// Things that the skills of one message can ask for; the rest is left out with a note.
const MAX_NEEDS: usize = 30;
/// Longest name of a server.
const MAX_NAME: usize = 64;
/// Characters of a command line that only a shell understands.
const SHELL: &str = "'\"\\$`;|&<>(){}[]*?~#!\n\r\0";

/// The missing dependencies.
#[derive(Debug, Default)]
pub struct Needs {
    /// The dependencies to ask the user for.
    pub needed: Vec<Needed>,
    /// The notes about the impossible ones, for the model.
    pub notes: Vec<String>,
}

/// Something that only the user can give.
#[derive(Debug)]
pub struct Needed {
    pub question: UserQuestion,
    pub kind: NeedKind,
}

/// See [`Needed`].
#[derive(Debug, Clone, PartialEq)]
pub enum NeedKind {
    /// The environment variable of this name.
    Variable(String),
    /// An MCP server and its entry in the configuration.
    Server { name: String, entry: Value },
}

impl Skills {
    /// Returns the missing dependencies of the skills for work in `cwd`, with this configuration of
    /// the folder. `is_set`: whether commands have this environment variable.
    ///
    /// # Errors
    /// The file system does not answer.
    pub async fn needs(
        &self,
        cwd: &Path,
        config: &Config,
        used: &[UsedSkill],
        is_set: impl Fn(&str) -> bool,
    ) -> Result<Needs, Error> {
        let set = self.in_folder(cwd, config, false).await?;
        let switches = Switches::new(config);
        let mut needs = Needs::default();
        for used in used {
            let is_it = |skill: &&Skill| skill.path == Path::new(&used.path);
            // One that is gone since was used as it was.
            let Some(skill) = set.enabled(&switches).find(is_it) else { continue };
            for dependency in skill.dependencies.iter().flat_map(|needs| &needs.tools) {
                needs.add(&skill.name, dependency, config, &is_set);
            }
        }
        Ok(needs)
    }
}

impl Needs {
    fn add(
        &mut self,
        skill: &str,
        dependency: &Dependency,
        config: &Config,
        is_set: &impl Fn(&str) -> bool,
    ) {
        if self.needed.len() >= MAX_NEEDS {
            let name = visible::exact(&dependency.value);
            self.notes.push(format!(
                "The skill `{skill}` also needs `{name}`, which is left out: at most {MAX_NEEDS} \
                 things can be asked for."
            ));
            return;
        }
        match &*dependency.kind {
            "env_var" => self.add_variable(skill, dependency, is_set),
            _ => {
                if let Err(why) = self.add_server(skill, dependency, config) {
                    let name = visible::exact(&dependency.value);
                    let note = format!(
                        "The skill `{skill}` needs the MCP server `{name}`, which cannot be used: {why}."
                    );
                    if !self.notes.contains(&note) {
                        self.notes.push(note);
                    }
                }
            }
        }
    }

    fn add_variable(
        &mut self,
        skill: &str,
        dependency: &Dependency,
        is_set: &impl Fn(&str) -> bool,
    ) {
        let name = &dependency.value;
        let kind = NeedKind::Variable(name.clone());
        if is_set(name) || self.has(&kind) {
            return;
        }
        let question = format!(
            "The skill `{skill}` needs the environment variable {name}{}. The value is given to the \
             commands of this thread and stored nowhere. Without an answer the variable stays unset.",
            described(dependency)
        );
        let question = UserQuestion {
            id: name.clone(),
            header: name.clone(),
            question,
            options: Vec::new(),
            is_other: false,
            is_secret: true,
        };
        self.needed.push(Needed { question, kind });
    }

    /// # Errors
    /// Why the server cannot be used.
    fn add_server(
        &mut self,
        skill: &str,
        dependency: &Dependency,
        config: &Config,
    ) -> Result<(), String> {
        let name = &dependency.value;
        let entry = entry(dependency)?;
        let (command, url) = (entry["command"].as_str(), entry["url"].as_str());
        if let Some(known) = config.mcp_servers.get(name) {
            let known_url = known.url.as_ref().map(|url| url.0.as_str());
            let is_it = known.command.as_deref() == command && known_url == url;
            return match (is_it, known.enabled) {
                (true, true) => Ok(()),
                (true, false) => Err("the configuration switches it off".to_owned()),
                (false, _) => Err("the configuration has another server of this name".to_owned()),
            };
        }
        let kind = NeedKind::Server { name: name.clone(), entry: entry.clone() };
        if self.has(&kind) {
            return Ok(());
        }
        if let Some(why) = config.requirements.refusal_of_server(name, command, url) {
            return Err(why);
        }
        if !config.features.skill_mcp_dependency_install {
            return Err("it is not configured, and `features.skill_mcp_dependency_install` is off"
                .to_owned());
        }
        let reach = match url {
            Some(url) => format!("It is reached at {url}"),
            None => format!(
                "It runs the program `{}` outside of the sandbox, with your rights and these environment \
                 variables: {}",
                dependency.command.as_deref().unwrap_or_default().trim(),
                CORE_VARIABLES.join(", ")
            ),
        };
        let question = format!(
            "The skill `{skill}` needs the MCP server `{name}`{}, which is not configured. {reach}. \
             Install it for all threads?",
            described(dependency)
        );
        let option = |label: &str, description: &str| QuestionOption {
            label: label.to_owned(),
            description: description.to_owned(),
        };
        let question = UserQuestion {
            // No variable has such a name.
            id: format!("mcp:{name}"),
            header: "MCP server".to_owned(),
            question,
            options: vec![
                option(INSTALL, "Adds it to the configuration of your home and starts it"),
                option(DECLINE, "The skill is used without it"),
            ],
            is_other: false,
            is_secret: false,
        };
        self.needed.push(Needed { question, kind });
        Ok(())
    }

    fn has(&self, kind: &NeedKind) -> bool {
        self.needed.iter().any(|needed| needed.kind == *kind)
    }
}

fn described(dependency: &Dependency) -> String {
    // On one line: further lines could look like a question of their own.
    let words = dependency.description.as_deref().unwrap_or_default().split_whitespace();
    let description = words.collect::<Vec<_>>().join(" ");
    match description.is_empty() {
        true => String::new(),
        false => format!(" (“{}”)", description.trim_end_matches('.')),
    }
}

/// The entry of a server in the configuration.
///
/// # Errors
/// Why there can be none.
fn entry(dependency: &Dependency) -> Result<Value, String> {
    let name = &dependency.value;
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.len() > MAX_NAME || !name.chars().all(fits) {
        return Err(format!("its name must have at most {MAX_NAME} letters, digits, `-` and `_`"));
    }
    match (dependency.transport.as_deref(), &dependency.command, &dependency.url) {
        (None | Some("stdio"), Some(command), None) => {
            if let Some(c) = command.chars().find(|c| SHELL.contains(*c)) {
                return Err(format!(
                    "`command` must be a program and its arguments, without {c:?}, which only a shell \
                     understands"
                ));
            }
            let mut words = command.split_whitespace();
            let program = words.next().ok_or("`command` is empty")?;
            let args: Vec<&str> = words.collect();
            Ok(match args.is_empty() {
                true => json!({ "command": program }),
                false => json!({ "command": program, "args": args }),
            })
        }
        (None | Some("streamable_http"), None, Some(url)) => Ok(json!({ "url": url })),
        (Some(transport), ..) => Err(format!(
            "`transport` is `{}`; `stdio` has a `command`, `streamable_http` a `url`",
            visible::exact(transport)
        )),
        (None, ..) => Err("it has either `command` or `url`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(name: &str, transport: Option<&str>, command: &str) -> Dependency {
        Dependency {
            kind: "mcp".to_owned(),
            value: name.to_owned(),
            description: None,
            transport: transport.map(str::to_owned),
            url: command.starts_with("http").then(|| command.to_owned()),
            command: (!command.starts_with("http")).then(|| command.to_owned()),
        }
    }

    #[test]
    fn entries_are_exact_or_refused() {
        for (name, transport, command, expected) in [
            ("a", None, "run", Ok(json!({ "command": "run" }))),
            (
                "a",
                Some("stdio"),
                " npx  -y x@1 ",
                Ok(json!({ "command": "npx", "args": ["-y", "x@1"] })),
            ),
            ("a-B_1", None, "https://x/mcp", Ok(json!({ "url": "https://x/mcp" }))),
            ("a", Some("streamable_http"), "http://x", Ok(json!({ "url": "http://x" }))),
            ("a", Some("stdio"), "http://x", Err("`transport` is `stdio`")),
            ("a", Some("sse"), "http://x", Err("`transport` is `sse`")),
            ("a", None, "sh -c 'rm x'", Err("without '\\''")),
            ("a", None, "x; y", Err("without ';'")),
            ("a", None, "x\u{0}", Err("without '\\0'")),
            ("a", None, " ", Err("`command` is empty")),
            ("a.b", None, "x", Err("its name must have")),
            ("a\nb", None, "x", Err("its name must have")),
        ] {
            match (entry(&server(name, transport, command)), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected),
                (Err(why), Err(part)) if why.contains(part) => {}
                (found, expected) => panic!("{command}: {found:?}, expected {expected:?}"),
            }
        }
    }
}
