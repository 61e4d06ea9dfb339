//! Fetches one commit of a git repository, and reads its files as objects.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use sandbox::{Process, Stdin, Stream};
use tokio::time::Instant;

use crate::error::{Error, io_at};
use crate::git::{Git, Repository};
use crate::tree::{self, Bytes, Kind, LeftOut, Listing};

/// Bytes of the list of files. About 150 for each of 10,000, and room for other parts of a repository.
const MAX_LIST: usize = 16 << 20;
/// Bytes of a link's target.
const MAX_TARGET: u64 = 1_024;

/// The revision to fetch.
pub(crate) struct Wanted<'w> {
    pub(crate) url: &'w str,
    pub(crate) ref_name: Option<&'w str>,
    /// The commit that must be found.
    pub(crate) sha: Option<&'w str>,
    /// The folder that becomes the root; the whole repository if empty.
    pub(crate) folder: &'w Path,
    /// Only what is below these; everything if empty.
    pub(crate) sparse: &'w [PathBuf],
    /// True if a link that breaks the rules, a file that is too large, and one whose name is that
    /// of another but for letter case are left out, in place of refusing everything.
    pub(crate) leaves_out: bool,
}

/// A commit's files.
pub(crate) struct Fetched {
    pub(crate) revision: String,
    pub(crate) listing: Listing,
    pub(crate) bytes: Bytes,
    /// Wanted paths at which the commit has other repositories, whose files are not fetched.
    pub(crate) submodules: Vec<PathBuf>,
    /// Links and files that are left out.
    pub(crate) left_out: Vec<LeftOut>,
}

/// Fetches into `work`, an empty folder that the caller deletes.
pub(crate) async fn fetch(git: &Git, wanted: &Wanted<'_>, work: &Path) -> Result<Fetched, Error> {
    let deadline = Instant::now() + git.time_limit;
    let repository = Repository { git, folder: work.to_owned(), url: wanted.url, deadline };
    for name in ["home", "repository"] {
        let path = work.join(name);
        std::fs::create_dir(&path).map_err(io_at(&path))?;
    }
    repository.lay_out(wanted.sha.is_some_and(|sha| sha.len() == 64))?;
    let what = match (wanted.sha, wanted.ref_name) {
        (Some(sha), _) => sha,
        (None, Some(name)) => name,
        (None, None) => "HEAD",
    };
    let mut arguments = vec!["fetch", "--quiet", "--no-tags", "--no-recurse-submodules"];
    arguments.extend([
        "--no-write-commit-graph",
        "--no-auto-gc",
        "--depth=1",
        "--",
        wanted.url,
        what,
    ]);
    repository.run(&arguments, 4096).await?;
    let revision = repository.run(&["rev-parse", "--verify", "FETCH_HEAD^{commit}"], 4096).await?;
    let revision = String::from_utf8_lossy(&revision).trim().to_owned();
    if wanted.sha.is_some_and(|sha| sha != revision) {
        let why = format!("the commit is {revision}, and not the one that is required");
        return Err(Error::git(wanted.url, why));
    }
    let list =
        repository.run(&["ls-tree", "-r", "-l", "-z", "--full-tree", &revision], MAX_LIST).await?;
    let (objects, submodules) = parse_list(&list, wanted)?;
    let (objects, mut left_out) = check_objects(objects, wanted)?;
    let (listing, bytes) = read_objects(&repository, objects, wanted).await?;
    let listing = match wanted.leaves_out {
        true => {
            let (listing, bad_links) = listing.finish_without_bad_links();
            left_out.extend(bad_links);
            listing
        }
        false => listing.finish()?,
    };
    Ok(Fetched { revision, listing, bytes, submodules, left_out })
}

/// A file or link of the commit.
struct Object {
    path: Vec<u8>,
    mode: String,
    id: String,
    size: u64,
}

/// Parses lines of the form `mode type id size<TAB>path<NUL>`; returns files and links, and the paths of
/// submodules.
fn parse_list(list: &[u8], wanted: &Wanted<'_>) -> Result<(Vec<Object>, Vec<PathBuf>), Error> {
    let (mut objects, mut submodules) = (Vec::new(), Vec::new());
    for line in list.split(|byte| *byte == 0).filter(|line| !line.is_empty()) {
        let unexpected = || Error::git(wanted.url, "git listed something that is not understood");
        let tab = line.iter().position(|byte| *byte == b'\t').ok_or_else(unexpected)?;
        let (head, path) = (line.get(..tab), line.get(tab + 1..).unwrap_or_default());
        let Some(path) = wanted.select(path) else { continue };
        let head = String::from_utf8_lossy(head.unwrap_or_default()).into_owned();
        let fields: Vec<&str> = head.split_ascii_whitespace().collect();
        let [mode, kind, id, size] = fields[..] else { return Err(unexpected()) };
        if kind == "commit" {
            submodules.push(PathBuf::from(&*String::from_utf8_lossy(&path)));
        } else {
            let size = size.parse().map_err(|_| unexpected())?;
            objects.push(Object { path, mode: mode.to_owned(), id: id.to_owned(), size });
        }
        if objects.len() + submodules.len() > tree::MAX_FILES {
            let why = format!("there are more than {} files", tree::MAX_FILES);
            return Err(Error::refused(wanted.place(b""), why));
        }
    }
    Ok((objects, submodules))
}

