//! Messages that wait on disk because the client reads them more slowly than they are made. They
//! are in unnamed files in a folder that the caller gives; one separate thread reads and writes
//! them.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use bytes::Bytes;

use crate::ingress::Budget;
use crate::queued::Queued;

/// A file of this length gets no more messages, and is removed once it is read.
const FILE_BYTES: u64 = 16 << 20;
/// Before each message: its length and its number of pushes, little-endian.
const HEADER_BYTES: usize = 12;

/// Room on disk that the outboxes of many connections share. A connection never gets more than it
/// leaves free for another.
///
/// A folder that cannot be written to is a spool without room.
pub struct Spool {
    folder: PathBuf,
    room: Arc<Budget>,
    on_failure: Box<dyn Fn(&io::Error) + Send + Sync>,
    /// The channel to the thread, once it exists.
    jobs: Mutex<Option<mpsc::Sender<Box<Job>>>>,
}

impl Spool {
    /// Creates a spool with room for `bytes` bytes in files in `folder`. `on_failure` receives each
    /// disk error.
    pub fn new(
        folder: PathBuf,
        bytes: usize,
        on_failure: impl Fn(&io::Error) + Send + Sync + 'static,
    ) -> Arc<Self> {
        let room = Arc::new(Budget::new(bytes));
        Arc::new(Self { folder, room, on_failure: Box::new(on_failure), jobs: Mutex::default() })
    }

    /// Creates the empty set of files of one connection.
    pub(crate) fn files(self: &Arc<Self>) -> Files {
        Files {
            spool: self.clone(),
            segments: VecDeque::new(),
            charged: 0,
            rest: None,
            broken: false,
        }
    }

    /// Sends a job to the thread.
    ///
    /// # Errors
    /// The result of the job, if the thread cannot be started.
    pub(crate) fn order(job: Box<Job>) -> Result<(), Box<(Files, Done)>> {
        let spool = job.files.spool.clone();
        let mut jobs = spool.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if jobs.is_none() {
            let (sender, receiver) = mpsc::channel::<Box<Job>>();
            let thread = std::thread::Builder::new().name("spool".to_owned());
            match thread.spawn(move || receiver.into_iter().for_each(|job| job.run())) {
                Ok(_) => *jobs = Some(sender),
                Err(error) => return Err(job.fail(error)),
            }
        }
        match jobs.as_ref().and_then(|jobs| jobs.send(job).err()) {
            None => Ok(()),
            Some(refused) => {
                Err(refused.0.fail(io::Error::other("the thread that writes to disk has ended")))
            }
        }
    }
}

/// An operation on the files of one connection.
pub(crate) struct Job {
    pub(crate) files: Files,
    pub(crate) work: Work,
    /// Receives the files back, with the result.
    pub(crate) done: Box<dyn FnOnce(Files, Done) + Send>,
}

pub(crate) enum Work {
    /// Appends these messages, for which room is reserved.
    Write(VecDeque<Queued>),
    /// Reads this many bytes.
    Read(usize),
}

pub(crate) enum Done {
    Written,
    /// The disk is full or has failed; the messages come back.
    NotWritten(VecDeque<Queued>),
    Read(Vec<Queued>),
    NotRead(io::Error),
}

impl Job {
    fn run(mut self) {
        let outcome = match &self.work {
            Work::Write(messages) => self.files.write(messages).map(|()| Done::Written),
            Work::Read(most) => self.files.read(*most).map(Done::Read),
        };
        match outcome {
            Ok(done) => (self.done)(self.files, done),
            Err(error) => {
                let Self { files, work, done } = self;
                let (files, failed) = *files.fail(work, error);
                done(files, failed);
            }
        }
    }

    fn fail(self, error: io::Error) -> Box<(Files, Done)> {
        self.files.fail(self.work, error)
    }
}

/// The messages of one connection that are on disk.
pub(crate) struct Files {
    spool: Arc<Spool>,
    segments: VecDeque<Segment>,
    /// Bytes of the spool's room reserved for the segments, and for the next one.
    charged: usize,
    /// The rest of a message of which a part was read.
    rest: Option<Rest>,
    /// A write failed; existing messages can still be read.
    broken: bool,
}

/// One file. A message never continues in the next.
struct Segment {
    file: File,
    read: u64,
    written: u64,
    charged: usize,
}

#[derive(Clone, Copy)]
struct Rest {
    bytes: u64,
    pushes: u32,
}

impl Files {
    fn fail(mut self, work: Work, error: io::Error) -> Box<(Self, Done)> {
        (self.spool.on_failure)(&error);
        self.broken = true;
        let done = match work {
            Work::Write(messages) => Done::NotWritten(messages),
            Work::Read(_) => Done::NotRead(error),
        };
        Box::new((self, done))
    }

    /// Reserves room for this many bytes of messages; `false` when there is no room.
    pub(crate) fn reserve(&mut self, bytes: usize) -> bool {
        let taken = !self.broken && self.spool.room.take(bytes, self.charged);
        if taken {
            self.charged += bytes;
        }
        taken
    }

    fn write(&mut self, messages: &VecDeque<Queued>) -> io::Result<()> {
        let is_open = |last: &Segment| last.written < FILE_BYTES;
        if !self.segments.back().is_some_and(is_open) {
            let file = tempfile::tempfile_in(&self.spool.folder)?;
            self.segments.push_back(Segment { file, read: 0, written: 0, charged: 0 });
        }
        let Some(segment) = self.segments.back_mut() else { return Ok(()) };
        let mut file = BufWriter::new(&segment.file);
        file.seek(SeekFrom::Start(segment.written))?;
        let (mut length, mut charged) = (0, 0);
        for message in messages {
            file.write_all(&(message.len() as u64).to_le_bytes())?;
            file.write_all(&message.pushes().to_le_bytes())?;
            for part in message.parts() {
                file.write_all(part)?;
            }
            length += (HEADER_BYTES + message.len()) as u64;
            charged += message.len();
        }
        file.flush()?;
        segment.written += length;
        segment.charged += charged;
        Ok(())
    }

