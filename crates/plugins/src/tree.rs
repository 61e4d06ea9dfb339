//! The files of a plugin or marketplace: lists and checks all of them before the first one is written.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use unicode_normalization::UnicodeNormalization;

use crate::beneath;
use crate::error::{Error, io_at};
use crate::installed_file::InstalledFile;

/// Files, links and folders of a plugin.
pub const MAX_FILES: usize = 10_000;
/// Bytes of a plugin.
pub const MAX_BYTES: u64 = 64 << 20;
/// Bytes of a file.
pub const MAX_FILE_BYTES: u64 = 16 << 20;
/// Components of a path.
pub const MAX_DEPTH: usize = 32;
/// Bytes of a component, as file systems have it.
const MAX_COMPONENT: usize = 255;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Folder,
    File {
        size: u64,
        executable: bool,
    },
    /// A symbolic link that leads to a file or folder of the same tree.
    Link {
        target: String,
    },
}

/// Something of a repository that is not fetched. It spoils the plugin that it belongs to, and no other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Relative to the root of the repository.
    pub path: PathBuf,
    /// The fault, as a sentence without a full stop.
    pub why: String,
}

/// A list of files that keeps to the rules. Paths are relative to the root.
#[derive(Debug)]
pub(crate) struct Listing {
    /// Where the files come from, for errors.
    origin: PathBuf,
    entries: BTreeMap<String, Kind>,
    /// The spelling of each path in a file system that ignores letter case and Unicode forms.
    folded: HashMap<String, String>,
    bytes: u64,
}

impl Listing {
    pub(crate) fn new(origin: &Path) -> Self {
        Self {
            origin: origin.to_owned(),
            entries: BTreeMap::new(),
            folded: HashMap::new(),
            bytes: 0,
        }
    }

    pub(crate) fn origin(&self) -> &Path {
        &self.origin
    }

    /// Adds an entry, and its parents.
    pub(crate) fn add(&mut self, path: &[u8], kind: Kind) -> Result<(), Error> {
        let Ok(path) = std::str::from_utf8(path) else {
            let shown = String::from_utf8_lossy(path).into_owned();
            return Err(self.refused(&shown, "the name is not UTF-8"));
        };
        let components: Vec<&str> = path.split('/').collect();
        if components.len() > MAX_DEPTH {
            return Err(self.refused(path, &format!("it is more than {MAX_DEPTH} folders deep")));
        }
        for component in &components {
            check_component(component).map_err(|why| self.refused(path, why))?;
        }
        for (at, _) in path.match_indices('/') {
            let parent = path.get(..at).unwrap_or_default();
            match self.entries.get(parent) {
                Some(Kind::Folder) => {}
                Some(_) => return Err(self.refused(path, "its folder is also a file or link")),
                None => self.insert(parent, Kind::Folder)?,
            }
        }
        self.insert(path, kind)
    }

    /// Why this entry alone can be left out of a tree, if it must: it is too large, or its name is that of
    /// an entry before it in a file system that ignores letter case.
    pub(crate) fn reason_to_leave_out(&self, path: &[u8], kind: &Kind) -> Option<String> {
        if let Kind::File { size, .. } = kind
            && *size > MAX_FILE_BYTES
        {
            return Some(too_large());
        }
        let path = std::str::from_utf8(path).ok()?;
        let parents = path.match_indices('/').filter_map(|(at, _)| path.get(..at));
        parents.chain([path]).find_map(|path| {
            let other = self.folded.get(&folded(path)).filter(|other| *other != path)?;
            Some(collides(other))
        })
    }

    fn insert(&mut self, path: &str, kind: Kind) -> Result<(), Error> {
        if self.entries.get(path) == Some(&Kind::Folder) && kind == Kind::Folder {
            return Ok(());
        }
        if self.entries.len() >= MAX_FILES {
            return Err(self.refused(path, &format!("there are more than {MAX_FILES} files")));
        }
        if let Kind::File { size, .. } = kind {
            if size > MAX_FILE_BYTES {
                return Err(self.refused(path, &too_large()));
            }
            self.bytes += size;
            if self.bytes > MAX_BYTES {
                let why = format!("all files together are larger than {} MiB", MAX_BYTES >> 20);
                return Err(self.refused(path, &why));
            }
        }
        if let Some(other) = self.folded.insert(folded(path), path.to_owned()) {
            return Err(self.refused(path, &collides(&other)));
        }
        self.entries.insert(path.to_owned(), kind);
        Ok(())
    }

