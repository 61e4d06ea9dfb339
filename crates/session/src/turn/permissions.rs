//! Requests for permissions: asked, checked by the driver, granted, ended with the turn.

use serde_json::json;

use super::Turn;
use crate::calls::{AskedAbout, FileChange, PermissionRequest};
use crate::history::CallOutput;
use crate::port::approval::{Ask, Decision};
use crate::port::auto_review::ShownPermissions;
use crate::port::effect::Effect;
use crate::port::event::Event;
use crate::port::item::{DynamicCall, Item, ItemStatus, ToolAnswer, ToolContent};
use crate::port::permission::{Grant, GrantScope, Permissions};
use crate::port::tool_error::ToolError;
use crate::terms::{CHANGED, Terms};
use crate::thread::Thread;
use crate::tools::started_call;

impl Turn {
    pub(super) fn ask_permissions(
        &mut self,
        number: u64,
        (tool, arguments): (&'static str, String),
        reason: Option<String>,
        permissions: Permissions,
        thread: &mut Thread,
    ) {
        let item = started_call(thread.cx.item_id(), None, tool.to_owned(), arguments);
        thread.cx.stored_item_started(&self.view.id, Item::DynamicCall(item.clone()));
        let cwd = thread.configuration.settings().cwd.clone();
        let (shown, why) = (permissions.clone(), reason.clone());
        let ask = Ask::Permissions { reason: why, cwd, permissions: shown };
        let about = AskedAbout::Permissions(PermissionRequest { item, permissions, reason });
        self.ask(number, false, about, ask, thread);
    }

    /// The request was granted: the driver checks it against the files and the requirements as they
    /// are now.
    pub(super) fn check_grant(
        &mut self,
        number: u64,
        item: DynamicCall,
        grant: Grant,
        terms: Terms,
        thread: &mut Thread,
    ) {
        self.calls.check_grant(number, item, terms);
        self.show_waiting(thread);
        thread.cx.push(Effect::CheckGrant { call: number, grant });
    }

    /// The user made the working folder writable together with a patch: the driver checks the folder
    /// before the patch is applied.
    pub(super) fn check_folder(&mut self, number: u64, change: FileChange, thread: &mut Thread) {
        let write = change.grantable_folder.iter().cloned().collect();
        let permissions = Permissions { write, ..Permissions::default() };
        let grant = Grant { permissions, scope: GrantScope::Session };
        let terms = Terms::new(thread.configuration.chosen());
        self.calls.check_folder(number, change, terms);
        thread.cx.push(Effect::CheckGrant { call: number, grant });
    }

    /// The folder of an approved patch was checked. The patch is applied even where the folder can no
    /// longer be granted.
    fn folder_checked(
        &mut self,
        number: u64,
        outcome: Result<Grant, ToolError>,
        (change, terms): (FileChange, Terms),
        thread: &mut Thread,
    ) {
        let is_same = terms == Terms::new(thread.configuration.chosen());
        match outcome.and_then(|grant| is_same.then_some(grant).ok_or(ToolError::new(CHANGED))) {
            Ok(grant) => thread.configuration.grant(grant),
            Err(error) => {
                let why = error.into_message();
                let message =
                    format!("the folder stays read-only, changes in it are asked about: {why}");
                thread.cx.emit(Event::Warning { message });
            }
        }
        self.apply(number, change, thread);
        self.go_on(thread);
    }

    /// The driver checked a grant.
    pub(crate) fn granted(
        &mut self,
        number: u64,
        outcome: Result<Grant, ToolError>,
        thread: &mut Thread,
    ) {
        if let Some(checked) = self.calls.take_checked_folder(number) {
            return self.folder_checked(number, outcome, checked, thread);
        }
        let Some((item, terms)) = self.calls.take_checked_grant(number) else { return };
        let is_same = terms == Terms::new(thread.configuration.chosen());
        let outcome = outcome.and_then(|grant| match is_same {
            true => Ok(grant),
            false => Err(ToolError::new(CHANGED)),
        });
        let (item, output) = match outcome {
            Ok(grant) => {
                let text = granted_text(&grant);
                thread.configuration.grant(grant);
                let content = vec![ToolContent::Text(text.clone())];
                let answer = Some(ToolAnswer { content, success: true });
                (DynamicCall { status: ItemStatus::Completed, answer, ..item }, text)
            }
            Err(error) => {
                let reason = error.into_message();
                let status = ItemStatus::Failed;
                (DynamicCall { status, reason: Some(reason.clone()), ..item }, reason)
            }
        };
        thread.cx.item_completed(&self.view.id, Item::DynamicCall(item));
        self.calls.answer(number, CallOutput::Text(output));
        self.go_on(thread);
    }
}

/// Returns the grant of a decision about `request`; `None` when it is a no.
pub(super) fn granted(decision: &Decision, request: &PermissionRequest) -> Option<Grant> {
    let whole = |scope| Some(Grant { permissions: request.permissions.clone(), scope });
    match decision {
        // There is no prefix to allow, so an amendment is a plain yes.
        Decision::Accept | Decision::AcceptWithAmendment(_) => whole(GrantScope::Turn),
        Decision::AcceptForSession => whole(GrantScope::Session),
        Decision::Grant(grant) => {
            let fits = grant.permissions.are_within(&request.permissions);
            (fits && !grant.permissions.is_empty()).then(|| grant.clone())
        }
        Decision::Decline | Decision::Cancel | Decision::Undecided(_) => None,
    }
}

fn granted_text(grant: &Grant) -> String {
    // A path that is not UTF-8 is no JSON.
    let ShownPermissions { read, write, network } = ShownPermissions::new(&grant.permissions);
    json!({
        "permissions": {
            "file_system": { "read": read, "write": write },
            "network": { "enabled": network },
        },
        "scope": grant.scope.as_str(),
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn any_folder_can_be_granted() {
        let write = vec![OsStr::from_bytes(b"/a\xff/\xe2\x80\xae").into()];
        let permissions = Permissions { write, ..Permissions::default() };
        let text = granted_text(&Grant { permissions, scope: GrantScope::Turn });
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read["permissions"]["file_system"]["write"], json!(["/a\\xff/\\u{202e}"]));
    }
}