    /// Reads about `most` bytes: whole messages, and parts of longer ones.
    fn read(&mut self, most: usize) -> io::Result<Vec<Queued>> {
        let mut read = Vec::new();
        let Some(segment) = self.segments.front_mut() else { return Ok(read) };
        let waiting = usize::try_from(segment.written - segment.read).unwrap_or(most);
        let mut bytes = vec![0; waiting.min(most.max(2 * HEADER_BYTES))];
        (&segment.file).seek(SeekFrom::Start(segment.read))?;
        (&segment.file).read_exact(&mut bytes)?;
        let taken = parse(&Bytes::from(bytes), &mut self.rest, &mut read);
        segment.read += taken as u64;
        if segment.read == segment.written {
            self.drop_first();
        }
        Ok(read)
    }

    fn drop_first(&mut self) {
        if let Some(segment) = self.segments.pop_front() {
            self.charged -= segment.charged;
            self.spool.room.give_back(segment.charged);
        }
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        self.spool.room.give_back(self.charged);
    }
}

/// Splits `bytes` into messages and parts of them; returns how many bytes they use.
fn parse(bytes: &Bytes, rest: &mut Option<Rest>, read: &mut Vec<Queued>) -> usize {
    let mut at = 0;
    loop {
        let (begun, is_new) = match rest.take() {
            Some(begun) => (begun, false),
            None => match header(&bytes[at..]) {
                Some(begun) => {
                    at += HEADER_BYTES;
                    (begun, true)
                }
                None => return at,
            },
        };
        let here = bytes.len() - at;
        let length = usize::try_from(begun.bytes).map_or(here, |length| length.min(here));
        let part = bytes.slice(at..at + length);
        at += length;
        let left = begun.bytes - length as u64;
        if left == 0 && is_new {
            read.push(Queued::whole(part, begun.pushes));
            continue;
        }
        let message = is_new.then_some(begun.bytes);
        read.push(Queued::part(part, message, left == 0, begun.pushes));
        if left > 0 {
            *rest = Some(Rest { bytes: left, ..begun });
            return at;
        }
    }
}

fn header(bytes: &[u8]) -> Option<Rest> {
    let (length, bytes) = bytes.split_first_chunk()?;
    let (pushes, _) = bytes.split_first_chunk()?;
    Some(Rest { bytes: u64::from_le_bytes(*length), pushes: u32::from_le_bytes(*pushes) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(read: &[Queued]) -> Vec<u8> {
        let mut all = Vec::new();
        read.iter().for_each(|queued| queued.append_to(&mut all));
        all
    }

    #[test]
    fn messages_are_read_in_order_and_long_ones_in_parts() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::new(folder.path().to_owned(), 1 << 30, |error| panic!("{error}"));
        let mut files = spool.files();
        let lengths = [1, 5, 3000, 12, 100_000, 7, 40, 2];
        let (mut expected, mut received) = (Vec::<u8>::new(), Vec::new());
        let mut ends = 0;
        for round in 0..20_usize {
            let messages: VecDeque<Queued> = lengths
                .iter()
                .map(|length| {
                    let body = vec![b'a' + (round % 26) as u8; *length];
                    expected.extend(&body);
                    Queued::whole(body.into(), 1)
                })
                .collect();
            assert!(files.reserve(messages.iter().map(Queued::len).sum()));
            files.write(&messages).unwrap();
            for _ in 0..round {
                let read = files.read(1000 + 37 * round).unwrap();
                ends += read.iter().filter(|queued| queued.ends()).count();
                received.extend(text(&read));
            }
        }
        while !files.segments.is_empty() {
            let read = files.read(4096).unwrap();
            ends += read.iter().filter(|queued| queued.ends()).count();
            received.extend(text(&read));
        }
        assert!(received == expected);
        assert_eq!(ends, 20 * lengths.len());
        assert_eq!(files.charged, 0);
        assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none(), "files have no name");
    }

    #[test]
    fn room_is_shared_and_released() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::new(folder.path().to_owned(), 100, |error| panic!("{error}"));
        let (mut first, mut second) = (spool.files(), spool.files());
        assert!(first.reserve(50));
        assert!(!first.reserve(10), "as much is left for another");
        assert!(second.reserve(25));
        drop(first);
        assert!(second.reserve(40));
    }

    #[test]
    fn an_unwritable_folder_has_no_room_and_loses_nothing() {
        let failures = Arc::new(Mutex::new(0));
        let counted = failures.clone();
        let spool =
            Spool::new("/no/such/folder".into(), 100, move |_| *counted.lock().unwrap() += 1);
        let mut files = spool.files();
        assert!(files.reserve(1));
        let messages = VecDeque::from([Queued::whole(Bytes::from_static(b"x"), 1)]);
        let (sender, receiver) = mpsc::channel();
        let done = Box::new(move |files, done| sender.send((files, done)).unwrap());
        assert!(Spool::order(Box::new(Job { files, work: Work::Write(messages), done })).is_ok());
        let (mut files, done) = receiver.recv().unwrap();
        assert!(matches!(done, Done::NotWritten(messages) if messages.len() == 1));
        assert_eq!(*failures.lock().unwrap(), 1);
        assert!(!files.reserve(1));
    }
}