    /// Checks the links, when everything has been added.
    pub(crate) fn finish(self) -> Result<Self, Error> {
        match self.bad_links().into_iter().next() {
            Some(LeftOut { path, why }) => Err(self.refused(&path.to_string_lossy(), &why)),
            None => Ok(self),
        }
    }

    /// As [`Listing::finish`], but takes out the links that break the rules, and returns them.
    pub(crate) fn finish_without_bad_links(mut self) -> (Self, Vec<LeftOut>) {
        let bad = self.bad_links();
        for LeftOut { path, .. } in &bad {
            self.entries.remove(&*path.to_string_lossy());
        }
        (self, bad)
    }

    fn bad_links(&self) -> Vec<LeftOut> {
        let links = self.entries.iter().filter_map(|(path, kind)| match kind {
            Kind::Link { target } => Some((path, target)),
            Kind::Folder | Kind::File { .. } => None,
        });
        let bad = links.filter_map(|(path, target)| {
            let why = self.check_link(path, target).err()?;
            let why = format!("the symbolic link to `{}` {why}", visible::exact(target));
            Some(LeftOut { path: path.into(), why })
        });
        bad.collect()
    }

    /// Resolved against the list alone, so that it does not matter what exists elsewhere.
    fn check_link(&self, path: &str, target: &str) -> Result<(), &'static str> {
        if target.is_empty() || target.len() > 1_024 || target.contains('\0') {
            return Err("has no usable target");
        }
        if target.starts_with('/') {
            return Err("is absolute");
        }
        let mut reached: Vec<&str> = path.split('/').collect();
        reached.pop();
        for component in target.split('/') {
            match component {
                "" | "." => {}
                ".." => {
                    reached.pop().ok_or("leads out of the folder")?;
                }
                name => reached.push(name),
            }
            if let Some(Kind::Link { .. }) = self.entries.get(&reached.join("/")) {
                return Err("leads through another link");
            }
        }
        let reached = reached.join("/");
        match self.entries.get(&reached) {
            _ if reached.is_empty() || path.starts_with(&format!("{reached}/")) => {
                Err("leads to a folder that it is in")
            }
            None => Err("leads to nothing"),
            Some(_) => Ok(()),
        }
    }

    pub(crate) fn refused(&self, path: &str, why: &str) -> Error {
        Error::refused(self.origin.join(path), why)
    }
}

fn too_large() -> String {
    format!("it is larger than {} MiB", MAX_FILE_BYTES >> 20)
}

fn collides(other: &str) -> String {
    format!(
        "its name differs from `{}` only in letter case or Unicode form, or not at all",
        visible::exact(other)
    )
}

/// The spelling of a path in a file system that ignores letter case and Unicode forms.
fn folded(path: &str) -> String {
    path.nfkc().flat_map(char::to_lowercase).nfkc().collect()
}

fn check_component(name: &str) -> Result<(), &'static str> {
    if matches!(name, "" | "." | "..") {
        return Err("the path has an empty component, `.` or `..`");
    }
    if name.len() > MAX_COMPONENT {
        return Err("the name is longer than 255 bytes");
    }
    if name.chars().any(|c| c.is_control() || visible::is_hidden(c)) {
        return Err("the name has control characters or characters that are not visible");
    }
    if name.contains('\\') {
        return Err("the name has a backslash");
    }
    // HFS+ ignores some characters, which are refused above; NTFS ends names at dots and spaces.
    let plain = name.trim_end_matches(['.', ' ']);
    if plain.eq_ignore_ascii_case(".git") || plain.eq_ignore_ascii_case("git~1") {
        return Err("it belongs to a repository of git, which plugins cannot contain");
    }
    Ok(())
}

/// Lists a folder. Follows no link and opens nothing but folders. A `.git` at the top is left out.
pub(crate) fn list(folder: BorrowedFd<'_>, origin: &Path) -> Result<Listing, Error> {
    let mut walk = Walk { listing: Listing::new(origin), links: HashMap::new() };
    walk.folder(folder, "")?;
    for ((..), (path, wanted, found)) in &walk.links {
        if found < wanted {
            return Err(walk
                .listing
                .refused(path, "it is a hard link to a file outside of the folder"));
        }
    }
    walk.listing.finish()
}

