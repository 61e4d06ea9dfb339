//! Packages of the system that tests need: installed where this user can, else named. Starts no
//! service of theirs.

use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};

use xtask::steps::{Done, Outcome, Program};

/// A program that tests start, and the Debian package that has it.
const NEEDED: &[(&str, &str)] = &[
    ("c++", "g++"),
    ("chromium", "chromium"),
    ("curl", "curl"),
    ("git", "git"),
    ("initdb", "postgresql"),
    ("minisign", "minisign"),
    ("nginx", "nginx"),
    ("python3", "python3"),
    ("redis-server", "redis-server"),
    ("rpmbuild", "rpm"),
    ("sqlite3", "sqlite3"),
    ("strace", "strace"),
];

/// Debian keeps PostgreSQL's programs in `<version>/bin` below this, outside of the path.
const POSTGRES_VERSIONS: &str = "/usr/lib/postgresql";

pub(crate) fn packages(_root: &Path) -> Outcome {
    let missing: Vec<&str> = NEEDED
        .iter()
        .filter(|(program, _)| !is_installed(program, Path::new(POSTGRES_VERSIONS)))
        .map(|(_, package)| *package)
        .collect();
    if missing.is_empty() {
        return Ok(Done::Passed);
    }
    let names = missing.join(" ");
    if !is_root() || !Program::exists("apt-get") {
        return Err(anyhow!(
            "missing: {names}. Install it, on Debian and its derivatives with `sudo apt-get install {names}`, \
             elsewhere with your system's package tool, and run this again"
        )
        .into());
    }
    let apt = |arguments: &[&str]| {
        Program::new("apt-get", arguments).env("DEBIAN_FRONTEND", "noninteractive")
    };
    apt(&["update", "-qq"]).succeed("check the network and /etc/apt/sources.list")?;
    let install = [&["install", "-y", "-qq", "--no-install-recommends"][..], &missing].concat();
    let _held = HeldServices::hold(Path::new(POLICY), std::process::id())?;
    apt(&install).succeed("install the package by hand and run this again")
}

fn is_installed(program: &str, versions: &Path) -> bool {
    let of_versions = std::fs::read_dir(versions).into_iter().flatten().flatten();
    Program::exists(program)
        || program == "initdb"
            && of_versions.into_iter().any(|version| version.path().join("bin/initdb").is_file())
}

/// The program that Debian's packages ask before they start a service.
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// While this lives, newly installed servers are not started: tests start their own.
struct HeldServices(Option<PathBuf>);

impl HeldServices {
    /// An existing policy stays as it is: its author knows this machine. Ours
    /// forbids nothing once the process `holder` is gone, should it be left behind.
    fn hold(policy: &Path, holder: u32) -> Result<HeldServices> {
        let new = std::fs::File::options().write(true).create_new(true).mode(0o755).open(policy);
        let mut file = match new {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                return Ok(HeldServices(None));
            }
            Err(error) => return Err(error).context(policy.display().to_string()),
        };
        let held = HeldServices(Some(policy.to_owned()));
        let script = format!(
            "#!/bin/sh\n# Created by `cargo xtask test`; delete it if none is running.\n\
             if kill -0 {holder} 2>/dev/null; then exit 101; fi\nexit 0\n"
        );
        file.write_all(script.as_bytes()).with_context(|| policy.display().to_string())?;
        Ok(held)
    }
}

impl Drop for HeldServices {
    fn drop(&mut self) {
        if let Some(policy) = &self.0 {
            // One that stays has no effect after the end of this process.
            let _ = std::fs::remove_file(policy);
        }
    }
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn the_newest_postgresql_version_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("15/bin");
        std::fs::create_dir_all(&bin).unwrap();
        std::fs::write(bin.join("initdb"), "").unwrap();
        assert!(is_installed("initdb", folder.path()));
        assert!(!is_installed("no-such-program", folder.path()));
        assert!(is_installed("sh", Path::new("/no/such/folder")));
    }

    #[test]
    fn services_run_while_a_holder_exists() {
        let folder = tempfile::tempdir().unwrap();
        let policy = folder.path().join("policy-rc.d");
        let answer = || Command::new("sh").arg(&policy).status().unwrap().code();
        {
            let _held = HeldServices::hold(&policy, std::process::id()).unwrap();
            assert_eq!(answer(), Some(101));
            drop(HeldServices::hold(&policy, std::process::id()).unwrap());
            assert_eq!(answer(), Some(101), "another's policy stays");
        }
        assert!(!policy.exists());
        let mut ended = Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        let _held = HeldServices::hold(&policy, ended.id()).unwrap();
        assert_eq!(answer(), Some(0), "one that was left behind holds nothing");
    }
}
