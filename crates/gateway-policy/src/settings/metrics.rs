//! `[metrics]`: where the metrics are served, to readers with which token, and how many projects
//! have series of their own.

use std::net::SocketAddr;
use std::path::Path;

use super::Secret;
use super::error::Fault;
use super::file;
use super::secret_file;

/// Most projects with series of their own.
const MOST: u64 = 1000;

/// Settings of the metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// The address of a listener of their own; `None`: they are served with everything else. A
    /// change takes effect after a restart.
    pub listen: Option<SocketAddr>,
    /// The bearer token that readers need.
    pub token: Option<Secret>,
    /// Projects with series of their own; the default is 50. A change takes effect after a restart.
    pub top_projects: usize,
}

impl Metrics {
    /// Also returns a warning about the token's file.
    pub(super) fn resolve(
        written: &file::Metrics,
        folder: &Path,
    ) -> Result<(Self, Option<String>), Fault> {
        let listen = written.listen.as_deref().map(|text| {
            text.parse().map_err(|_| {
                let message =
                    format!("`{text}` must be an address and a port, such as 127.0.0.1:9100");
                Fault::new(&["metrics", "listen"], message)
            })
        });
        let read = |path| secret_file::token(&folder.join(path), &["metrics", "token_file"]);
        let (token, warning) = written.token_file.as_ref().map(read).transpose()?.unzip();
        let top = written.top_projects.unwrap_or(50);
        if top > MOST {
            let message = format!("must be 0 to {MOST}");
            return Err(Fault::new(&["metrics", "top_projects"], message));
        }
        let top_projects = usize::try_from(top).unwrap_or_default();
        Ok((Self { listen: listen.transpose()?, token, top_projects }, warning.flatten()))
    }
}
