//! Warnings that the user can hide for good (`notice.*`): full access, folders that everybody can write, and
//! limits that are nearly used up.

pub(super) mod state;

use std::path::PathBuf;

use protocol::{RateLimitSnapshot, RateLimitWindow, SandboxPolicy};
use serde_json::json;

use crate::app::{App, Effect};
use crate::ask::{Ask, Offer};
use crate::text::Line;

/// From so many per cent of a limit on, there is a hint.
const NEARLY_USED: i32 = 90;
/// Below so many, the next time counts as another one.
const USED_LESS: i32 = 75;

impl App {
    /// Asks before full access is switched on, unless that was acknowledged. `then` switches it on.
    pub(super) fn confirm_full_access(&mut self, then: fn(&mut Self)) {
        if self.notices.hides_full_access {
            return then(self);
        }
        let facts = vec![
            Line::plain(
                "Every command of the agent then runs with your rights: without a sandbox, with the \
                 network, and without asking. It can read, change and send every file that you can.",
            ),
            Line::plain(
                "What is in the files and pages that it reads can lead it to do what you do not want. \
                 Use it where nothing of value can be reached, as in a container.",
            ),
        ];
        let offers = vec![
            Offer::new("once", 'y', "Switch full access on").granting(),
            Offer::new("always", 'd', "Switch it on, and do not show this again")
                .with_effect("stores `notice.hide_full_access_warning`")
                .granting(),
            Offer::new("no", 'n', "Leave it as it is (Esc)"),
        ];
        self.open_dialog(Ask::offer("Full access?", facts, offers), move |app, reply| match reply
            .as_str()
        {
            Some("once") => then(app),
            Some("always") => {
                app.notices.hides_full_access = true;
                app.hide("hide_full_access_warning");
                then(app);
            }
            _ => app.info("Nothing was changed."),
        });
    }

    fn hide(&mut self, key: &str) {
        self.store_settings(
            vec![(format!("notice.{key}"), json!(true))],
            |app, stored| match stored {
                Ok(file) => app.info(&format!("Not shown again: stored in {file}.")),
                Err(why) => app.error(&format!("It will be shown again: {why}")),
            },
        );
    }

    /// A thread was opened with this sandbox: warns of what that means.
    pub(super) fn warn_of_sandbox(&mut self, policy: &SandboxPolicy) {
        let mut roots: Vec<PathBuf> = self.session.cwd.iter().cloned().collect();
        match policy {
            SandboxPolicy::DangerFullAccess {} if !self.notices.hides_full_access => {
                self.warning(
                    "Full access: commands run with your rights, without a sandbox. /approvals auto \
                     switches the sandbox on. (notice.hide_full_access_warning hides this.)",
                );
            }
            SandboxPolicy::WorkspaceWrite { writable_roots, .. } => {
                roots.extend(writable_roots.iter().map(|root| PathBuf::from(root.to_string())));
            }
            _ => {}
        }
        if self.environment.server_is_here && !self.notices.hides_world_writable {
            roots.retain(|root| !self.notices.warned.contains(root));
            self.effects.push_back(Effect::CheckWritable(roots));
        }
    }

    /// Warns of folders that every user of the machine can write.
    pub(super) fn writable_by_all(&mut self, folders: Vec<PathBuf>) -> bool {
        if folders.is_empty() || self.notices.hides_world_writable {
            return false;
        }
        let names: Vec<String> =
            folders.iter().map(|folder| folder.display().to_string()).collect();
        self.warning(&format!(
            "Every user of this machine can write in {}: files there may not be what you think, and \
             the agent reads and runs them. `chmod o-w` takes that right away. \
             (notice.hide_world_writable_warning hides this.)",
            names.join(", ")
        ));
        self.notices.warned.extend(folders);
        true
    }

    /// Limits changed: hints once when little is left.
    pub(super) fn limits_updated(&mut self, limits: RateLimitSnapshot) -> bool {
        let windows = [&limits.primary, &limits.secondary];
        let fullest = windows.into_iter().flatten().max_by_key(|window| window.used_percent);
        let (used, text) = match fullest {
            Some(window) => (window.used_percent, self.window(window)),
            None => (0, String::new()),
        };
        if used < USED_LESS {
            self.notices.has_hinted = false;
        }
        let hints = used >= NEARLY_USED && !self.notices.has_hinted && !self.notices.hides_limits;
        if hints {
            self.notices.has_hinted = true;
            let name = limits.limit_name.as_deref().or(limits.limit_id.as_deref());
            let name = name.map(|name| format!(" ({name})")).unwrap_or_default();
            self.warning(&format!(
                "A limit of the provider{name} is nearly used up: {text}. /model chooses a smaller \
                 model or a lower effort. (notice.hide_rate_limit_model_nudge hides this.)"
            ));
        }
        self.notices.limits = Some(limits);
        let is_shown = self.settings.status_line.iter().any(|item| item == "limits");
        hints || is_shown
    }

    /// Returns the status line's text about limits.
    pub(super) fn limits_left(&self) -> Option<String> {
        let limits = self.notices.limits.as_ref()?;
        let left = |window: &RateLimitWindow| {
            let left = 100 - window.used_percent.clamp(0, 100);
            let minutes = window.window_duration_mins.and_then(|it| u64::try_from(it).ok());
            let period = minutes.map(|it| match it {
                0..60 => format!(" of {it}m"),
                60..1_440 => format!(" of {}h", it / 60),
                _ => format!(" of {}d", it / 1_440),
            });
            format!("{left}%{}", period.unwrap_or_default())
        };
        let windows = [&limits.primary, &limits.secondary].into_iter().flatten();
        let parts: Vec<String> = windows.map(left).collect();
        (!parts.is_empty()).then(|| format!("{} left", parts.join(", ")))
    }
}
