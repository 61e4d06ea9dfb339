//! What skills of a turn need: looked for, asked for by the session, and put to use.

use std::path::{Path, PathBuf};

use session::{UsedSkill, UserAnswers};
use tokio::sync::mpsc::Sender;

use crate::allowed::MachineInput;
use crate::error::Error;
use crate::skills::Needs;
use crate::thread::actor::Actor;
use crate::thread::handle::Command;
use crate::thread::skill_needs::{Met, SkillReport};
use crate::thread::step::Step;

impl Actor {
    /// Looks for what skills need and the thread does not have.
    pub(super) fn find_skill_needs(&mut self, request: u64, used: Vec<UsedSkill>) {
        self.skill_needs.begin(request);
        let (config, cwd) =
            (self.configuration.config().clone(), self.machine.settings().cwd.clone());
        let mut environment = self.commands.environment(&config);
        self.skill_needs.variables().add_to(&mut environment);
        let (skills, sender) = (self.skills.shared(), self.mailbox.sender());
        tokio::spawn(async move {
            let is_set = |name: &str| environment.iter().any(|(known, _)| known == name);
            let found = skills.needs(&cwd, &config, &used, is_set).await;
            let needs = found.unwrap_or_else(|error| Needs {
                notes: vec![format!("What the skills need is not known: {error}.")],
                ..Needs::default()
            });
            // A thread that has ended needs nothing.
            let _ = sender.send(Command::SkillNeeds(SkillReport::Found { request, needs })).await;
        });
    }

    /// A call of the model opens files that may be skills: the user is asked for what they need, once a thread.
    pub(super) fn skills_opened(&mut self, files: Vec<PathBuf>, steps: &mut Vec<Step>) {
        let files = files.into_iter().filter(|file| self.skill_needs.is_opened_first(file));
        let used = files.map(|file| UsedSkill {
            name: file.parent().and_then(Path::file_name).unwrap_or_default().display().to_string(),
            path: file.display().to_string(),
        });
        let skills: Vec<UsedSkill> = used.collect();
        if !skills.is_empty() {
            self.step(MachineInput::SkillsOpened { skills }, steps);
        }
    }

    /// What tasks have found or done.
    pub(super) async fn skills_reported(&mut self, report: SkillReport, steps: &mut Vec<Step>) {
        match report {
            SkillReport::Found { request, needs } => self.skill_needs_found(request, needs, steps),
            SkillReport::ServersAdded { request, notes, added } => {
                self.skill_servers_added(request, notes, added, steps).await;
            }
            SkillReport::Met { request, notes } => {
                self.skill_needs_met(request, notes, steps).await;
            }
        }
    }

    /// They were found: the session asks the user.
    fn skill_needs_found(&mut self, request: u64, needs: Needs, steps: &mut Vec<Step>) {
        let questions = needs.needed.iter().map(|needed| needed.question.clone()).collect();
        if self.skill_needs.found(request, needs) {
            self.step(MachineInput::SkillNeedsFound { request, questions }, steps);
        }
    }

    /// Uses the user's answers. Servers that the user consents to are added to the user's configuration.
    pub(super) fn meet_skill_needs(
        &mut self,
        request: u64,
        answers: &UserAnswers,
        unanswered: Option<&str>,
    ) {
        let Met { mut notes, servers } = self.skill_needs.meet(request, answers, unanswered);
        if servers.is_empty() {
            return self.take_soon(Some(MachineInput::SkillNeedsMet { request, notes }));
        }
        let (configurations, sender) = (self.configuration.shared(), self.mailbox.sender());
        tokio::spawn(async move {
            let mut added = Vec::new();
            for (name, entry) in servers {
                match configurations.add_mcp_server(&name, entry).await {
                    Ok(()) => added.push(name),
                    Err(error) => {
                        let note = format!("The MCP server `{name}` is not installed: {error}.");
                        warn(&sender, &note).await;
                        notes.push(note);
                    }
                }
            }
            let _ = sender
                .send(Command::SkillNeeds(SkillReport::ServersAdded { request, notes, added }))
                .await;
        });
    }

    /// The configuration has new servers: waits until they have started, or cannot.
    async fn skill_servers_added(
        &mut self,
        request: u64,
        mut notes: Vec<String>,
        added: Vec<String>,
        steps: &mut Vec<Step>,
    ) {
        let is_first = self.machine.awaits_skills_first();
        if let Err(error) = self.take_over_servers(is_first, steps).await {
            notes.push(format!("The configuration cannot be read again: {error}."));
        }
        let servers = self.mcp.servers();
        let sender = self.mailbox.sender();
        let since = if is_first { "from now on" } else { "from the next turn on" };
        tokio::spawn(async move {
            // They start at the same time; each has its own time limit.
            for name in added {
                let server = servers.iter().find(|server| server.name() == name);
                notes.push(match started(&name, server, since).await {
                    Ok(note) => note,
                    Err(note) => {
                        warn(&sender, &note).await;
                        note
                    }
                });
            }
            let _ = sender.send(Command::SkillNeeds(SkillReport::Met { request, notes })).await;
        });
    }

    /// The model can be asked.
    async fn skill_needs_met(&mut self, request: u64, notes: Vec<String>, steps: &mut Vec<Step>) {
        if self.machine.awaits_skills_first() {
            self.offer_server_tools(steps).await;
        }
        self.step(MachineInput::SkillNeedsMet { request, notes }, steps);
    }

    /// Before the first request of a turn the whole configuration is taken over, as before the turn.
    async fn take_over_servers(
        &mut self,
        is_first: bool,
        steps: &mut Vec<Step>,
    ) -> Result<(), Error> {
        if !is_first {
            self.reload_servers().await;
            return Ok(());
        }
        let (settings, extra) = (self.machine.chosen_settings(), self.journal.extra());
        let followed = self.configuration.follow(settings, true, extra, &self.broadcast).await?;
        self.reconfigure(followed, steps);
        Ok(())
    }
}

/// The user consented, and sees why it came to nothing. The model gets the same as a note.
async fn warn(sender: &Sender<Command>, note: &str) {
    // A thread that has ended has no clients.
    let _ = sender.send(Command::Warn { message: note.to_owned() }).await;
}

/// What the model learns of a server that was added, when it is ready or, as an error, has failed.
async fn started(name: &str, server: Option<&mcp::Server>, since: &str) -> Result<String, String> {
    let Some(server) = server else {
        return Err(format!(
            "The MCP server `{name}` was installed, but another configuration keeps it off."
        ));
    };
    match server.ready().await {
        Ok(_) => {
            Ok(format!("The MCP server `{name}` was installed; its tools can be called {since}."))
        }
        Err(error) => {
            Err(format!("The MCP server `{name}` was installed, but does not start: {error}."))
        }
    }
}