struct Walk {
    listing: Listing,
    /// Files with several names, by device and number: a path, the names that exist, and that were found.
    links: HashMap<(u64, u64), (String, u64, u64)>,
}

impl Walk {
    fn folder(&mut self, folder: BorrowedFd<'_>, path: &str) -> Result<(), Error> {
        let place = self.listing.origin.join(path);
        let mut names = Vec::new();
        for entry in Dir::read_from(folder).map_err(io_at(&place))? {
            let name = entry.map_err(io_at(&place))?.file_name().to_owned();
            let is_repository = path.is_empty() && name.to_bytes() == b".git";
            if matches!(name.to_bytes(), b"." | b"..") || is_repository {
                continue;
            }
            if names.len() >= MAX_FILES {
                let why = format!("there are more than {MAX_FILES} files");
                return Err(self.listing.refused(path, &why));
            }
            names.push(name);
        }
        names.sort();
        for name in names {
            let mut full = path.as_bytes().to_vec();
            if !path.is_empty() {
                full.push(b'/');
            }
            full.extend_from_slice(name.to_bytes());
            self.entry(folder, &name, &full)?;
        }
        Ok(())
    }

    fn entry(
        &mut self,
        folder: BorrowedFd<'_>,
        name: &std::ffi::CStr,
        path: &[u8],
    ) -> Result<(), Error> {
        let shown = String::from_utf8_lossy(path).into_owned();
        let place = self.listing.origin.join(&shown);
        let stat =
            rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).map_err(io_at(&place))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                self.listing.add(path, Kind::Folder)?;
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let opened = rustix::fs::openat(folder, name, flags, Mode::empty())
                    .map_err(io_at(&place))?;
                self.folder(opened.as_fd(), &shown)
            }
            FileType::RegularFile => {
                if stat.st_nlink > 1 {
                    #[allow(clippy::unnecessary_cast, reason = "the width depends on the system")]
                    let links = stat.st_nlink as u64;
                    let seen = (stat.st_dev, stat.st_ino);
                    self.links.entry(seen).or_insert((shown, links, 0)).2 += 1;
                }
                let size = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
                let executable = stat.st_mode & 0o100 != 0;
                self.listing.add(path, Kind::File { size, executable })
            }
            FileType::Symlink => {
                let target =
                    rustix::fs::readlinkat(folder, name, Vec::new()).map_err(io_at(&place))?;
                let Ok(target) = target.into_string() else {
                    return Err(self
                        .listing
                        .refused(&shown, "the target of the link is not UTF-8"));
                };
                self.listing.add(path, Kind::Link { target })
            }
            FileType::Fifo => Err(self.listing.refused(&shown, "it is a named pipe (FIFO)")),
            FileType::Socket => Err(self.listing.refused(&shown, "it is a socket")),
            _ => Err(self.listing.refused(&shown, "it is a device")),
        }
    }
}

/// Where the contents of listed files are.
pub(crate) enum Bytes {
    Folder(OwnedFd),
    Memory(HashMap<String, Vec<u8>>),
}

/// Writes the files to `target`, an empty folder of this program, and returns what was written. Durable
/// when it returns.
pub(crate) fn write(
    listing: &Listing,
    bytes: &Bytes,
    target: &Path,
) -> Result<Vec<InstalledFile>, Error> {
    let mut written = Vec::new();
    for (path, kind) in &listing.entries {
        let to = target.join(path);
        let (sha256, size, executable, link) = match kind {
            Kind::Folder => {
                std::fs::create_dir(&to).map_err(io_at(&to))?;
                continue;
            }
            Kind::File { size, executable } => {
                let sha256 = write_file(listing, bytes, path, *size, *executable, &to)?;
                (sha256, *size, *executable, None)
            }
            Kind::Link { target } => {
                rustix::fs::symlink(target.as_str(), &to).map_err(io_at(&to))?;
                let sha256 = const_hex::encode(Sha256::digest(target));
                (sha256, target.len() as u64, false, Some(target.clone()))
            }
        };
        written.push(InstalledFile { path: path.into(), sha256, size, executable, link });
    }
    sync(target)?;
    Ok(written)
}

