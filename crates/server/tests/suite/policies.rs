//! The folders that a policy lets be written and read. Everyone who acts on a policy is asked about the
//! same policies: the message to the model, the sandbox of commands, patches, and plan mode.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{Peer, TestEnvironment};

use crate::{patches, runs, says, tool_outputs};

/// The folders that everyone is asked about.
struct Folders {
    _root: TempDir,
    cwd: PathBuf,
    extra: PathBuf,
    tmpdir: PathBuf,
    /// A name in `/tmp` that no other test has.
    name: String,
}

impl Folders {
    fn new() -> Self {
        // No policy includes this folder by default.
        let root = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = root.path().canonicalize().unwrap();
        let name = path.file_name().unwrap().to_str().unwrap().trim_start_matches('.').to_owned();
        let [cwd, extra, tmpdir] = ["work", "extra", "temporary"].map(|name| path.join(name));
        let folders = Self { _root: root, cwd, extra, tmpdir, name };
        for folder in folders.all() {
            std::fs::create_dir_all(folder).unwrap();
            std::fs::write(folder.join(folders.file("readable")), "").unwrap();
        }
        folders
    }

    fn all(&self) -> [&Path; 4] {
        [&self.cwd, &self.extra, Path::new("/tmp"), &self.tmpdir]
    }

    fn file(&self, kind: &str) -> String {
        format!("{}-{kind}", self.name)
    }

    /// A command that prints the folders in which `action` works on a file.
    fn probe(&self, action: &str, kind: &str) -> Value {
        let folders = self.all().map(|folder| folder.display().to_string()).join(" ");
        let file = self.file(kind);
        runs(&format!(
            "for f in {folders}; do ({action} $f/{file}) >/dev/null 2>&1 && echo \"<$f>\"; done; true"
        ))
    }

    /// Patches that each create a file in one of the folders.
    fn patches(&self) -> impl Iterator<Item = Value> {
        let file = self.file("patched");
        let patch = |folder: &Path| format!("*** Add File: {}/{file}\n+x", folder.display());
        self.all().map(|folder| patches(&patch(folder))).into_iter()
    }

    /// The folders in which a patch created its file, which is removed.
    fn patched(&self) -> Vec<PathBuf> {
        let file = self.file("patched");
        let patched = self.all().into_iter().filter(|folder| folder.join(&file).exists());
        let patched: Vec<_> = patched.map(Path::to_owned).collect();
        for kind in ["patched", "touched"] {
            for folder in self.all() {
                let _ = std::fs::remove_file(folder.join(self.file(kind)));
            }
        }
        patched
    }
}

impl Drop for Folders {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(Path::new("/tmp").join(self.file("readable")));
    }
}

fn printed(output: &str) -> Vec<PathBuf> {
    let lines = output.lines().filter_map(|line| line.strip_prefix('<')?.strip_suffix('>'));
    lines.map(PathBuf::from).collect()
}

/// The folders in a sentence about the sandbox, between `before` and `after`, or in the lines of a profile
/// that grant `access`.
fn named(text: &str, (before, after): (&str, &str), access: &str) -> Vec<PathBuf> {
    if let Some((_, rest)) = text.split_once(before) {
        return rest.split_once(after).unwrap().0.split(", ").map(PathBuf::from).collect();
    }
    let rules = text.lines().filter_map(|line| line.strip_prefix("- ")?.split_once(": "));
    rules.filter(|(_, granted)| granted.starts_with(access)).map(|(path, _)| path.into()).collect()
}

/// The last message to the model about its permissions.
fn permissions(env: &TestEnvironment) -> String {
    let request = env.model().requests().pop().unwrap();
    let mut texts = request["input"].as_array().unwrap().iter().flat_map(|item| {
        item["content"].as_array().into_iter().flatten().filter_map(|part| part["text"].as_str())
    });
    texts.rfind(|text| text.contains("<permissions>")).unwrap().to_owned()
}

/// A turn under the policy, or the configured one, then one in plan mode. `writable`: the folders that the
/// policy lets be written, which plan mode lets be read.
async fn check(
    env: &TestEnvironment,
    peer: &mut Peer,
    folders: &Folders,
    policy: Option<Value>,
    writable: &[&Path],
) {
    let cwd = &folders.cwd;
    let thread = peer.start_thread(json!({ "approvalPolicy": "never", "cwd": cwd })).await;
    let turn = |mode: &str| {
        json!({ "threadId": thread, "input": [{ "type": "text", "text": "Go." }],
            "collaborationMode": { "mode": mode,
                "settings": { "model": "gpt-5", "developer_instructions": null } } })
    };
    let mut first = turn("default");
    if let Some(policy) = &policy {
        first["sandboxPolicy"] = policy.clone();
    }
    peer.run_turn_with(first).await;
    let working = permissions(env);
    let patched = folders.patched();
    peer.run_turn_with(turn("plan")).await;
    let planning = permissions(env);
    let outputs = tool_outputs(env);
    let (command, plan) = (outputs.first().unwrap(), outputs.last().unwrap());
    // The working folder is readable in every policy.
    let readable = [&[cwd.as_path()], writable].concat();
    for (user, found, expected) in [
        (
            "the message to the model",
            named(&working, (" and write in ", ", where"), "writable"),
            writable,
        ),
        ("the sandbox", printed(command), writable),
        ("patches", patched, writable),
        (
            "the message in plan mode",
            named(&planning, (" can read only ", " and write nothing"), "read-only"),
            &readable,
        ),
        ("plan mode", printed(plan), &readable),
    ] {
        let found: BTreeSet<_> = found.iter().map(PathBuf::as_path).collect();
        let expected: BTreeSet<_> = expected.iter().copied().collect();
        assert_eq!(found, expected, "{user}: {policy:?}\n{working}\n{planning}\n{outputs:#?}");
    }
}

