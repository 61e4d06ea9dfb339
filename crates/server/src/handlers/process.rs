//! Processes outside of any sandbox (experimental; specification: Process sessions).

use jsonrpc::ErrorObject;
use protocol::{
    Empty, ProcessExited, ProcessExitedNotification, ProcessKillParams, ProcessMethods,
    ProcessOutputDelta, ProcessOutputDeltaNotification, ProcessResizePtyParams, ProcessSpawnParams,
    ProcessWriteStdinParams,
};
use sandbox::{Policy, Spawn, Stdin};
use session::{Overrides, SandboxPolicy};

use crate::connection::Cx;
use crate::convert::settings::absolute;
use crate::handlers::command;
use crate::required;
use crate::server::Server;
use crate::sessions::{self, Family, Order, Run, Sessions};
use crate::thread::environment;

impl ProcessMethods<Cx> for Server {
    /// Answered once the name is taken; what the process says and its end come as notifications.
    async fn process_spawn(
        &self,
        cx: Cx,
        params: ProcessSpawnParams,
    ) -> Result<Empty, ErrorObject> {
        let streams = params.stream_stdout_stderr.unwrap_or(true);
        let run = self.spawn_run(&params, streams)?;
        let name = params.process_handle;
        if name.is_empty() {
            return Err(ErrorObject::invalid_params("`processHandle` must not be empty"));
        }
        let can = (params.stream_stdin.unwrap_or(false) || params.tty, params.tty);
        let connection = cx.peer.id;
        let registered =
            Sessions::register(&self.core, connection, Family::Process, name.clone(), can)?;
        let (core, peer, gate) = (self.core.clone(), cx.peer.clone(), cx.gate());
        let handle = name.clone();
        let task = tokio::spawn(async move {
            gate.opened().await;
            let tell = |stream, delta_base64, cap_reached| {
                peer.notify::<ProcessOutputDelta>(&ProcessOutputDeltaNotification {
                    process_handle: handle.clone(),
                    stream: command::wire_stream(stream),
                    delta_base64,
                    cap_reached,
                });
            };
            let ended = sessions::run(&core, &peer, run, Some(registered), tell).await;
            // One that could not be started says so as a shell would.
            let (exit_code, kept) = match ended {
                Ok(ended) => (ended.exit_code, ended.kept),
                Err(error) => (127, [(String::new(), false), (error.message, false)]),
            };
            let [(stdout, stdout_cap_reached), (stderr, stderr_cap_reached)] = kept;
            peer.notify::<ProcessExited>(&ProcessExitedNotification {
                process_handle: handle.clone(),
                exit_code,
                stdout,
                stdout_cap_reached,
                stderr,
                stderr_cap_reached,
            });
        });
        self.core.sessions.follow(connection, Family::Process, &name, task.abort_handle());
        cx.begun();
        Ok(Empty {})
    }

    async fn process_write_stdin(
        &self,
        cx: Cx,
        params: ProcessWriteStdinParams,
    ) -> Result<Empty, ErrorObject> {
        let input = command::input(params.delta_base64.as_deref(), params.close_stdin)?;
        self.core.sessions.write(cx.peer.id, Family::Process, &params.process_handle, input)?;
        Ok(Empty {})
    }

    async fn process_resize_pty(
        &self,
        cx: Cx,
        params: ProcessResizePtyParams,
    ) -> Result<Empty, ErrorObject> {
        let order = Order::Resize(command::size(params.size)?);
        self.core.sessions.order(cx.peer.id, Family::Process, &params.process_handle, order)?;
        Ok(Empty {})
    }

    async fn process_kill(&self, cx: Cx, params: ProcessKillParams) -> Result<Empty, ErrorObject> {
        let order = Order::Terminate;
        self.core.sessions.order(cx.peer.id, Family::Process, &params.process_handle, order)?;
        Ok(Empty {})
    }
}

impl Server {
    fn spawn_run(&self, params: &ProcessSpawnParams, streams: bool) -> Result<Run, ErrorObject> {
        let argv = command::argv(&params.command)?;
        let cwd = command::folder(absolute("cwd", &params.cwd)?)?;
        let config = self.core.configuration(&cwd, None)?.resolved.config;
        let full = SandboxPolicy::DangerFullAccess;
        let mut wished = Overrides { sandbox: Some(full), ..Overrides::default() };
        let workspace = &config.sandbox_workspace_write;
        let told = required::constrain(&mut wished, &config.requirements, workspace, &cwd);
        if let Some(told) = told.first() {
            return Err(ErrorObject::invalid_request(format!(
                "processes outside of any sandbox are not allowed: {told}"
            )));
        }
        let spawn = Spawn {
            argv,
            policy: Policy::DangerFullAccess,
            env: command::environment_with(
                environment(&self.core.options, &config),
                params.env.as_ref(),
            )?,
            cwd,
            tty: command::terminal(params.tty, params.size)?,
            stdin: match params.stream_stdin {
                Some(true) => Stdin::Pipe,
                _ => Stdin::Null,
            },
            egress: None,
        };
        let timeout = command::timeout(params.timeout_ms)?;
        let cap =
            sessions::cap(params.output_bytes_cap, streams && params.output_bytes_cap.is_none())?;
        Ok(Run { spawn, timeout, cap, streams })
    }
}