/// Writes a further file to a folder of [`write`]. Follows no link of that folder. Durable when it returns.
pub(crate) fn add_file(
    target: &Path,
    path: &Path,
    contents: &[u8],
) -> Result<InstalledFile, Error> {
    let place = target.join(path);
    let parent = path.parent().unwrap_or(Path::new(""));
    let opened = beneath::open_folder(target)?;
    match rustix::fs::mkdirat(&opened, parent, Mode::from_raw_mode(0o700)) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => {}
        Err(error) => return Err(io_at(&place)(std::io::Error::from(error))),
    }
    let folder = beneath::subfolder(opened.as_fd(), parent).map_err(io_at(&place))?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let name = path.file_name().unwrap_or_default();
    let opened = rustix::fs::openat(&folder, name, flags, Mode::from_raw_mode(0o600));
    let mut file = File::from(opened.map_err(io_at(&place))?);
    file.write_all(contents).map_err(io_at(&place))?;
    sync(target)?;
    let (sha256, size) = (const_hex::encode(Sha256::digest(contents)), contents.len() as u64);
    Ok(InstalledFile { path: path.to_owned(), sha256, size, executable: false, link: None })
}

fn write_file(
    listing: &Listing,
    bytes: &Bytes,
    path: &str,
    size: u64,
    executable: bool,
    to: &Path,
) -> Result<String, Error> {
    let mut reader: Box<dyn Read + '_> = match bytes {
        Bytes::Memory(files) => Box::new(files.get(path).map(Vec::as_slice).unwrap_or_default()),
        Bytes::Folder(folder) => {
            let from = listing.origin.join(path);
            Box::new(beneath::file(folder.as_fd(), Path::new(path)).map_err(io_at(&from))?)
        }
    };
    let mode = Mode::from_raw_mode(if executable { 0o700 } else { 0o600 });
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::open(to, flags, mode).map_err(io_at(to))?);
    let (mut digest, mut copied, mut buffer) = (Sha256::new(), 0_u64, vec![0; 64 << 10]);
    loop {
        let read = reader.read(&mut buffer).map_err(io_at(&listing.origin.join(path)))?;
        let piece = buffer.get(..read).unwrap_or_default();
        copied += read as u64;
        if piece.is_empty() || copied > size {
            break;
        }
        digest.update(piece);
        file.write_all(piece).map_err(io_at(to))?;
    }
    if copied != size {
        return Err(listing.refused(path, "it changed while it was copied; try again"));
    }
    Ok(const_hex::encode(digest.finalize()))
}

/// Returns the files that are in a folder now.
pub(crate) fn examine(folder: &Path) -> Result<Vec<InstalledFile>, Error> {
    let opened = beneath::open_folder(folder)?;
    let listing = list(opened.as_fd(), folder)?;
    let mut found = Vec::new();
    for (path, kind) in &listing.entries {
        let (sha256, size, executable, link) = match kind {
            Kind::Folder => continue,
            Kind::Link { target } => {
                let sha256 = const_hex::encode(Sha256::digest(target));
                (sha256, target.len() as u64, false, Some(target.clone()))
            }
            Kind::File { executable, .. } => {
                let place = folder.join(path);
                let file = beneath::file(opened.as_fd(), Path::new(path)).map_err(io_at(&place))?;
                let mut digest = Sha256::new();
                let mut file = file.take(MAX_FILE_BYTES + 1);
                let size = std::io::copy(&mut file, &mut digest).map_err(io_at(&place))?;
                (const_hex::encode(digest.finalize()), size, *executable, None)
            }
        };
        found.push(InstalledFile { path: path.into(), sha256, size, executable, link });
    }
    Ok(found)
}

/// One call for all files of the file system: a call for each would take seconds for thousands.
pub(crate) fn sync(folder: &Path) -> Result<(), Error> {
    let opened = beneath::open_folder(folder)?;
    #[cfg(target_os = "linux")]
    return rustix::fs::syncfs(&opened).map_err(io_at(folder));
    #[cfg(not(target_os = "linux"))]
    {
        rustix::fs::sync();
        rustix::fs::fsync(&opened).map_err(io_at(folder))
    }
}

#[cfg(test)]
#[path = "tree/tests.rs"]
mod tests;
