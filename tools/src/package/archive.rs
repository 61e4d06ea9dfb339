//! Compressed archives that are the same whenever they are made: all files belong to root and have the time
//! of the source.

use std::io::Write;

use anyhow::Result;
use flate2::Compression;
use flate2::write::GzEncoder;
use tar::{EntryType, Header};

/// A tar file in memory.
pub(super) struct Tar {
    builder: tar::Builder<Vec<u8>>,
    time: u64,
}

impl Tar {
    pub(super) fn new(time: u64) -> Tar {
        Tar { builder: tar::Builder::new(Vec::new()), time }
    }

    /// Adds a file; programs have the mode 0o755, others 0o644.
    pub(super) fn file(&mut self, path: &str, mode: u32, bytes: &[u8]) -> Result<()> {
        let mut header = self.header(EntryType::Regular, mode);
        header.set_size(bytes.len() as u64);
        Ok(self.builder.append_data(&mut header, path, bytes)?)
    }

    /// Adds a folder of a user.
    pub(super) fn folder(&mut self, path: &str, mode: u32, owner: u64) -> Result<()> {
        let mut header = self.header(EntryType::Directory, mode);
        header.set_uid(owner);
        header.set_gid(owner);
        Ok(self.builder.append_data(&mut header, path, &[][..])?)
    }

    fn header(&self, kind: EntryType, mode: u32) -> Header {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_mtime(self.time);
        header.set_uid(0);
        header.set_gid(0);
        header.set_size(0);
        header
    }

    pub(super) fn finish(self) -> Result<Vec<u8>> {
        Ok(self.builder.into_inner()?)
    }
}

/// Compressed by gzip, with a level from 1 to 9.
pub(super) fn gzip(bytes: &[u8], level: u32) -> Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(level));
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_files_give_the_same_archive() {
        let archive = || {
            let mut tar = Tar::new(1_700_000_000);
            tar.folder("bin", 0o755, 0).unwrap();
            tar.file("bin/agentd", 0o755, b"program").unwrap();
            gzip(&tar.finish().unwrap(), 9).unwrap()
        };
        assert_eq!(archive(), archive());
        let bytes = archive();
        let mut read = tar::Archive::new(flate2::read::GzDecoder::new(&bytes[..]));
        let entries: Vec<(String, u32)> = read
            .entries()
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let path = entry.path().unwrap().display().to_string();
                (path, entry.header().mode().unwrap())
            })
            .collect();
        assert_eq!(entries, [("bin".to_owned(), 0o755), ("bin/agentd".to_owned(), 0o755)]);
    }
}