/// Checks each policy, or the configured one where there is none.
async fn check_all(
    folders: &Folders,
    tmpdir: &Path,
    overrides: Vec<String>,
    rows: Vec<(Option<Value>, Vec<&Path>)>,
) {
    let mut responses = vec![folders.probe("touch", "touched")];
    responses.extend(folders.patches());
    responses.extend([says("Done."), folders.probe("cat", "readable"), says("Planned.")]);
    let mut env = TestEnvironment::with_responses(json!(responses)).await;
    env.variables.push(("TMPDIR".into(), tmpdir.into()));
    env.config_overrides.extend(overrides);
    let server = env.start();
    let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
    for (policy, writable) in rows {
        check(&env, &mut peer, folders, policy, &writable).await;
    }
}

#[tokio::test]
async fn everyone_agrees_about_the_folders_of_a_policy() {
    let folders = Folders::new();
    let [cwd, extra, tmp, tmpdir] = folders.all();
    let policy = |roots: &[&Path], no_tmp: bool, no_tmpdir: bool| {
        Some(json!({ "type": "workspaceWrite", "writableRoots": roots,
            "readOnlyAccess": { "type": "restricted", "includePlatformDefaults": true,
                "readableRoots": [cwd] },
            "excludeSlashTmp": no_tmp, "excludeTmpdirEnvVar": no_tmpdir }))
    };
    let rows = vec![
        (policy(&[], false, false), vec![cwd, tmp, tmpdir]),
        (policy(&[], true, false), vec![cwd, tmpdir]),
        (policy(&[], false, true), vec![cwd, tmp]),
        (policy(&[], true, true), vec![cwd]),
        (policy(&[extra], false, false), vec![extra, tmp, tmpdir]),
        (policy(&[cwd, extra], true, true), vec![cwd, extra]),
    ];
    check_all(&folders, tmpdir, Vec::new(), rows).await;
}

#[tokio::test]
async fn everyone_agrees_about_a_profile_and_the_tmpdir_of_commands() {
    let folders = Folders::new();
    let [cwd, _, tmp, tmpdir] = folders.all();
    let overrides = vec![
        "default_permissions=p".to_owned(),
        format!(
            "permissions.p.filesystem={{\":minimal\"=\"read\",\"{}\"=\"write\",\
             \":tmpdir\"=\"write\",\":slash_tmp\"=\"write\"}}",
            cwd.display()
        ),
        // Not the server's own.
        format!("shell_environment_policy.set={{TMPDIR=\"{}\"}}", tmpdir.display()),
    ];
    check_all(&folders, Path::new("/var/tmp"), overrides, vec![(None, vec![cwd, tmp, tmpdir])])
        .await;
}

/// A program in a folder that the agent can write is none of the programs that are known to be harmless.
#[tokio::test]
async fn programs_in_temporary_folders_are_not_trusted() {
    let folders = Folders::new();
    std::os::unix::fs::symlink("/bin/ls", folders.tmpdir.join("ls")).unwrap();
    let mut env = TestEnvironment::with_responses(json!([runs("ls"), says("Done.")])).await;
    let path = format!("{}:/usr/bin:/bin", folders.tmpdir.display());
    env.variables.retain(|(name, _)| name != "PATH");
    let variables = [("PATH", path.into()), ("TMPDIR", folders.tmpdir.clone().into_os_string())];
    env.variables.extend(variables.map(|(name, value)| (name.into(), value)));
    let server = env.start();
    let mut peer = server.connect().await;
    for sandbox in ["workspaceWrite", "dangerFullAccess"] {
        let started = json!({ "approvalPolicy": "unlessTrusted", "sandbox": sandbox });
        let thread = peer.start_thread(started).await;
        let turn = peer.start_turn(&thread, "Go.").await;
        let asked = peer.asked("item/commandExecution/requestApproval").await;
        peer.decide(&asked, "decline").await;
        peer.turn_end(&turn).await;
    }
}
