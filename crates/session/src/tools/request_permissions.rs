//! `request_permissions`: asks the user for permissions that later commands need.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::arguments::Arguments;
use super::tool::{CallCx, Found, Step, Tool, ToolCall, function};
use crate::history::CallOutput;
use crate::port::settings::{ApprovalPolicy, Settings};
use crate::port::tool::ToolRequest;
use crate::port::tool_error::ToolError;
use crate::port::tool_set::ToolSet;

const NAME: &str = "request_permissions";

/// Folders of one call.
const MAX_FOLDERS: usize = 32;
/// Characters of a reason.
const MAX_REASON: usize = 4_000;

pub(super) struct RequestPermissions;

#[derive(Debug)]
struct PermissionsCall {
    reason: Option<String>,
    read: Vec<String>,
    write: Vec<String>,
    network: bool,
}

impl Tool for RequestPermissions {
    fn name(&self) -> Cow<'_, str> {
        NAME.into()
    }

    fn definition(&self, tools: &ToolSet) -> Option<String> {
        let description = "Asks the user for permissions that several later commands need: folders \
             to read or to write, or the network. Ask for the narrowest that suffice. What is \
             granted holds from the next command on; the result names it. A command that has what was granted \
             for the turn ends with the turn.";
        let folders = |what: &str| json!({ "type": "array", "items": { "type": "string" }, "description": what });
        let properties = json!({
            "reason": { "type": "string", "description": "What they are for, for the user." },
            "permissions": {
                "type": "object",
                "properties": {
                    "file_system": {
                        "type": "object",
                        "properties": {
                            "read": folders("Folders to read."),
                            "write": folders("Folders to read and write."),
                        },
                        "additionalProperties": false,
                    },
                    "network": {
                        "type": "object",
                        "properties": { "enabled": { "type": "boolean" } },
                        "additionalProperties": false,
                    },
                },
                "additionalProperties": false,
            },
        });
        let definition = || function(NAME, description, &["permissions"], &properties);
        self.is_callable(tools).then(definition)
    }

    fn is_callable(&self, tools: &ToolSet) -> bool {
        tools.request_permissions
    }

    fn read(&self, arguments: &str) -> Result<Box<dyn ToolCall>, ToolError> {
        let mut members = Arguments::read(NAME, arguments)?;
        members.check_names(&["reason", "permissions"])?;
        let reason = members.text("reason")?.filter(|reason| !reason.trim().is_empty());
        if reason.as_ref().is_some_and(|reason| reason.chars().count() > MAX_REASON) {
            return Err(wrong(&format!("`reason` is longer than {MAX_REASON} characters")));
        }
        let missing = || wrong("`permissions` is missing; give `file_system` or `network`");
        let mut permissions = members.object("permissions")?.ok_or_else(missing)?;
        permissions.check_names_in("permissions", &["file_system", "fileSystem", "network"])?;
        let mut files =
            match (permissions.object("file_system")?, permissions.object("fileSystem")?) {
                (Some(_), Some(_)) => {
                    return Err(wrong(
                        "`file_system` is given twice, also as `fileSystem`; give one",
                    ));
                }
                (one, other) => one.or(other),
            };
        if let Some(files) = &files {
            files.check_names_in("permissions.file_system", &["read", "write"])?;
        }
        let mut folders = |name: &str| match &mut files {
            Some(files) => Ok(files.words(name)?.unwrap_or_default()),
            None => Ok(Vec::new()),
        };
        let (read, write) = (folders("read")?, folders("write")?);
        let network = match permissions.object("network")? {
            Some(mut network) => {
                network.check_names_in("permissions.network", &["enabled"])?;
                network.flag("enabled")?
            }
            None => false,
        };
        if read.is_empty() && write.is_empty() && !network {
            return Err(wrong("`permissions` asks for nothing; name folders or the network"));
        }
        if read.len() + write.len() > MAX_FOLDERS {
            return Err(wrong(&format!("more than {MAX_FOLDERS} folders; ask for fewer")));
        }
        Ok(Box::new(PermissionsCall { reason, read, write, network }))
    }
}

fn wrong(what: &str) -> ToolError {
    ToolError::new(format!("{NAME}: {what}"))
}

impl PermissionsCall {
    fn arguments(&self) -> Value {
        let Self { reason, read, write, network } = self;
        json!({
            "reason": reason,
            "permissions": {
                "file_system": { "read": read, "write": write },
                "network": { "enabled": network },
            },
        })
    }

