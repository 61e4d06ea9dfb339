//! Requests for permissions: as clients get them, and what of an answer is granted.

use std::path::PathBuf;

use protocol::approval::{
    PermissionGrantScope, PermissionsRequestApprovalParams, PermissionsRequestApprovalResponse,
};
use protocol::permission::{
    AdditionalFileSystemPermissions, AdditionalNetworkPermissions, AdditionalPermissionProfile,
    FileSystemAccessMode, FileSystemPath,
};
use session::{Decision, Grant, GrantScope, Id, Millis, Permissions, ShownPermissions};

use crate::error::Error;

/// A request for permissions, as the session makes it.
pub struct PermissionsAsked {
    pub reason: Option<String>,
    pub cwd: PathBuf,
    pub permissions: Permissions,
}

/// The request as clients get it, with invisible characters escaped.
pub fn params(
    (thread, turn, item): (&Id, &Id, &Id),
    asked: &PermissionsAsked,
    at: Millis,
) -> PermissionsRequestApprovalParams {
    let PermissionsAsked { reason, cwd, permissions } = asked;
    PermissionsRequestApprovalParams {
        thread_id: thread.to_string(),
        turn_id: turn.to_string(),
        item_id: item.to_string(),
        started_at_ms: at,
        cwd: visible::path(cwd),
        reason: reason.as_deref().map(|reason| visible::text(reason).into_owned()),
        permissions: profile(permissions),
    }
}

/// Permissions on the wire.
pub fn profile(permissions: &Permissions) -> AdditionalPermissionProfile {
    shown_profile(&ShownPermissions::new(permissions))
}

/// Permissions on the wire, given as they are shown.
pub(crate) fn shown_profile(permissions: &ShownPermissions) -> AdditionalPermissionProfile {
    let ShownPermissions { read, write, network } = permissions;
    let folders = |paths: &[String]| (!paths.is_empty()).then(|| paths.to_vec());
    let file_system = AdditionalFileSystemPermissions {
        read: folders(read),
        write: folders(write),
        ..AdditionalFileSystemPermissions::default()
    };
    AdditionalPermissionProfile {
        file_system: (file_system != AdditionalFileSystemPermissions::default())
            .then_some(file_system),
        network: network.then_some(AdditionalNetworkPermissions { enabled: Some(true) }),
    }
}

/// The permissions that a profile lists in the form of [`profile`].
pub fn listed(profile: AdditionalPermissionProfile) -> ShownPermissions {
    let files = profile.file_system.unwrap_or_default();
    ShownPermissions {
        read: files.read.unwrap_or_default(),
        write: files.write.unwrap_or_default(),
        network: profile.network.and_then(|network| network.enabled).unwrap_or(false),
    }
}

/// Returns the decision of an answer: a part of the request is granted, or nothing.
///
/// # Errors
/// `-32602` when it grants what was not requested, or cannot be carried out.
pub fn decision(
    answer: PermissionsRequestApprovalResponse,
    requested: &Permissions,
) -> Result<Decision, Error> {
    if answer.strict_auto_review == Some(true) {
        return Err(Error::invalid_params(
            "`strictAutoReview` is not supported; leave it out, and every later approval is asked \
             of the thread's reviewer as before",
        ));
    }
    let mut granted = Permissions::default();
    let files = answer.permissions.file_system.unwrap_or_default();
    if files.glob_scan_max_depth.is_some() {
        return Err(Error::invalid_params("`globScanMaxDepth`: no patterns were requested"));
    }
    for path in files.read.into_iter().flatten() {
        granted.read.push(readable(&path, requested)?);
    }
    for path in files.write.into_iter().flatten() {
        granted.write.push(writable(&path, requested)?);
    }
    for entry in files.entries.into_iter().flatten() {
        let FileSystemPath::Path { path } = entry.path else {
            return Err(Error::invalid_params("`entries`: only paths were requested"));
        };
        match entry.access {
            FileSystemAccessMode::Read => granted.read.push(readable(&path, requested)?),
            FileSystemAccessMode::Write => granted.write.push(writable(&path, requested)?),
            FileSystemAccessMode::None => {
                return Err(Error::invalid_params(
                    "`entries`: a request cannot be answered with less access than there is; leave \
                     the path out",
                ));
            }
        }
    }
    let network = answer.permissions.network.and_then(|network| network.enabled);
    granted.network = network.unwrap_or(false);
    if granted.network && !requested.network {
        return Err(Error::invalid_params("it grants the network, which was not requested"));
    }
    if granted.is_empty() {
        return Ok(Decision::Decline);
    }
    let scope = match answer.scope {
        PermissionGrantScope::Turn => GrantScope::Turn,
        PermissionGrantScope::Session => GrantScope::Session,
    };
    Ok(Decision::Grant(Grant { permissions: granted, scope }))
}

