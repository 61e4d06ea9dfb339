//! Finds the images of messages: examines files by their first bytes, and puts the image of the clipboard
//! into a private file. Bytes and times are bounded.

mod clipboard;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use protocol::UserInput;

use crate::image::{FoundImage, ImageSource, NoImage};

/// Largest file that the server takes, in bytes.
const MAX_BYTES: u64 = 20 << 20;
/// Bytes at the beginning in which width and height are looked for.
const START_BYTES: u64 = 256 << 10;
/// Time limit of a file system: text that is typed after a pasted path waits for it.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time for which an image of the clipboard stays that an unsent message of an earlier session has.
const MAX_AGE: Duration = Duration::from_secs(30 * 24 * 3_600);

/// A finder of images for messages.
#[derive(Clone, Debug)]
pub(crate) struct ImageFiles {
    pool: files::Pool,
    /// For images of the clipboard.
    folder: PathBuf,
    created: Arc<Mutex<Vec<PathBuf>>>,
}

impl ImageFiles {
    /// Images of the clipboard are stored in `folder`, which is created when it is needed.
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { pool: files::Pool::default(), folder, created: Arc::default() }
    }

    /// The image, if there is one that can be sent.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) async fn find(&self, source: &ImageSource) -> Result<FoundImage, NoImage> {
        match source {
            ImageSource::Pasted { path, .. } | ImageSource::Named(path) => {
                let work = path.clone();
                let found = self.pool.run_within(PATIENCE, path, move || examine(&work)).await;
                found.unwrap_or_else(|error| Err(NoImage::Because(error.to_string())))
            }
            ImageSource::Clipboard => {
                let bytes = clipboard::read(MAX_BYTES).await?;
                let files = self.clone();
                let stored = self.pool.run(&self.folder, move || files.store(&bytes)).await;
                stored.unwrap_or_else(|error| Err(NoImage::Because(error.to_string())))
            }
        }
    }

    /// Puts the images of a message into it, in the place of their paths: a server that runs elsewhere may
    /// not have these files.
    ///
    /// # Errors
    /// Which one cannot be read, and why.
    pub(crate) async fn embed(&self, input: &mut [UserInput]) -> Result<(), String> {
        for part in input {
            let UserInput::LocalImage { path } = part else { continue };
            let path = PathBuf::from(path.as_str());
            let work = path.clone();
            let read = self.pool.run_within(PATIENCE, &path, move || data_url(&work)).await;
            let url = read.map_err(|error| error.to_string()).flatten();
            let url = url.map_err(|why| format!("{}: {why}", path.display()))?;
            *part = UserInput::Image { url };
        }
        Ok(())
    }

    fn store(&self, bytes: &[u8]) -> Result<FoundImage, NoImage> {
        let because = |what: String| NoImage::Because(format!("the clipboard's image: {what}"));
        let kind = images::kind_of(bytes).map_err(|error| because(error.to_string()))?;
        let size = size(bytes).map_err(because)?;
        let suffix = kind.media_type().replace("image/", ".");
        let store = || -> io::Result<PathBuf> {
            std::fs::create_dir_all(&self.folder)?;
            // Readable by the user alone.
            let mut file = tempfile::Builder::new()
                .prefix("clipboard-")
                .suffix(&suffix)
                .tempfile_in(&self.folder)?;
            file.write_all(bytes)?;
            Ok(file.keep()?.1)
        };
        let path =
            store().map_err(|error| because(format!("{}: {error}", self.folder.display())))?;
        self.created.lock().unwrap_or_else(PoisonError::into_inner).push(path.clone());
        Ok(FoundImage { path, size })
    }

    /// Deletes the images of this session's clipboard but for those in `used`.
    pub(crate) fn remove_unused(&self, used: &[PathBuf]) {
        let created =
            std::mem::take(&mut *self.created.lock().unwrap_or_else(PoisonError::into_inner));
        created.iter().filter(|path| !used.contains(path)).for_each(|path| remove(path));
    }

    /// Deletes images that messages of earlier sessions had, when they are old.
    pub(crate) fn remove_old(&self) {
        let Ok(entries) = std::fs::read_dir(&self.folder) else { return };
        for entry in entries.flatten() {
            let age = entry.metadata().and_then(|it| it.modified()).map(|at| at.elapsed());
            if matches!(age, Ok(Ok(age)) if age > MAX_AGE) {
                remove(&entry.path());
            }
        }
    }
}

fn data_url(path: &Path) -> Result<String, String> {
    let bytes = files::read(path, MAX_BYTES).map_err(|error| error.to_string())?;
    let kind = images::kind_of(&bytes).map_err(|error| error.to_string())?;
    let data = base64::engine::general_purpose::STANDARD.encode(&bytes);
    Ok(format!("data:{};base64,{data}", kind.media_type()))
}

