//! The services of the program that recording and sending use.

use std::sync::Arc;

use http_client::Network;

use crate::figures::Figures;

/// Nanoseconds since the Unix epoch.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Fills a slice with bytes that do not repeat.
pub type Random = Arc<dyn Fn(&mut [u8]) + Send + Sync>;

/// The services that recording and sending use.
#[derive(Clone)]
pub struct Services {
    pub network: Network,
    pub clock: Clock,
    pub random: Random,
    /// Uniform in 0..1, for waits.
    pub jitter: Arc<dyn Fn() -> f64 + Send + Sync>,
    /// Identifies this program to collectors.
    pub user_agent: String,
    /// Counts what no collector got.
    pub figures: Arc<Figures>,
}
