//! The configuration of a thread: its settings, the facts sent to the model, and the tools that the
//! model is offered.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::approvals::{ReviewFacts, UserWords};
use crate::context;
use crate::cx::Cx;
use crate::history::LoadedTools;
use crate::plan_mode::Reach;
use crate::port::bound::PolicyBound;
use crate::port::effect::Record;
use crate::port::fragment::Fragment;
use crate::port::hook::HookEvents;
use crate::port::permission::{Grant, GrantScope, Permissions};
use crate::port::settings::{Mode, Overrides, SandboxPolicy, Settings};
use crate::port::thread::{Configured, Context};
use crate::port::tool_set::{Offer, PatchTool, ToolSet};
use crate::tools::SHELL_INSTRUCTIONS;

/// The configuration of a thread.
pub(crate) struct Configuration {
    /// As they were chosen: these are stored.
    chosen: Settings,
    /// The limits that the threads above an agent set; `None` for a thread that no other started.
    bound: Option<PolicyBound>,
    /// The chosen ones within the bound, with what was granted: in force.
    settings: Settings,
    /// Counts the changes of `settings`.
    version: u64,
    /// Granted until the end of the turn.
    turn_grants: Permissions,
    /// Granted for as long as the thread is loaded.
    session_grants: Permissions,
    context: Context,
    /// The catalog of skills that the model may use by itself.
    skills: Option<Arc<str>>,
    /// Base instructions.
    instructions: Arc<str>,
    /// The tools of an ordinary turn without a goal.
    offer: Offer,
    /// The tools of other turns, written when they are first needed.
    variants: BTreeMap<OfferVariant, Offer>,
    /// Reasoning effort in plan mode, in place of the settings'.
    plan_effort: Option<String>,
    /// The events that have hooks.
    hooks: HookEvents,
}

/// Base instructions, with those for the shape of a tool that is described there.
fn instructions(context: &Context, offer: &Offer) -> Arc<str> {
    let base = context.instructions.clone().unwrap_or_else(|| offer.instructions.clone());
    match offer.tools().patch {
        PatchTool::Shell => format!("{}\n\n{SHELL_INSTRUCTIONS}\n", base.trim_end()).into(),
        PatchTool::Custom | PatchTool::Function | PatchTool::Off => base,
    }
}

/// The differences between the tools of a turn and those of an ordinary one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct OfferVariant {
    review: bool,
    goal: bool,
    reads_only: bool,
}

impl Configuration {
    pub(crate) fn new(configured: Configured) -> Self {
        let Configured { settings, context, offer, limits: _, plan_effort } = configured;
        let instructions = instructions(&context, &offer);
        Self {
            chosen: settings.clone(),
            bound: None,
            settings,
            version: 0,
            turn_grants: Permissions::default(),
            session_grants: Permissions::default(),
            context,
            skills: None,
            instructions,
            offer,
            variants: BTreeMap::new(),
            plan_effort,
            hooks: HookEvents::default(),
        }
    }

    /// Takes over a changed configuration. Returns what the model, which was introduced to the old
    /// one, is informed of it.
    pub(crate) fn replace(&mut self, configured: Configured, cx: &mut Cx) -> Option<Fragment> {
        let mut new = Self::new(configured);
        let is_changed = new.context.developer != self.context.developer;
        std::mem::swap(self, &mut new);
        self.bound = new.bound.take();
        self.hooks = new.hooks;
        self.version = new.version;
        self.skills = new.skills.take();
        self.context.sandbox_limits = new.context.sandbox_limits.take();
        if self.chosen != new.chosen {
            cx.persist(Record::Settings(Box::new(self.chosen.clone())));
        }
        if self.chosen.sandbox == new.chosen.sandbox {
            self.turn_grants = new.turn_grants;
            self.session_grants = new.session_grants;
        }
        self.put_in_force();
        let developer = self.context.developer.as_deref().filter(|_| is_changed);
        developer.map(context::developer_message)
    }

    /// Takes over the catalog of skills, of which the model is informed with its next turn.
    pub(crate) fn set_skills(&mut self, catalog: Option<Arc<str>>) {
        self.skills = catalog;
    }

    /// Takes over what the sandbox cannot do here. Without effect on a model that was introduced before.
    pub(crate) fn set_sandbox_limits(&mut self, limits: Option<Arc<str>>) {
        self.context.sandbox_limits = limits;
    }

    /// The catalog of skills.
    pub(crate) fn skills(&self) -> Option<&str> {
        self.skills.as_deref()
    }

