//! Starts commands: picks the layer that can enforce a policy on this machine, prepares it, and
//! hands the command to a supervisor. Refuses to run a command with less confinement than its
//! policy demands.

mod interface;

pub use interface::{Config, Degradation, Layer, LayerStatus, Outputs, Spawn, Stdin};

use crate::error::Error;
use crate::process::Process;
use interface::Platform;

/// Starts commands under permission policies. A server has one. Creating it does no work: the first
/// command, or [`Sandbox::report`], finds out which layers work on the machine.
#[derive(Debug)]
pub struct Sandbox {
    platform: ThisPlatform,
}

impl Sandbox {
    pub fn new(config: Config) -> Self {
        Self { platform: ThisPlatform::new(config) }
    }

    /// Starts a command. Must be called in a tokio runtime with I/O and time enabled.
    pub async fn spawn(&self, spawn: Spawn) -> Result<Process, Error> {
        self.platform.spawn(spawn).await
    }

    /// Detects the layers now, so that the first command need not wait for it.
    pub async fn prepare(&self) {
        self.platform.prepare().await;
    }

    /// Which layers work on this machine, and why the others do not. The first call tries them.
    pub async fn report(&self) -> Vec<LayerStatus> {
        self.platform.report().await
    }

    /// Says in words which parts of the sandbox do not work on this machine; `None` when all do. The first call
    /// tries them.
    pub async fn degradation(&self) -> Option<Degradation> {
        self.platform.degradation().await
    }

    /// Returns whether all parts of the sandbox are known to work, which a first look finds out.
    pub fn is_known_whole(&self) -> bool {
        self.platform.is_known_whole()
    }
}

#[cfg(target_os = "linux")]
mod confinement;
#[cfg(target_os = "linux")]
mod launch;
#[cfg(target_os = "linux")]
mod pipes;

#[cfg(target_os = "linux")]
use on_linux::Linux as ThisPlatform;

#[cfg(target_os = "linux")]
#[path = "sandbox/on_linux.rs"]
mod on_linux;

#[cfg(not(target_os = "linux"))]
use elsewhere::Elsewhere as ThisPlatform;

#[cfg(any(not(target_os = "linux"), test))]
#[path = "sandbox/elsewhere.rs"]
mod elsewhere;