impl Wanted<'_> {
    /// The path below the wanted folder, if it is wanted.
    fn select(&self, path: &[u8]) -> Option<Vec<u8>> {
        let is_wanted = self.sparse.is_empty()
            || self.sparse.iter().any(|part| {
                strip(path, part).is_some_and(|rest| {
                    rest.is_empty() || rest.starts_with(b"/") || part.as_os_str().is_empty()
                })
            });
        let rest = strip(path, self.folder)?;
        // At the top, a leading slash is part of a hostile name, which is refused later.
        let rest = match self.folder.as_os_str().is_empty() {
            true => Some(rest),
            false => rest.strip_prefix(b"/"),
        };
        rest.filter(|_| is_wanted).map(<[u8]>::to_vec)
    }

    fn place(&self, path: &[u8]) -> PathBuf {
        Path::new(self.url).join(self.folder).join(&*String::from_utf8_lossy(path))
    }
}

fn strip<'p>(path: &'p [u8], folder: &Path) -> Option<&'p [u8]> {
    path.strip_prefix(folder.as_os_str().as_encoded_bytes())
}

/// Checks sizes and names before the first object is read. Returns the objects to read, and what is left
/// out.
fn check_objects(
    objects: Vec<Object>,
    wanted: &Wanted<'_>,
) -> Result<(Vec<Object>, Vec<LeftOut>), Error> {
    let mut listing = Listing::new(&Path::new(wanted.url).join(wanted.folder));
    let (mut kept, mut left_out) = (Vec::new(), Vec::new());
    for object in objects {
        let is_link = object.mode == "120000";
        if is_link && object.size > MAX_TARGET {
            return Err(Error::refused(
                wanted.place(&object.path),
                "the link's target is too long",
            ));
        }
        let kind = Kind::File { size: object.size, executable: object.mode == "100755" };
        let why = match wanted.leaves_out {
            true => listing.reason_to_leave_out(&object.path, &kind),
            false => None,
        };
        if let Some(why) = why {
            let path = PathBuf::from(&*String::from_utf8_lossy(&object.path));
            left_out.push(LeftOut { path, why });
            continue;
        }
        listing.add(&object.path, kind)?;
        kept.push(object);
    }
    Ok((kept, left_out))
}

/// The list still has to be finished.
async fn read_objects(
    repository: &Repository<'_>,
    objects: Vec<Object>,
    wanted: &Wanted<'_>,
) -> Result<(Listing, Bytes), Error> {
    let origin = Path::new(wanted.url).join(wanted.folder);
    let mut batch = Batch {
        process: repository.start(&["cat-file", "--batch"], Stdin::Pipe).await?,
        repository,
        buffer: Vec::new(),
    };
    let mut listing = Listing::new(&origin);
    let mut files = HashMap::new();
    for object in &objects {
        let bytes = batch.read(object).await?;
        if object.mode == "120000" {
            let target = String::from_utf8(bytes).map_err(|_| {
                Error::refused(wanted.place(&object.path), "the target of the link is not UTF-8")
            })?;
            listing.add(&object.path, Kind::Link { target })?;
            continue;
        }
        let executable = object.mode == "100755";
        listing.add(&object.path, Kind::File { size: object.size, executable })?;
        files.insert(String::from_utf8_lossy(&object.path).into_owned(), bytes);
    }
    Ok((listing, Bytes::Memory(files)))
}

/// `git cat-file --batch`: one object for each line that it is given.
struct Batch<'b> {
    process: Process,
    repository: &'b Repository<'b>,
    /// Output that was not used yet.
    buffer: Vec<u8>,
}

impl Batch<'_> {
    async fn read(&mut self, object: &Object) -> Result<Vec<u8>, Error> {
        let url = self.repository.url;
        let line = format!("{}\n", object.id);
        let asked = self.process.write_stdin(line.as_bytes()).await;
        asked.map_err(|error| Error::git(url, format!("git reads no further objects: {error}")))?;
        let header = loop {
            match self.buffer.iter().position(|byte| *byte == b'\n') {
                Some(end) => break self.take(end + 1),
                None => self.more().await?,
            }
        };
        let expected = format!("{} blob {}\n", object.id, object.size);
        if header != expected.as_bytes() {
            return Err(Error::git(url, format!("the object {} is missing or damaged", object.id)));
        }
        let size = usize::try_from(object.size).unwrap_or(usize::MAX);
        while self.buffer.len() <= size {
            self.more().await?;
        }
        let mut bytes = self.take(size + 1);
        bytes.pop();
        Ok(bytes)
    }

    fn take(&mut self, count: usize) -> Vec<u8> {
        let rest = self.buffer.split_off(count);
        std::mem::replace(&mut self.buffer, rest)
    }

    async fn more(&mut self) -> Result<(), Error> {
        let Repository { url, deadline, .. } = *self.repository;
        match tokio::time::timeout_at(deadline, self.process.output.recv()).await {
            Ok(Some(chunk)) if chunk.stream == Stream::Stdout => {
                self.buffer.extend_from_slice(&chunk.bytes);
                Ok(())
            }
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err(Error::git(url, "git ended before it had returned all files")),
            Err(_) => Err(Error::git(url, "git did not return the files in time")),
        }
    }
}