/// A folder that was requested for reading, or for writing.
fn readable(path: &str, requested: &Permissions) -> Result<PathBuf, Error> {
    found(path, requested.read.iter().chain(&requested.write), "read")
}

fn writable(path: &str, requested: &Permissions) -> Result<PathBuf, Error> {
    found(path, requested.write.iter(), "write")
}

fn found<'a>(
    path: &str,
    mut requested: impl Iterator<Item = &'a PathBuf>,
    access: &str,
) -> Result<PathBuf, Error> {
    requested.find(|known| visible::path(known) == path).cloned().ok_or_else(|| {
        let path: String = path.chars().take(200).collect();
        Error::invalid_params(format!(
            "it grants `{}` for `{access}`, which was not requested; grant the requested folders or \
             some of them",
            visible::text(&path)
        ))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[cfg(unix)]
    #[test]
    fn folders_with_any_name_are_told_apart_and_granted() {
        use std::os::unix::ffi::OsStrExt;
        let folder = |name: &[u8]| PathBuf::from(std::ffi::OsStr::from_bytes(name));
        let folders =
            [folder(b"/a\xff"), folder(b"/a\xfe"), folder(b"/a\\xff"), folder(b"/a\xe2\x80\x8b")];
        let requested = Permissions { write: folders.to_vec(), ..Permissions::default() };
        let shown = profile(&requested).file_system.unwrap().write.unwrap();
        assert_eq!(shown, ["/a\\xff", "/a\\xfe", "/a\\u{5c}xff", "/a\\u{200b}"]);
        for (folder, shown) in folders.iter().zip(&shown) {
            let answer = json!({ "permissions": { "fileSystem": { "write": [shown] } } });
            let decided = decision(serde_json::from_value(answer).unwrap(), &requested).unwrap();
            let Decision::Grant(grant) = decided else { panic!("{shown}") };
            assert_eq!(grant.permissions.write, std::slice::from_ref(folder));
        }
    }

    #[test]
    fn a_part_of_what_was_requested_is_granted() {
        let requested =
            Permissions { read: vec!["/r".into()], write: vec!["/w".into()], network: true };
        let grant = |read: &[&str], write: &[&str], network, scope| {
            let paths = |list: &[&str]| list.iter().map(PathBuf::from).collect();
            let permissions = Permissions { read: paths(read), write: paths(write), network };
            Ok(Decision::Grant(Grant { permissions, scope }))
        };
        let (turn, session) = (GrantScope::Turn, GrantScope::Session);
        let check = |answer: Value, expected: Result<Decision, &str>| {
            let read = serde_json::from_value(answer.clone()).unwrap();
            match (decision(read, &requested), expected) {
                (Ok(decided), Ok(expected)) => assert_eq!(decided, expected, "{answer}"),
                (Err(error), Err(part)) => {
                    assert!(error.to_string().contains(part), "{error}: {part}");
                }
                (decided, _) => panic!("{answer}: {decided:?}"),
            }
        };
        let files = |files: Value| json!({ "permissions": { "fileSystem": files } });
        let entry =
            |path: Value, access: &str| json!({ "entries": [{ "path": path, "access": access }] });
        let path = |path: &str| json!({ "type": "path", "path": path });
        check(json!({ "permissions": {} }), Ok(Decision::Decline));
        check(files(json!({ "read": [], "write": null })), Ok(Decision::Decline));
        check(files(json!({ "write": ["/w"] })), grant(&[], &["/w"], false, turn));
        check(files(json!({ "read": ["/w"] })), grant(&["/w"], &[], false, turn));
        check(files(entry(path("/w"), "write")), grant(&[], &["/w"], false, turn));
        check(
            json!({ "permissions": { "network": { "enabled": true } }, "scope": "session" }),
            grant(&[], &[], true, session),
        );
        check(files(json!({ "write": ["/r"] })), Err("grants `/r` for `write`"));
        check(files(json!({ "write": ["/w/x"] })), Err("which was not requested"));
        check(files(json!({ "read": ["/"] })), Err("grants `/` for `read`"));
        check(files(entry(path("/w"), "none")), Err("less access"));
        let root = json!({ "type": "special", "value": { "kind": "root" } });
        check(files(entry(root, "write")), Err("only paths were requested"));
        check(files(json!({ "globScanMaxDepth": 3 })), Err("globScanMaxDepth"));
        check(json!({ "permissions": {}, "strictAutoReview": true }), Err("not supported"));
    }
}
