//! The ends of the logs, for a bundle. Their folder may hold anything: only regular files of known names are
//! read, no links are followed, and no more than the end of a file is read.

use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use files::Pool;

/// The end of a log that is kept, in bytes.
const MAX_LOG: u64 = 1 << 20;

/// The logs of a server, newest first, and their names in a bundle.
const LOGS: [(&str, &str); 4] = [
    ("agentd.log", "log/agentd.log"),
    ("agentd.1.log", "log/agentd.1.log"),
    ("agentd.2.log", "log/agentd.2.log"),
    ("agentd.3.log", "log/agentd.3.log"),
];

/// The ends of those that exist; of one that cannot be read, the reason.
pub(super) async fn read(folder: &Path) -> Vec<(&'static str, String)> {
    let pool = Pool::default();
    let mut found = Vec::new();
    for (file, name) in LOGS {
        let path: PathBuf = folder.join(file);
        let of_task = path.clone();
        match pool.run(&path, move || end(&of_task)).await {
            Ok(Ok(text)) => found.push((name, text)),
            Ok(Err(error)) if is_missing(&error) => {}
            Ok(Err(error)) | Err(error) => found.push((name, format!("not read: {error}\n"))),
        }
    }
    found
}

fn is_missing(error: &files::Error) -> bool {
    matches!(error, files::Error::Io { cause, .. } if cause.kind() == std::io::ErrorKind::NotFound)
}

/// The last whole lines of a log.
fn end(path: &Path) -> Result<String, files::Error> {
    let failed = |cause| files::Error::Io { path: path.to_owned(), cause };
    let mut log = files::open_without_links(path)?;
    let length = log.metadata.len();
    let skipped = length.saturating_sub(MAX_LOG);
    log.file.seek(SeekFrom::Start(skipped)).map_err(failed)?;
    let mut bytes = Vec::new();
    // The log may grow meanwhile.
    log.file.take(MAX_LOG).read_to_end(&mut bytes).map_err(failed)?;
    let text = String::from_utf8_lossy(&bytes);
    if skipped == 0 {
        return Ok(text.into_owned());
    }
    // The half of a secret would not be recognized, so the first line is left out.
    let whole = text.find('\n').map_or("", |end| &text[end + 1..]);
    Ok(format!("[{skipped} bytes and the rest of their last line are left out]\n{whole}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_lines_of_the_end_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("agentd.log");
        std::fs::write(&path, "one\ntwo\n").unwrap();
        assert_eq!(end(&path).unwrap(), "one\ntwo\n");
        let line = format!("{}\n", "x".repeat(99));
        std::fs::write(&path, line.repeat(20_000)).unwrap();
        let text = end(&path).unwrap();
        let (first, rest) = text.split_once('\n').unwrap();
        assert!(first.starts_with('[') && rest.lines().all(|one| one.len() == 99), "{first}");
        assert!(rest.len() as u64 <= MAX_LOG);
        std::fs::write(&path, "y".repeat(3 << 20)).unwrap();
        assert_eq!(end(&path).unwrap().lines().count(), 1, "no line is whole");
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn what_is_no_log_is_named_and_not_read() {
        let dir = tempfile::tempdir().unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            dir.path().join("agentd.log"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        std::os::unix::fs::symlink("/etc/passwd", dir.path().join("agentd.1.log")).unwrap();
        std::fs::create_dir(dir.path().join("agentd.2.log")).unwrap();
        let found = read(dir.path()).await;
        let names: Vec<&str> = found.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["log/agentd.log", "log/agentd.1.log", "log/agentd.2.log"]);
        for (name, text) in found {
            assert!(text.starts_with("not read: ") && !text.contains("root:"), "{name}: {text}");
        }
    }
}