fn remove(path: &Path) {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(target: "tui", "{}: {error}", path.display());
        }
        _ => {}
    }
}

fn examine(path: &Path) -> Result<FoundImage, NoImage> {
    let because = |what: String| NoImage::Because(format!("{}: {what}", path.display()));
    let start = files::open(path).and_then(|opened| {
        let length = opened.metadata.len();
        opened.start(path, START_BYTES).map(|start| (start, length))
    });
    let (start, length) = start.map_err(|error| match error.is_not_found() {
        true => NoImage::Missing,
        false => NoImage::Because(error.to_string()),
    })?;
    if length > MAX_BYTES {
        return Err(because(format!("an image may have at most {} MiB", MAX_BYTES >> 20)));
    }
    images::kind_of(&start).map_err(|error| because(error.to_string()))?;
    Ok(FoundImage { path: path.to_owned(), size: size(&start).map_err(because)? })
}

/// Width and height where the beginning says them. The server reads all of it.
fn size(start: &[u8]) -> Result<Option<(u32, u32)>, String> {
    let Ok((width, height)) = images::size_of_start(start) else { return Ok(None) };
    if u64::from(width) * u64::from(height) > images::MAX_PIXELS {
        return Err(images::Error::TooManyPixels { width, height }.to_string());
    }
    Ok(Some((width, height)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A PNG of 3 × 2 pixels up to its header.
    const PNG: &[u8] =
        b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x03\0\0\0\x02\x08\x02\0\0\0\x12\x16\xf1M";

    fn named(path: &Path) -> ImageSource {
        ImageSource::Named(path.to_owned())
    }

    #[tokio::test]
    async fn only_images_that_can_be_sent_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let files = ImageFiles::new(folder.path().join("images"));
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("a.png"), PNG).unwrap();
        let found = files.find(&named(&path("a.png"))).await.unwrap();
        assert_eq!(found.path, path("a.png"));

        std::fs::write(path("text.png"), "not an image").unwrap();
        let big = std::fs::File::create(path("big.png")).unwrap();
        (&big).write_all(PNG).unwrap();
        big.set_len(10 << 30).unwrap();
        let fifo = path("fifo.png");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).unwrap();
        std::os::unix::fs::symlink(&fifo, path("link.png")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", path("zero.png")).unwrap();
        std::fs::create_dir(path("folder.png")).unwrap();
        for (name, reason) in [
            ("text.png", "not a PNG, JPEG, GIF or WebP image"),
            ("big.png", "at most 20 MiB"),
            ("fifo.png", "not a regular file"),
            ("link.png", "not a regular file"),
            ("zero.png", "not a regular file"),
            ("folder.png", "not a regular file"),
        ] {
            match files.find(&named(&path(name))).await {
                Err(NoImage::Because(why)) => {
                    assert!(why.contains(reason) && why.contains(name), "{why}");
                }
                other => panic!("{name}: {other:?}"),
            }
        }
        assert_eq!(files.find(&named(&path("none.png"))).await, Err(NoImage::Missing));
        let below_file = path("a.png").join("b.png");
        assert_eq!(files.find(&named(&below_file)).await, Err(NoImage::Missing));
    }

    #[tokio::test]
    async fn a_message_for_a_server_elsewhere_has_the_images_themselves() {
        let folder = tempfile::tempdir().unwrap();
        let files = ImageFiles::new(folder.path().join("images"));
        let path = folder.path().join("a.png");
        std::fs::write(&path, PNG).unwrap();
        let text = UserInput::from("see");
        let local = |path: &Path| UserInput::LocalImage { path: path.to_str().unwrap().to_owned() };
        let mut input = [local(&path), text.clone()];
        files.embed(&mut input).await.unwrap();
        let data = base64::engine::general_purpose::STANDARD.encode(PNG);
        let image = UserInput::Image { url: format!("data:image/png;base64,{data}") };
        assert_eq!(input, [image, text]);
        let mut input = [local(&folder.path().join("none.png"))];
        let why = files.embed(&mut input).await.unwrap_err();
        assert!(why.contains("none.png"), "{why}");
    }

    #[test]
    fn images_of_the_clipboard_are_private_and_live_as_long_as_messages_have_them() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let files = ImageFiles::new(folder.path().join("images"));
        let kept = files.store(PNG).unwrap().path;
        let unused = files.store(PNG).unwrap().path;
        assert_eq!(kept.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        files.remove_unused(std::slice::from_ref(&kept));
        assert!(kept.exists() && !unused.exists());
        files.remove_old();
        assert!(kept.exists());
        assert!(files.store(b"<svg>").is_err());
    }
}
