//! Systems on which no layer of ours works: everything is refused, nothing runs unconfined.

use super::{Config, LayerStatus, Spawn};
use crate::error::{Error, ErrorKind};
use crate::process::Process;

/// Refuses to start commands.
#[derive(Debug)]
pub struct Sandbox;

const WHY: &str = "commands can be run on Linux only; run the server there or in a Linux container";

impl Sandbox {
    pub fn new(_config: Config) -> Self {
        Sandbox
    }

    #[allow(clippy::unused_async, reason = "as on Linux")]
    pub async fn spawn(&self, _spawn: Spawn) -> Result<Process, Error> {
        Err(Error::new(ErrorKind::Unavailable, WHY))
    }

    #[allow(clippy::unused_async, reason = "as on Linux")]
    pub async fn prepare(&self) {}

    #[allow(clippy::unused_async, reason = "as on Linux")]
    pub async fn degradation(&self) -> Option<String> {
        Some(WHY.to_owned())
    }

    pub fn is_known_whole(&self) -> bool {
        false
    }

    #[allow(clippy::unused_async, reason = "as on Linux")]
    pub async fn report(&self) -> Vec<LayerStatus> {
        vec![LayerStatus { layer: "namespaces", usable: false, detail: WHY.to_owned() }]
    }
}
