//! Requests for permissions beyond the sandbox.

use protocol::approval::{
    PermissionGrantScope, PermissionsRequestApprovalParams, PermissionsRequestApprovalResponse,
};
use protocol::permission::{
    AdditionalPermissionProfile, FileSystemAccessMode, FileSystemPath, FileSystemSandboxEntry,
    FileSystemSpecialPath,
};

use crate::palette::Palette;
use crate::text::{Line, Style};

use super::choices::{Choice, Choices, refusals};
use super::facts::{fact, text_lines};
use super::step::{Answer, FollowUp, encoded};

/// See [`super::Ask::new`].
pub(super) fn request(params: PermissionsRequestApprovalParams) -> (String, Vec<Line>, Choices) {
    let mut facts = lines(&params.permissions);
    facts.push(fact("In", &params.cwd));
    if let Some(reason) = &params.reason {
        facts.extend(text_lines("Why: ", reason, Style::PLAIN));
    }
    let answer = |granted: bool, scope, text: &str, style| {
        let permissions = if granted { params.permissions.clone() } else { Default::default() };
        let response =
            PermissionsRequestApprovalResponse { permissions, scope, strict_auto_review: None };
        Answer::new(encoded(&response), Line::new(text.to_owned(), style))
    };
    let denied = |text| answer(false, PermissionGrantScope::Turn, text, Palette::WARNING);
    let denial = denied("Denied the permissions");
    let stop = denied("Denied the permissions and stopped the turn").and(FollowUp::StopTurn);
    let for_turn = answer(
        true,
        PermissionGrantScope::Turn,
        "Granted the permissions for the turn",
        Palette::GOOD,
    );
    let for_session = answer(
        true,
        PermissionGrantScope::Session,
        "Granted the permissions for the session",
        Palette::GOOD,
    );
    let mut choices = vec![
        Choice::yes('y', "Yes, for this turn", for_turn)
            .with_effect("All commands of the turn may use them."),
        Choice::yes('a', "Yes, for this session", for_session)
            .with_effect("All commands may use them until the session ends."),
    ];
    choices.extend(refusals(&denial, Some(&stop)));
    let choices = Choices::new(choices, denial, stop);
    ("Give commands more access?".to_owned(), facts, choices)
}

/// The permissions, a line each.
pub(super) fn lines(permissions: &AdditionalPermissionProfile) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut line = |name: &str, value: String| {
        lines.push(Line::new(format!("  {name}: "), Palette::WARNING).with(value, Style::BOLD));
    };
    match permissions.network.as_ref().and_then(|network| network.enabled) {
        Some(true) => line("Network", "any host".to_owned()),
        Some(false) => line("Network", "none".to_owned()),
        None => {}
    }
    if let Some(files) = &permissions.file_system {
        files.read.iter().flatten().for_each(|path| line("Read", path.clone()));
        files.write.iter().flatten().for_each(|path| line("Write", path.clone()));
        for entry in files.entries.iter().flatten() {
            let FileSystemSandboxEntry { path, access } = entry;
            let name = match access {
                FileSystemAccessMode::Read => "Read",
                FileSystemAccessMode::Write => "Write",
                FileSystemAccessMode::None => "No access",
            };
            line(name, location(path));
        }
        if let Some(depth) = files.glob_scan_max_depth {
            line("Depth of patterns", depth.to_string());
        }
    }
    if lines.is_empty() {
        lines.push(Line::new("  No permission is named.", Palette::QUIET));
    }
    lines
}

fn location(path: &FileSystemPath) -> String {
    let below = |name: &str, subpath: &Option<String>| match subpath {
        Some(subpath) => format!("{subpath} in {name}"),
        None => name.to_owned(),
    };
    match path {
        FileSystemPath::Path { path } => path.clone(),
        FileSystemPath::GlobPattern { pattern } => format!("everything like {pattern}"),
        FileSystemPath::Special { value } => match value {
            FileSystemSpecialPath::Root {} => "the whole file system".to_owned(),
            FileSystemSpecialPath::Minimal {} => "what programs need to start".to_owned(),
            FileSystemSpecialPath::ProjectRoots { subpath } => below("the project", subpath),
            FileSystemSpecialPath::Tmpdir {} => "the folder for temporary files".to_owned(),
            FileSystemSpecialPath::SlashTmp {} => policy::SLASH_TMP.to_owned(),
            FileSystemSpecialPath::Unknown { path, subpath } => {
                below(&format!("a place unknown to this version: {path}"), subpath)
            }
        },
    }
}