    /// Why no client is asked, if that is so.
    fn refusal(&self, settings: &Settings, is_planning: bool) -> Option<&'static str> {
        match settings.approval {
            _ if is_planning && (self.network || !self.write.is_empty()) => Some(
                "not granted: plan mode changes nothing and keeps the network off; put what the \
                 work will need into the plan",
            ),
            ApprovalPolicy::Never => Some(
                "not granted: the approval policy is `never`, so no client is asked; find another way",
            ),
            ApprovalPolicy::Granular(granular) if !granular.request_permissions => Some(
                "not granted: prompts of this tool are switched off \
                 (`approval_policy.granular.request_permissions`); find another way",
            ),
            ApprovalPolicy::UnlessTrusted
            | ApprovalPolicy::OnRequest
            | ApprovalPolicy::Granular(_) => None,
        }
    }
}

impl ToolCall for PermissionsCall {
    fn begin(&self, cx: &mut CallCx<'_>) -> Step {
        if cx.settings.sandbox.is_unconfined() && !cx.is_planning() {
            let text = "Commands are not confined by permissions here: there is nothing to request";
            return Step::Finish(CallOutput::Text(text.into()));
        }
        if let Some(why) = self.refusal(cx.settings, cx.is_planning()) {
            return cx.fail(NAME, &self.arguments(), why.to_owned());
        }
        let Self { read, write, network, .. } = self;
        Step::Prepare(ToolRequest::Permissions {
            read: read.clone(),
            write: write.clone(),
            network: *network,
        })
    }

    fn prepared(&self, found: Found, cx: &mut CallCx<'_>) -> Option<Step> {
        let Found::Permissions(found) = found else { return None };
        Some(match found {
            Err(error) => cx.fail(NAME, &self.arguments(), error.into_message()),
            Ok(permissions) if permissions.is_empty() => {
                let text = "All of these permissions are in force already";
                Step::Finish(CallOutput::Text(text.into()))
            }
            Ok(permissions) => Step::Permissions {
                tool: NAME,
                arguments: self.arguments().to_string(),
                reason: self.reason.clone(),
                permissions,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_as_models_write_them() {
        for permissions in [
            json!({ "file_system": { "write": ["/a"] } }),
            json!({ "fileSystem": { "read": ["/a"], "write": null } }),
            json!({ "network": { "enabled": "true" }, "file_system": null }),
            json!(r#"{"network":{"enabled":true}}"#),
        ] {
            let arguments = json!({ "permissions": permissions }).to_string();
            assert!(RequestPermissions.read(&arguments).is_ok(), "{arguments}");
        }
        let many = vec!["/a"; 33];
        for (permissions, expected) in [
            (json!(null), "`permissions` is missing"),
            (json!({}), "asks for nothing"),
            (json!({ "network": { "enabled": false } }), "asks for nothing"),
            (json!({ "file_system": { "write": [] } }), "asks for nothing"),
            (json!({ "file_system": ["/a"] }), "give an object"),
            (json!({ "file_system": { "write": "/a" } }), "a list of strings"),
            (json!({ "network": true }), "give an object"),
            (
                json!({ "network": { "hosts": ["a.example"] } }),
                "`permissions.network` has no member `\"hosts\"`; its members are enabled",
            ),
            (
                json!({ "file_system": { "entries": [], "read": ["/a"] } }),
                "`permissions.file_system` has no member `\"entries\"`; its members are read, write",
            ),
            (json!({ "macos": {}, "network": { "enabled": true } }), "no member `\"macos\"`"),
            (
                json!({ "file_system": { "read": ["/a"] }, "fileSystem": { "write": ["/b"] } }),
                "`file_system` is given twice",
            ),
            (json!({ "file_system": { "read": many } }), "more than 32 folders"),
        ] {
            let arguments = json!({ "permissions": permissions }).to_string();
            let message = RequestPermissions.read(&arguments).unwrap_err().into_message();
            assert!(message.contains(expected), "{expected} in {message}");
        }
        let misspelt =
            json!({ "permissions": { "network": { "enabled": true } }, "scope": "turn" });
        let message = RequestPermissions.read(&misspelt.to_string()).unwrap_err().into_message();
        assert!(message.contains("there is no member `\"scope\"`"), "{message}");
    }
}
