//! Warnings that the user can hide for good (`notice.*`): full access, folders that everybody can write, and
//! limits that are nearly used up.

use std::path::PathBuf;

use protocol::{RateLimitSnapshot, RateLimitWindow, SandboxPolicy};
use serde_json::json;

use crate::app::account;
use crate::app::events::Effect;
use crate::app::program::App;
use crate::ask::{Ask, Offer};
use crate::text::Line;

/// Asks before full access is switched on, unless that was acknowledged. `then` switches it on.
pub(super) fn confirm_full_access(app: &mut App, then: fn(&mut App)) {
    if app.notices.hides_full_access() {
        return then(app);
    }
    let facts = vec![
        Line::plain(
            "Every command then runs with your rights, without a sandbox, with network access, and without \
             asking. The agent can read, change and send every file that you can.",
        ),
        Line::plain(
            "Files and web pages that it reads can mislead it. Use full access only \
             where nothing of value is within reach, such as in a container.",
        ),
    ];
    let offers = vec![
        Offer::new("once", 'y', "Switch full access on").granting(),
        Offer::new("always", 'd', "Switch it on, and do not show this again")
            .with_effect("stores `notice.hide_full_access_warning`")
            .granting(),
        Offer::new("no", 'n', "No change").on_escape(),
    ];
    app.open_dialog(Ask::offer("Full access?", facts, offers), move |app, reply| {
        match reply.as_str() {
            Some("once") => then(app),
            Some("always") => {
                app.notices.hide_full_access();
                hide(app, "hide_full_access_warning");
                then(app);
            }
            _ => app.info("Nothing was changed."),
        }
    });
}

fn hide(app: &mut App, key: &str) {
    app.store_settings(vec![(format!("notice.{key}"), json!(true))], |app, stored| match stored {
        Ok(file) => app.info(&format!("The warning is hidden from now on (stored in {file}).")),
        Err(why) => app.error(&format!("The warning will be shown again: {why}")),
    });
}

/// A thread was opened with this sandbox: warns of what that means.
pub(super) fn warn_of_sandbox(app: &mut App, policy: &SandboxPolicy) {
    let mut roots: Vec<PathBuf> = app.session.cwd.iter().cloned().collect();
    match policy {
        SandboxPolicy::DangerFullAccess {} if !app.notices.hides_full_access() => {
            app.warning(
                "Full access: commands run with your rights, without a sandbox. /approvals edit \
                 switches the sandbox on. (notice.hide_full_access_warning hides this.)",
            );
        }
        SandboxPolicy::WorkspaceWrite { writable_roots, .. } => {
            roots.extend(writable_roots.iter().map(|root| PathBuf::from(root.to_string())));
        }
        _ => {}
    }
    if app.environment.server_is_here && !app.notices.hides_world_writable() {
        roots.retain(|root| !app.notices.is_warned_of(root));
        app.output.emit(Effect::CheckWritable(roots));
    }
}

/// Warns of folders that every user of the machine can write.
pub(super) fn writable_by_all(app: &mut App, folders: Vec<PathBuf>) -> bool {
    if folders.is_empty() || app.notices.hides_world_writable() {
        return false;
    }
    let names: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
    app.warning(&format!(
        "Every user of this machine can write in {}: others may have changed the files there, \
         and the agent reads and runs them. `chmod o-w` removes that right. \
         (notice.hide_world_writable_warning hides this.)",
        names.join(", ")
    ));
    app.notices.warned_of(folders);
    true
}

/// Limits changed: hints once when little is left.
pub(super) fn limits_updated(app: &mut App, limits: RateLimitSnapshot) -> bool {
    let windows = [&limits.primary, &limits.secondary];
    let fullest = windows.into_iter().flatten().max_by_key(|window| window.used_percent);
    let (used, text) = match fullest {
        Some(window) => (window.used_percent, account::window(app, window)),
        None => (0, String::new()),
    };
    let hints = app.notices.takes_limit_hint(used);
    if hints {
        let name = limits.limit_name.as_deref().or(limits.limit_id.as_deref());
        let name = name.map(|name| format!(" ({name})")).unwrap_or_default();
        app.warning(&format!(
            "A limit of the provider{name} is nearly used up: {text}. /model chooses a smaller \
             model or a lower effort. (notice.hide_rate_limit_model_nudge hides this.)"
        ));
    }
    app.notices.set_limits(limits);
    let is_shown = app.settings.status_line.iter().any(|item| item == "limits");
    hints || is_shown
}

/// The limits as the status line shows them.
pub(super) fn limits_left(app: &App) -> Option<String> {
    let limits = app.notices.limits()?;
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
