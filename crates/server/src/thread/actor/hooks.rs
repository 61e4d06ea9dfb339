//! The hooks of the thread: read before a turn, run when the machine asks, and at the thread's end.

use hooks::{Agent, Context, EndReason, Event, EventName, PermissionMode};
use session::{ApprovalPolicy, Id, Mode, SandboxPolicy, Settings};
use tokio::sync::OnceCell;

use crate::allowed::MachineInput;
use crate::error::Error;
use crate::thread::actor::Actor;
use crate::thread::step::Step;
use crate::thread_hooks::{self, HookPlace, LoadedHooks};

impl Actor {
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
