//! Kinds of files that are not regular.

use std::fmt;
use std::fs::FileType;

/// The kind of a file that is not regular.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    Folder,
    Fifo,
    Socket,
    Device,
    /// A symbolic link that is not followed.
    Link,
    /// Made by the kernel, on the file system with this name.
    Kernel(&'static str),
    Other,
}

impl FileKind {
    pub(crate) fn new(kind: FileType) -> Self {
        #[cfg(unix)]
        {
            use std::os::unix::fs::FileTypeExt;
            if kind.is_fifo() {
                return Self::Fifo;
            }
            if kind.is_socket() {
                return Self::Socket;
            }
            if kind.is_char_device() || kind.is_block_device() {
                return Self::Device;
            }
        }
        match () {
            () if kind.is_dir() => Self::Folder,
            () if kind.is_symlink() => Self::Link,
            () => Self::Other,
        }
    }
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Folder => "a folder",
            Self::Fifo => "a named pipe (FIFO)",
            Self::Socket => "a socket",
            Self::Device => "a device",
            Self::Link => "a symbolic link",
            Self::Kernel(name) => {
                return write!(
                    f,
                    "a file that the kernel makes (`{name}`), which can hold secrets of the server"
                );
            }
            Self::Other => "something else",
        })
    }
}
