//! Files of hooks and answers of handlers: whatever the text, parts or reasons; and an answer that cannot
//! be understood never lets a call or an approval through.

use std::path::PathBuf;

use hooks::{EventName, HandlerResult, Origin, Permission, Source, Status, read_answer, read_file};

/// Checks one input.
pub fn run(text: &[u8]) {
    let path = PathBuf::from("/hooks.json");
    let origin = Origin { source: Source::Project, path, plugin: None };
    if let Ok(read) = read_file(text, &origin) {
        assert!(read.hooks.len() <= hooks::MAX_HOOKS);
        for hook in &read.hooks {
            assert!(hook.timeout_sec > 0);
            assert_eq!(hook.digest([]), hook.digest([]));
        }
    }
    for event in EventName::ALL {
        let printed = HandlerResult::Exited { code: 0, output: text, errors: b"" };
        let answer = read_answer(event, printed);
        let is_guard = matches!(event, EventName::PreToolUse | EventName::PermissionRequest);
        if is_guard && answer.status == Status::Failed {
            assert!(matches!(answer.permission, Some(Permission::Deny(_))), "{answer:?}");
        }
        if !is_guard {
            assert_eq!(answer.permission, None);
        }
        assert!(answer.block.is_none() || event.can_block());
        if let Ok(text) = std::str::from_utf8(text) {
            read_answer(event, HandlerResult::Verdict { text });
        }
    }
}
