//! Preparation of turns, before the machine starts one: the configuration as it is now, overrides that the
//! requirements allow, the model's history, hooks, and what skills need.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hooks::{Agent, Context, EndReason, Event, EventName, PermissionMode};
use protocol::permission::PermissionProfileSelectionParams;
use session::{
    ApprovalPolicy, Id, Mode, Overrides, SandboxPolicy, Settings, UsedSkill, UserAnswers,
};
use tokio::sync::OnceCell;
use tokio::sync::mpsc::Sender;

use crate::thread::actor::Actor;
use crate::thread::configuration::Reconfigured;
use crate::thread::skill_needs::Met;
use crate::thread::step::{Step, append_steps};
use services::allowed::{Allowed, MachineInput};
use services::error::Error;
use services::peer::Peer;
use services::skills::Needs;
use services::thread_hooks::{self, HookPlace, LoadedHooks};
use services::thread_port::{Command, SkillReport};
use services::undo::{FileRollback, RestoredFiles};
use services::warnings;

impl Actor {
    /// Prepares a turn: the configuration as it is now, the model's history, and overrides that the
    /// requirements allow.
    pub(super) async fn before_turn(
        &mut self,
        mut overrides: Overrides,
        permissions: Option<PermissionProfileSelectionParams>,
        steps: &mut Vec<Step>,
    ) -> Result<Allowed<Overrides>, Error> {
        let above = self.agents.read_above(self.machine.unloaded_above()).await?;
        self.machine.set_stored_above(above);
        let is_idle = self.machine.active_turn().is_none();
        let (settings, extra) = (self.machine.chosen_settings(), self.journal.extra());
        let followed = self.configuration.follow(settings, is_idle, extra, &self.broadcast).await?;
        self.reconfigure(followed, steps);
        if is_idle {
            let (settings, extra) = (self.machine.chosen_settings(), self.journal.extra());
            let adapted =
                self.configuration.adapt_to_model(settings, &overrides, extra, &self.broadcast);
            let adapted = adapted.await;
            self.reconfigure(adapted, steps);
            self.offer_server_tools(steps).await;
            self.offer_skills(steps).await?;
            self.tell_sandbox_limits(steps).await;
            self.follow_hooks(steps).await?;
        }
        let reviewer = overrides.reviewer.unwrap_or(self.machine.settings().reviewer);
        if !reviewer.is_user() {
            let read = self.agents.read_root_words().await;
            read.map_err(|error| error.within("what the user wrote at the root cannot be read"))?;
        }
        if let Some(selection) = permissions {
            let cwd = overrides.cwd.as_ref().unwrap_or(&self.machine.chosen_settings().cwd);
            let policy = self.configuration.profile_policy(&selection, cwd)?;
            overrides.sandbox = Some(policy);
        }
        self.ensure_history(steps).await?;
        Ok(self.allow(overrides, None))
    }

    /// Prepares a request that may begin a turn by itself, such as a compaction: its history and hooks.
    pub(super) async fn before_request(&mut self, steps: &mut Vec<Step>) -> Result<(), Error> {
        if self.machine.active_turn().is_none() {
            self.follow_hooks(steps).await?;
        }
        self.ensure_history(steps).await
    }

    /// Takes over the tools of MCP servers as they are now; they stay so for the turn. Clients learn which
    /// servers are late for it.
    pub(super) async fn offer_server_tools(&mut self, steps: &mut Vec<Step>) {
        for name in self.mcp.late() {
            self.broadcast.warn_about_thread(&format!(
                "the MCP server `{name}` still starts, so this turn has none of its tools: they come with the \
                 first turn that begins when it is ready. With `mcp_servers.{name}.required = true` threads \
                 wait for it."
            ));
        }
        let refreshed = self.mcp.refreshed_tools(self.configuration.config());
        let has_new_mode = self.memories.take_new_mode();
        let kept = || has_new_mode.then(|| self.configuration.server_tools());
        let Some(tools) = refreshed.or_else(kept) else { return };
        let (settings, extra) = (self.machine.chosen_settings(), self.journal.extra());
        let offered =
            self.configuration.offer_server_tools(tools, settings, extra, &self.broadcast);
        let offered = offered.await;
        self.reconfigure(offered, steps);
    }