    /// The settings in force.
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The settings in force, as they hold for the agent in its mode.
    pub(crate) fn in_mode(&self) -> Cow<'_, Settings> {
        self.settings.in_force(self.context.tmpdir.as_deref())
    }

    /// Returns the facts that a reviewer gets besides the action.
    pub(crate) fn facts_for_reviewers<'a>(&'a self, words: &'a UserWords) -> ReviewFacts<'a> {
        ReviewFacts { settings: &self.settings, tmpdir: self.context.tmpdir.as_deref(), words }
    }

    /// The settings without what was granted.
    pub(crate) fn chosen(&self) -> &Settings {
        &self.chosen
    }

    /// Adds permissions to the sandbox policy.
    pub(crate) fn grant(&mut self, grant: Grant) {
        match grant.scope {
            GrantScope::Turn => self.turn_grants.add(&grant.permissions),
            GrantScope::Session => self.session_grants.add(&grant.permissions),
        }
        self.put_in_force();
    }

    /// Returns the granted permissions.
    pub(crate) fn granted(&self) -> Permissions {
        let mut all = self.session_grants.clone();
        all.add(&self.turn_grants);
        all
    }

    /// A turn ended, and what was granted for it.
    pub(crate) fn end_turn_grants(&mut self) {
        if !self.turn_grants.is_empty() {
            self.turn_grants = Permissions::default();
            self.put_in_force();
        }
    }

    /// Drops all grants.
    pub(crate) fn drop_grants(&mut self) {
        self.turn_grants = Permissions::default();
        self.session_grants = Permissions::default();
        self.put_in_force();
    }

    /// The chosen settings within the bound.
    pub(crate) fn bounded(&self) -> Settings {
        let mut settings = self.chosen.clone();
        if let Some(bound) = &self.bound {
            bound.limit(&mut settings);
        }
        settings
    }

    /// See [`Configuration::put_in_force`].
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Bounds the settings. Another sandbox policy ends what was granted beyond the one before.
    pub(crate) fn set_bound(&mut self, bound: PolicyBound) {
        let before = self.bounded().sandbox;
        self.bound = Some(bound);
        match self.bounded().sandbox == before {
            true => self.put_in_force(),
            false => self.drop_grants(),
        }
    }

    /// The one place that makes the settings in force: whatever changes, the bound holds.
    fn put_in_force(&mut self) {
        let granted = self.granted();
        let mut settings = self.bounded();
        settings.sandbox = settings.sandbox.widened(&settings.cwd, &granted);
        settings.granted = granted;
        self.settings = settings;
        self.version += 1;
    }

    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    pub(crate) fn instructions(&self) -> Arc<str> {
        self.instructions.clone()
    }

    /// Changes the settings, and stores them when they differ. Another sandbox policy ends what was
    /// granted beyond the one before.
    pub(crate) fn override_settings(&mut self, overrides: Overrides, cx: &mut Cx) {
        let before = self.chosen.sandbox.clone();
        if self.chosen.apply(overrides) {
            cx.persist(Record::Settings(Box::new(self.chosen.clone())));
        }
        match self.chosen.sandbox == before {
            true => self.put_in_force(),
            false => self.drop_grants(),
        }
    }

    /// These events have hooks from now on.
    pub(crate) fn set_hooks(&mut self, events: HookEvents) {
        self.hooks = events;
    }

    /// The events that have hooks.
    pub(crate) fn hooks(&self) -> HookEvents {
        self.hooks
    }

    /// Returns whether the agent may change nothing.
    pub(crate) fn is_planning(&self) -> bool {
        self.settings.mode == Mode::Plan
    }

    /// Reasoning effort of the next request.
    pub(crate) fn effort(&self) -> Option<String> {
        let planned = self.plan_effort.clone().filter(|_| self.is_planning());
        planned.or_else(|| self.settings.effort.clone())
    }

    /// The sandbox policy of a command of the agent.
    pub(crate) fn command_policy(&self, unsandboxed: bool) -> SandboxPolicy {
        self.policy_within(&self.settings.sandbox, unsandboxed)
    }

    /// Returns whether a command of the agent has permissions that end with the turn.
    pub(crate) fn relies_on_turn_grants(&self, unsandboxed: bool) -> bool {
        if self.turn_grants.is_empty() {
            return false;
        }
        let lasting = self.chosen.sandbox.widened(&self.chosen.cwd, &self.session_grants);
        self.policy_within(&lasting, unsandboxed) != self.command_policy(unsandboxed)
    }

    fn policy_within(&self, sandbox: &SandboxPolicy, unsandboxed: bool) -> SandboxPolicy {
        match Reach::new(self.settings.mode, unsandboxed) {
            Reach::ReadOnly => {
                sandbox.reading_only(&self.settings.cwd, self.context.tmpdir.as_deref())
            }
            Reach::Sandbox => sandbox.clone(),
            Reach::Outside => SandboxPolicy::DangerFullAccess,
        }
    }

    /// The tools of a turn.
    pub(crate) fn tools(&self, in_review: bool, has_goal: bool) -> Cow<'_, ToolSet> {
        match self.variant(in_review, has_goal) {
            None => Cow::Borrowed(self.offer.tools()),
            Some(variant) => match self.variants.get(&variant) {
                Some(offer) => Cow::Borrowed(offer.tools()),
                None => Cow::Owned(variant.apply(self.offer.tools())),
            },
        }
    }

    /// The tools of a turn, as the JSON array of a request.
    pub(crate) fn offered(
        &mut self,
        in_review: bool,
        has_goal: bool,
        loaded: &LoadedTools,
    ) -> Arc<str> {
        let is_unconfined = self.settings.is_unconfined();
        let variant = self.variant(in_review, has_goal);
        let Self { offer, variants, .. } = self;
        let offer = match variant {
            None => offer,
            Some(variant) => variants
                .entry(variant)
                .or_insert_with(|| offer.variant(variant.apply(offer.tools()))),
        };
        offer.json_with(is_unconfined, loaded.names())
    }

    /// The tools of an ordinary turn without a goal.
    pub(crate) fn offer(&self) -> &Offer {
        &self.offer
    }

    fn variant(&self, review: bool, has_goal: bool) -> Option<OfferVariant> {
        let goal = has_goal && !review;
        let reads_only = self.is_planning();
        (review || goal || reads_only).then_some(OfferVariant { review, goal, reads_only })
    }
}

impl OfferVariant {
    fn apply(self, tools: &ToolSet) -> ToolSet {
        let Self { review, goal, reads_only } = self;
        let patch = if review { PatchTool::Off } else { tools.patch };
        // A review is returned at its end; no user takes part in it.
        let user_input = tools.user_input && !review;
        let request_permissions = tools.request_permissions && !review;
        ToolSet { goal, patch, user_input, request_permissions, reads_only, ..tools.clone() }
    }
}
