//! A file system that never responds: a FUSE mount whose server reads no request.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Mounted until dropped. Then pending operations on it fail.
pub(crate) struct DeadMount {
    holder: Child,
    pub(crate) path: PathBuf,
}

impl DeadMount {
    /// Mounts on a new folder `path`. `None`, after a message, where this is not permitted.
    #[allow(clippy::print_stderr, reason = "a test that is skipped says so")]
    pub(crate) fn new(path: &Path) -> Option<Self> {
        std::fs::create_dir(path).unwrap();
        // The holder of the descriptor is the file system's server.
        let script = "exec 3<>/dev/fuse && mount -i -t fuse \
             -o fd=3,rootmode=040000,user_id=0,group_id=0 dead \"$0\" && echo mounted && \
             exec sleep 600";
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(path).stdin(Stdio::null());
        let mut holder = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
        if line.trim() != "mounted" {
            holder.wait().unwrap();
            eprintln!("skipped: FUSE file systems cannot be mounted here");
            return None;
        }
        Some(Self { holder, path: path.to_owned() })
    }
}

impl Drop for DeadMount {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
        let _ = Command::new("umount").arg("-l").arg(&self.path).status();
    }
}