    /// Uses the MCP servers of the configuration as the files have it now, also during a turn. The rest of a
    /// changed configuration, and its tools, come with the next turn, which also reports its mistakes.
    pub(super) async fn reload_servers(&mut self) {
        let cwd = &self.machine.chosen_settings().cwd;
        match self.configuration.latest(cwd).await {
            Ok(Some(config)) => {
                self.mcp.update(cwd, &Arc::new(config), self.configuration.origin());
            }
            Ok(None) => {}
            Err(error) => self.broadcast.warn(&error.to_string()),
        }
    }

    /// Takes over the skills as they are now; the model is informed of them when the turn begins.
    async fn offer_skills(&mut self, steps: &mut Vec<Step>) -> Result<(), Error> {
        let (settings, config) = (self.machine.allowed_settings(), self.configuration.config());
        let remote = self.mcp.offered_skills();
        if let Some(catalog) = self.skills.changed_catalog(&settings, config, remote).await? {
            append_steps(self.machine.step(MachineInput::Skills { catalog }), steps);
        }
        Ok(())
    }

    /// The model learns what the sandbox cannot do here, when it is introduced to the thread.
    async fn tell_sandbox_limits(&mut self, steps: &mut Vec<Step>) {
        let Some(limits) = self.commands.sandbox_limits().await else { return };
        append_steps(
            self.machine.step(MachineInput::SandboxLimits { limits: Some(limits) }),
            steps,
        );
    }

    pub(super) fn reconfigure(&mut self, changed: Option<Reconfigured>, steps: &mut Vec<Step>) {
        let Some(Reconfigured { configured, context_window }) = changed else { return };
        self.broadcast.set_context_window(context_window);
        self.warn_of_changes(self.machine.exceeding(&configured.settings));
        let config = self.configuration.config();
        self.mcp.update(&configured.settings.cwd, config, self.configuration.origin());
        append_steps(self.machine.configure(configured, config), steps);
    }

    /// Overrides that the requirements allow. The machine keeps what follows from them within the
    /// bound of an agent. The clients learn what was replaced, and so does `sender`.
    pub(super) fn allow(&self, overrides: Overrides, sender: Option<&Peer>) -> Allowed<Overrides> {
        let cwd = &self.machine.settings().cwd;
        let (overrides, mut replaced) = self.configuration.allow(overrides, cwd);
        let mut settings = self.machine.chosen_settings().clone();
        if settings.apply(overrides.clone().into_inner()) {
            replaced.extend(self.machine.exceeding(&settings));
        }
        let subscribers = self.broadcast.subscribers();
        if let Some(peer) = sender.filter(|peer| !subscribers.contains(peer.id)) {
            replaced.iter().for_each(|sentence| warnings::send_plain(peer, sentence.clone()));
        }
        self.warn_of_changes(replaced);
        overrides
    }

    fn warn_of_changes(&self, replaced: Vec<String>) {
        for sentence in replaced {
            self.broadcast.warn_of_change(&warnings::plain(sentence));
        }
    }

    /// Reads the model's history unless it is loaded: loading a thread leaves it out.
    pub(super) async fn ensure_history(&mut self, steps: &mut Vec<Step>) -> Result<(), Error> {
        if !self.machine.needs_history() {
            return Ok(());
        }
        // Records that wait to be stored are part of it.
        self.execute(std::mem::take(steps)).await;
        let history = self.journal.history().await;
        let history = history.map_err(|error| error.within("the history cannot be read"))?;
        let variables = self.skill_needs.variables();
        self.machine.restore(history, |name| variables.has(name));
        Ok(())
    }

    /// Drops the last turns, after their changes of files are undone where that is asked for. Only
    /// describes these changes for [`FileRollback::Preview`].
    pub(super) async fn roll_back(
        &mut self,
        turns: u32,
        files: Option<FileRollback>,
    ) -> Result<Option<RestoredFiles>, Error> {
        if self.machine.active_turn().is_some() && !self.journal.is_ephemeral() {
            return Err(Error::wrong_state("a turn is running")
                .next_step("wait for its end, or interrupt it, then roll back"));
        }
        let restored = match files {
            Some(how) => Some(self.restore_files(turns, how).await?),
            None => None,
        };
        if matches!(files, Some(FileRollback::Preview)) {
            return Ok(restored);
        }
        let (introduced, introductions) =
            (self.machine.introduced().cloned(), self.machine.introductions());
        self.journal.roll_back(turns).await?;
        self.machine.forget_history();
        self.broadcast.cut_event_log();
        // The model is informed of the settings again, unless its history shows that the message with
        // them is still there. A history that cannot be read now is read before the next turn.
        if introductions.is_some_and(|count| count > 0)
            && let Ok(history) = self.journal.history().await
        {
            let variables = self.skill_needs.variables();
            self.machine.restore(history, |name| variables.has(name));
            if self.machine.introductions() == introductions {
                self.machine.keep_introduced(introduced);
            }
        }
        Ok(restored)
    }

