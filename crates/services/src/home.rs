//! The agent's home folder.

use std::path::Path;

/// Creates the agent's home, private to the user: it holds transcripts and credentials.
///
/// # Errors
/// Of the system.
pub fn make_home(home: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(home)
}
