//! Skills that an input uses: by a `skill` part, or by `$name` in a text, including those of the thread's MCP
//! servers. Their texts become part of the thread's history.

use std::collections::HashMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use config::Config;
use protocol::UserInput;
use session::UserContent;
use skills::Skill;

use super::{SkillSet, Skills, Switches};
use crate::error::Error;
use crate::server_skills::{ServerSkill, ServerSkills};

/// Skills of an input.
const MAX_SKILLS: usize = 20;
/// Longest text of a skill for the model, in characters; the rest is to be read from the file.
const MAX_TEXT: usize = 128 << 10;

/// The skills that an input uses.
pub struct SkillInputs<'s> {
    skills: &'s Skills,
    /// The skills of the thread; `None` for an input that uses none.
    of_thread: Option<(Arc<SkillSet>, Arc<Switches>)>,
    of_servers: Option<ServerSkills>,
    /// Their `SKILL.md`; of a server, with its name.
    used: Vec<PathBuf>,
}

/// Returns whether an input may use skills.
pub fn may_use_skills(input: &[UserInput]) -> bool {
    input.iter().any(|part| match part {
        UserInput::Skill { .. } => true,
        UserInput::Text { text, .. } => text.contains('$'),
        _ => false,
    })
}

impl Skills {
    /// Returns the reader of the skills that an input uses, in a thread with this folder and
    /// configuration.
    ///
    /// # Errors
    /// It uses too many; the file system does not answer.
    pub async fn inputs(
        &self,
        cwd: &Path,
        config: &Config,
        servers: ServerSkills,
        input: &[UserInput],
    ) -> Result<SkillInputs<'_>, Error> {
        let count = input.iter().filter(|part| matches!(part, UserInput::Skill { .. })).count();
        if count > MAX_SKILLS {
            return Err(Error::invalid_params(format!(
                "`input`: it uses {count} skills, at most {MAX_SKILLS} are allowed"
            )));
        }
        let set = self.in_folder(cwd, config, false).await?;
        let switches = Arc::new(Switches::new(config));
        Ok(SkillInputs {
            skills: self,
            of_thread: Some((set, switches)),
            of_servers: Some(servers),
            used: Vec::new(),
        })
    }
}

impl<'s> SkillInputs<'s> {
    /// Of an input that uses none.
    pub fn none(skills: &'s Skills) -> Self {
        Self { skills, of_thread: None, of_servers: None, used: Vec::new() }
    }

    /// The skill of a `skill` part. `path` is its `SKILL.md` or its folder, or the URI of its `SKILL.md`.
    ///
    /// # Errors
    /// There is no such skill, it is switched off, or it cannot be read.
    pub async fn part(&mut self, name: &str, path: &str) -> Result<UserContent, Error> {
        let Some((set, switches)) = self.of_thread.clone() else {
            return Err(Error::failed("the skills of the thread were not read"));
        };
        if is_uri(path) {
            let found = self.of_servers.as_ref().and_then(|servers| servers.at(name, path));
            let found = found.ok_or_else(|| {
                let message =
                    format!("no MCP server of the thread offers the skill `{name}` at {path}");
                Error::invalid_params(message)
                    .next_step("check that the server is configured, and was ready once")
            })?;
            return self.read_from_server(&found).await;
        }
        let path = Path::new(path);
        let is_it = |skill: &&Skill| skill.path == path || skill.folder() == path;
        let Some(skill) = set.found.skills.iter().find(is_it) else {
            let broken = set.found.problems.iter().find(|problem| problem.path == path);
            let message = match broken {
                Some(problem) => format!("the skill `{name}` cannot be used: {problem}"),
                None => format!("there is no skill at {}", path.display()),
            };
            return Err(Error::invalid_params(message)
                .next_step("choose one that `skills/list` names for the folder of the thread"));
        };
        if skill.name != name {
            let message = format!("the skill at {} is `{}`", path.display(), skill.name);
            return Err(Error::invalid_params(message));
        }
        if !switches.is_on(skill.folder()) {
            return Err(Error::invalid_params(format!("the skill `{name}` is switched off"))
                .next_step("switch it on with `skills/config/write`"));
        }
        self.read(skill).await
    }