    /// Reads the hooks as they are now; they stay so for the turn.
    pub(super) async fn follow_hooks(&mut self, steps: &mut Vec<Step>) -> Result<(), Error> {
        let config = self.configuration.config().clone();
        let loaded = match config.has_hooks() || !config.required_hooks().is_empty() {
            false => LoadedHooks::default(),
            true => {
                let path = config.project_root.clone();
                let read = self.hooks.files().run(&path, move || thread_hooks::load(&config)).await;
                read.map_err(|error| {
                    Error::failed(error.to_string()).within("the hooks cannot be read")
                })?
            }
        };
        let before = self.hooks.events();
        for problem in self.hooks.set(loaded) {
            self.broadcast.warn_about_thread(&problem);
        }
        let events = self.hooks.events();
        if events != before {
            self.step(MachineInput::Hooks { events }, steps);
        }
        Ok(())
    }

    /// Runs the hooks of an event.
    pub(super) fn run_hooks(&mut self, run: u64, turn: &Id, event: Event) {
        let place = self.hook_place(Some(turn));
        let (config, user_agent) = (self.configuration.config(), self.broadcast.user_agent());
        let asker = self.model.asker(config, user_agent);
        let (settings, recorder) = (self.machine.settings(), self.recorder());
        let answered = self.hooks.start(run, event, (place, recorder), settings, &asker);
        self.take_soon(answered);
    }

    /// Runs the hooks of the thread's end, when any turn has run since it was loaded.
    pub(super) async fn run_end_hooks(&mut self) {
        if !self.hooks.events().has(EventName::SessionEnd) || self.journal.extra().agent.is_some() {
            return self.hooks.clear();
        }
        let reason = self.mailbox.end().unwrap_or(EndReason::Closed);
        let place = self.hook_place(None);
        for report in self.hooks.run_end(Event::SessionEnd { reason }, place).await {
            self.broadcast.show_hook(report);
        }
        self.hooks.clear();
    }

    fn hook_place(&self, turn: Option<&Id>) -> HookPlace {
        let settings = self.machine.settings();
        let thread = self.journal.id().to_string();
        let agent = self.journal.extra().agent.as_ref().map(|agent| Agent {
            id: thread.clone(),
            kind: agent.role.clone().unwrap_or_else(|| "default".to_owned()),
        });
        let context = Context {
            thread,
            turn: turn.map(ToString::to_string),
            cwd: settings.cwd.to_string_lossy().into_owned(),
            model: settings.model.clone(),
            mode: permission_mode(settings),
            agent,
        };
        HookPlace {
            context,
            config: self.configuration.config().clone(),
            cwd: settings.cwd.clone(),
            sandbox: settings.sandbox.clone(),
            servers: self.mcp.servers(),
            folder: OnceCell::new(),
        }
    }

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

    /// Takes the results of tasks.
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

fn permission_mode(settings: &Settings) -> PermissionMode {
    match (&settings.mode, &settings.approval, &settings.sandbox) {
        (Mode::Plan, ..) => PermissionMode::Plan,
        (_, ApprovalPolicy::Never, SandboxPolicy::DangerFullAccess) => {
            PermissionMode::BypassPermissions
        }
        (_, ApprovalPolicy::Never, _) => PermissionMode::DontAsk,
        (_, _, SandboxPolicy::WorkspaceWrite { .. }) => PermissionMode::AcceptEdits,
        _ => PermissionMode::Default,
    }
}

/// The user consented, and sees why it came to nothing. The model gets the same as a note.
async fn warn(sender: &Sender<Command>, note: &str) {
    // A thread that has ended has no clients.
    let _ = sender.send(Command::Warn { message: note.to_owned() }).await;
}

/// Returns the note for the model about an added server, when it is ready or, as an error, has
/// failed.
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
