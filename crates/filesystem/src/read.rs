//! Reading of whole files.

use std::path::Path;

use crate::error::Error;

/// Largest file that is read or written in one request: what one message of the protocol can carry.
pub const MAX_FILE_BYTES: u64 = 32 << 20;

/// The contents of the regular file at `path`. Follows symbolic links.
///
/// # Errors
/// The file does not exist, is not regular, is larger than [`MAX_FILE_BYTES`], or cannot be read.
pub fn read(path: &Path) -> Result<Vec<u8>, Error> {
    Ok(files::read(path, MAX_FILE_BYTES)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_regular_file_or_too_large_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), b"\0bytes\xff").unwrap();
        assert_eq!(read(&at("file")).unwrap(), b"\0bytes\xff");
        std::os::unix::fs::symlink("file", at("link")).unwrap();
        assert_eq!(read(&at("link")).unwrap(), b"\0bytes\xff");

        let fifo = rustix::fs::FileType::Fifo;
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, at("fifo"), fifo, mode, 0).unwrap();
        std::os::unix::fs::symlink("circle", at("circle")).unwrap();
        let large = std::fs::File::create(at("large")).unwrap();
        large.set_len(MAX_FILE_BYTES + 1).unwrap();
        for (name, reason) in [
            ("fifo", "not a regular file"),
            ("large", "larger than 32 MiB"),
            ("", "not a regular file"),
            ("missing", "No such file"),
            ("circle", "Too many levels of symbolic links"),
        ] {
            let error = read(&at(name)).unwrap_err().to_string();
            assert!(error.contains(reason), "{name}: {error}");
        }
        assert!(read(Path::new("/dev/zero")).unwrap_err().to_string().contains("device"));
    }
}
