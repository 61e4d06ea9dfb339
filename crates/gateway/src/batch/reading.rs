//! Reads a stored file line by line, with one line and one chunk in memory.

use bytes::BytesMut;
use memchr::memchr;

use gateway_store::database::Database;
use gateway_store::records::files::{self, File};

/// An iterator over lines.
pub(super) struct Lines<'a> {
    database: &'a Database,
    file: &'a File,
    /// Offset of the next chunk.
    at: u64,
    buffer: BytesMut,
    /// Length of the buffer's prefix without a newline.
    searched: usize,
}

impl<'a> Lines<'a> {
    pub(super) fn new(database: &'a Database, file: &'a File) -> Self {
        Self { database, file, at: 0, buffer: BytesMut::new(), searched: 0 }
    }

    /// The next line, without its newline; `None` after the last one.
    ///
    /// # Errors
    /// The store's, or that of a file that was deleted in the meantime.
    pub(super) async fn next(&mut self) -> Result<Option<BytesMut>, gateway_store::Error> {
        loop {
            if let Some(end) = memchr(b'\n', &self.buffer[self.searched..]) {
                let mut line = self.buffer.split_to(self.searched + end + 1);
                line.truncate(line.len() - 1);
                self.searched = 0;
                return Ok(Some(line));
            }
            self.searched = self.buffer.len();
            if self.at >= self.file.bytes {
                self.searched = 0;
                return Ok(Some(self.buffer.split()).filter(|rest| !rest.is_empty()));
            }
            let Some(chunk) = files::read_at(self.database, &self.file.id, self.at).await? else {
                return Err(gateway_store::Error::failed("a file was deleted while it was read"));
            };
            self.at += chunk.len() as u64;
            self.buffer.extend_from_slice(&chunk);
        }
    }
}
