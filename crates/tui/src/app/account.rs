//! The account: who is logged in, what is left of its limits, and logging out.

use protocol::{
    Account, AccountReadParams, AccountReadResponse, Empty, RateLimitSnapshot, RateLimitWindow,
};
use serde_json::Value;

use crate::app::program::App;
use crate::ask::{Ask, Offer};
use crate::cells;
use crate::text::Line;

/// Who is logged in, in words.
pub(super) fn described(account: &Account) -> String {
    match account {
        Account::ApiKey => "an API key".to_owned(),
        Account::AmazonBedrock => "Amazon Bedrock".to_owned(),
        Account::Hosted { email, plan_type } => {
            let plan = serde_json::to_value(plan_type).ok();
            let plan = plan.as_ref().and_then(Value::as_str).filter(|plan| *plan != "unknown");
            let plan = plan.map(|plan| format!(", plan {}", plan.replace('_', " ")));
            let who = if email.is_empty() { "a hosted account" } else { email };
            format!("{who}{}", plan.unwrap_or_default())
        }
    }
}

/// `/account`, and the end of `/status`.
pub(super) fn show_account(app: &mut App, _: &str) {
    app.call::<protocol::AccountRead>(&AccountReadParams::default(), |app, read| {
        let account = match read {
            Ok(read) => who(&read).0,
            Err(error) => format!("unknown: {}", error.message),
        };
        app.call::<protocol::AccountRateLimitsRead>(&Empty {}, move |app, read| {
            let limits = match read {
                Ok(read) => limit_lines(app, &read.rate_limits),
                Err(error) => vec![format!("unknown: {}", error.message)],
            };
            let mut text = format!("{:<12} {account}", "account");
            for (at, line) in limits.iter().enumerate() {
                let name = if at == 0 { "limits" } else { "" };
                text.push_str(&format!("\n{name:<12} {line}"));
            }
            app.info(&text);
        });
    });
}

/// A line for each limit, with the rest that is left.
fn limit_lines(app: &App, limits: &RateLimitSnapshot) -> Vec<String> {
    let windows = [&limits.primary, &limits.secondary].into_iter().flatten();
    let mut lines: Vec<String> = windows.map(|it| window(app, it)).collect();
    if let Some(credits) = &limits.credits {
        lines.push(match (&credits.balance, credits.unlimited, credits.has_credits) {
            (_, true, _) => "credits: unlimited".to_owned(),
            (Some(balance), ..) => format!("credits: {balance}"),
            (None, _, true) => "credits available".to_owned(),
            (None, _, false) => "no credits".to_owned(),
        });
    }
    if lines.is_empty() {
        lines.push("none reported yet; providers report them with their answers".to_owned());
    }
    lines
}

/// A limit in words: `62% left of 5h 00m, resets in 1h 10m`.
pub(super) fn window(app: &App, window: &RateLimitWindow) -> String {
    let mut text = format!("{}% left", 100 - window.used_percent.clamp(0, 100));
    if let Some(minutes) = window.window_duration_mins.and_then(|it| u64::try_from(it).ok()) {
        text.push_str(&format!(" of {}", cells::duration(minutes.saturating_mul(60_000))));
    }
    if let Some(at) = window.resets_at {
        let now = app.environment.started_at.saturating_add_unsigned(app.now / 1_000);
        let seconds = u64::try_from(at.saturating_sub(now)).unwrap_or(0);
        text.push_str(&format!(", resets in {}", cells::duration(seconds.saturating_mul(1_000))));
    }
    text
}

/// `/logout`: says what would be deleted, and asks.
pub(super) fn log_out(app: &mut App, _: &str) {
    app.call::<protocol::AccountRead>(&AccountReadParams::default(), |app, read| {
        let (account, is_logged_in) = match read {
            Ok(value) => who(&value),
            Err(error) => return app.error(&format!("The logout failed: {}", error.message)),
        };
        if !is_logged_in {
            return app.info("No account is logged in. /login logs in.");
        }
        let facts = vec![
            Line::plain(format!("Account: {account}.")),
            Line::plain(
                "This deletes the stored credentials for all programs that use this home. Threads \
                 and settings stay, and so does a key in the environment.",
            ),
        ];
        let offers = vec![
            Offer::new("yes", 'y', "Log out"),
            Offer::new("no", 'n', "Stay logged in").on_escape(),
        ];
        app.open_dialog(Ask::offer("Log out?", facts, offers), |app, reply| {
            if reply == "yes" {
                log_out_now(app);
            }
        });
    });
}

fn log_out_now(app: &mut App) {
    app.call::<protocol::AccountLogout>(&Empty {}, |app, result| {
        if let Err(error) = result {
            return app.error(&format!("The logout failed: {}", error.message));
        }
        app.call::<protocol::AccountRead>(&AccountReadParams::default(), |app, read| {
            app.info(match read.map(|value| who(&value)) {
                Ok((_, true)) => {
                    "The stored credentials were deleted. The API key in the environment \
                     (AGENT_API_KEY or OPENAI_API_KEY) is still in use."
                }
                _ => "Logged out: the stored credentials were deleted. /login logs in again.",
            });
        });
    });
}

/// The answer of `account/read` in words, and whether an account is logged in.
fn who(read: &AccountReadResponse) -> (String, bool) {
    match &read.account {
        Some(account) => (described(account), true),
        None => {
            let text = match read.requires_default_auth {
                true => "no account is logged in, and the provider needs one: /login",
                false => "no account is logged in; the provider needs none",
            };
            (text.to_owned(), false)
        }
    }
}
