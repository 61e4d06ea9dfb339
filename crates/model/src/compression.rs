//! Compression of requests (`content-encoding: zstd`): a long thread sends its history, which is
//! text, with every request.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

use crate::Provider;

/// Smaller bodies are not worth compressing.
const MIN_BYTES: usize = 4 << 10;
/// Fast, with most of the possible gain.
const LEVEL: i32 = 1;

/// Providers that reject compressed requests: learned from their responses, kept while the process
/// runs.
#[derive(Debug, Default)]
pub(crate) struct Compression {
    refused: Mutex<HashSet<String>>,
}

/// An encoded body.
pub(crate) struct Encoded {
    pub(crate) bytes: Bytes,
    pub(crate) compressed: bool,
}

impl Encoded {
    pub(crate) fn plain(body: &Bytes) -> Self {
        Self { bytes: body.clone(), compressed: false }
    }
}

impl Compression {
    pub(crate) fn encoded(&self, provider: &Provider, body: &Bytes) -> Encoded {
        let wanted = provider.compress_requests && body.len() >= MIN_BYTES;
        if !wanted || self.known().contains(&provider.base_url) {
            return Encoded::plain(body);
        }
        match zstd::bulk::compress(body, LEVEL) {
            Ok(bytes) => Encoded { bytes: bytes.into(), compressed: true },
            Err(_) => Encoded::plain(body),
        }
    }

    pub(crate) fn refused_by(&self, provider: &Provider) {
        self.known().insert(provider.base_url.clone());
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashSet<String>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether a status may mean that the encoding was not understood.
pub(crate) fn may_be_refused(status: Option<u16>) -> bool {
    matches!(status, Some(400 | 415))
}
