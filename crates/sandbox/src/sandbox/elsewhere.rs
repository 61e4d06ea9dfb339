//! Systems on which no layer of ours works: everything is refused, nothing runs unconfined.

use super::interface::{Config, Degradation, LayerStatus, Platform, Spawn};
use crate::error::{Error, ErrorKind};
use crate::process::Process;

/// Refuses to start commands.
#[derive(Debug)]
pub(crate) struct Elsewhere;

const WHY: &str = "commands can be run on Linux only; run the server there or in a Linux container";

impl Platform for Elsewhere {
    fn new(_: Config) -> Self {
        Self
    }

    async fn spawn(&self, _: Spawn) -> Result<Process, Error> {
        Err(Error::new(ErrorKind::Unavailable, WHY))
    }

    async fn prepare(&self) {}

    async fn degradation(&self) -> Option<Degradation> {
        Some(Degradation {
            warning: WHY.to_owned(),
            for_commands: "No command can run here.".to_owned(),
        })
    }

    fn is_known_whole(&self) -> bool {
        false
    }

    async fn report(&self) -> Vec<LayerStatus> {
        vec![LayerStatus { layer: "namespaces", usable: false, detail: WHY.to_owned() }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Layer, Outputs, Stdin};

    /// Also without confinement: there is nothing that would end the processes of a command.
    #[tokio::test]
    async fn a_system_without_layers_runs_nothing() {
        let config = Config {
            supervisor: crate::THIS_PROGRAM.into(),
            layer: Layer::Auto,
            descriptors: None,
            kept: Vec::new(),
            limits_by: crate::LimitsBy::default(),
        };
        let platform = Elsewhere::new(config);
        for policy in [policy::RootedPolicy::READ_ONLY, policy::RootedPolicy::FULL_ACCESS] {
            let spawn = Spawn {
                argv: vec!["true".into()],
                cwd: "/".into(),
                cwd_is_real: false,
                env: Vec::new(),
                policy,
                guarded: Vec::new(),
                granted: Vec::new(),
                tty: None,
                stdin: Stdin::Null,
                outputs: Outputs::Separate,
                egress: None,
                limits: crate::Limits::default(),
            };
            let error = platform.spawn(spawn).await.expect_err("refused");
            assert_eq!(error.kind(), ErrorKind::Unavailable);
        }
        assert!(platform.degradation().await.is_some() && !platform.is_known_whole());
        platform.prepare().await;
        assert!(platform.report().await.iter().all(|status| !status.usable));
    }
}