    /// The skills that texts name with `$name` and that no part of the input has. Other words after a
    /// dollar sign are text.
    ///
    /// # Errors
    /// There are too many; one cannot be read.
    pub async fn named(&mut self, input: &[UserInput]) -> Result<Vec<UserContent>, Error> {
        let Some((set, switches)) = self.of_thread.clone() else { return Ok(Vec::new()) };
        // A text may have very many dollar signs.
        let by_name: HashMap<&str, &Skill> =
            set.enabled(&switches).map(|skill| (skill.name.as_str(), skill)).collect();
        let of_servers = self.of_servers.as_ref().map(ServerSkills::by_name).unwrap_or_default();
        let mut content = Vec::new();
        let texts = input.iter().filter_map(|part| match part {
            UserInput::Text { text, .. } => Some(text.as_str()),
            _ => None,
        });
        for word in texts.flat_map(dollar_words) {
            // A word may end a sentence.
            let trimmed = word.trim_end_matches(['.', '-', '_', ':']);
            let named = by_name.get(word).or_else(|| by_name.get(trimmed));
            let of_server = match named {
                Some(_) => None,
                None => of_servers.get(word).or_else(|| of_servers.get(trimmed)),
            };
            let path = match (named, of_server) {
                (Some(skill), _) => skill.path.clone(),
                (None, Some(skill)) => used_path(skill),
                (None, None) => continue,
            };
            if self.used.contains(&path) {
                continue;
            }
            if self.used.len() >= MAX_SKILLS {
                return Err(Error::invalid_params(format!(
                    "`input`: it names more than {MAX_SKILLS} skills"
                )));
            }
            content.push(match (named, of_server) {
                (Some(skill), _) => self.read(skill).await?,
                (None, Some(skill)) => self.read_from_server(skill).await?,
                (None, None) => continue,
            });
        }
        Ok(content)
    }

    async fn read(&mut self, skill: &Skill) -> Result<UserContent, Error> {
        self.used.push(skill.path.clone());
        let path = skill.path.clone();
        let body = self.skills.files.run(&skill.path, move || skills::read_body(&path)).await?;
        let body = body.map_err(|problem| {
            Error::failed(problem.to_string()).within(&format!("the skill `{}`", skill.name))
        })?;
        Ok(UserContent::Skill {
            name: skill.name.clone(),
            path: skill.path.display().to_string(),
            text: text((&skill.name, &skill.path.to_string_lossy()), None, &body).into(),
            has_needs: skill.dependencies.is_some(),
        })
    }

    async fn read_from_server(&mut self, skill: &ServerSkill) -> Result<UserContent, Error> {
        let Some(servers) = &self.of_servers else {
            return Err(Error::failed("the MCP servers of the thread are not known"));
        };
        self.used.push(used_path(skill));
        let body = servers.read(skill).await?;
        let (name, uri) = (skill.name(), skill.uri());
        let text = text((&name, uri), Some(skill.server()), &body).into();
        Ok(UserContent::Skill { name, path: uri.to_owned(), text, has_needs: false })
    }
}

/// Returns whether the path of a part is the URI of a resource.
fn is_uri(path: &str) -> bool {
    !path.starts_with('/') && path.contains(':')
}

/// Paths of other skills are absolute.
fn used_path(skill: &ServerSkill) -> PathBuf {
    PathBuf::from(format!("{} {}", skill.server(), skill.uri()))
}

/// The words of a text that follow a dollar sign.
fn dollar_words(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices('$').filter_map(|(at, _)| {
        let before = text.get(..at)?.chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '$' | '\\' | '_')) {
            return None;
        }
        let rest = text.get(at + 1..)?;
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
        let word = rest.get(..rest.find(|c| !is_part(c)).unwrap_or(rest.len()))?;
        Some(word).filter(|word| !word.is_empty())
    })
}

/// The text of a skill as the model gets it: between marks that it cannot contain, hidden characters
/// visible. `server`: the MCP server that it comes from.
fn text((name, path): (&str, &str), server: Option<&str>, body: &str) -> String {
    let attribute = |text: &str| visible::text(text).replace(['"', '\n', '<', '>'], "_");
    let shown = visible::text(body).replace("</skill", "<\\/skill");
    let (name, path) = (attribute(name), attribute(path));
    let server = server.map(|server| format!(" server=\"{}\"", attribute(server)));
    let server = server.unwrap_or_default();
    let mut text = format!("<skill name=\"{name}\" path=\"{path}\"{server}>\n");
    text.extend(shown.chars().take(MAX_TEXT));
    let omitted = shown.chars().count().saturating_sub(MAX_TEXT);
    if omitted > 0 {
        let _ = write!(text, "\n[cut: {omitted} more characters; read them in the file]");
    }
    text.push_str("\n</skill>");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_behind_dollar_signs_are_found() {
        let check = |text: &str, expected: &[&str]| {
            assert_eq!(dollar_words(text).collect::<Vec<_>>(), expected, "{text}");
        };
        check("$pdf", &["pdf"]);
        check("Use $pdf-tools, then $x:y.", &["pdf-tools", "x:y."]);
        check("costs 5$ and a$b or \\$c or $$d", &[]);
        check("($überblick) $", &["überblick"]);
    }
}
