//! Processes outside of any sandbox (experimental; specification: Process sessions).

use protocol::{
    Empty, ProcessExited, ProcessExitedNotification, ProcessKillParams, ProcessMethods,
    ProcessOutputDelta, ProcessOutputDeltaNotification, ProcessResizePtyParams, ProcessSpawnParams,
    ProcessWriteStdinParams,
};
use sandbox::rules::Invocation;
use sandbox::{Policy, Spawn, Stdin};

use crate::client_processes::{
    self, ClientProcess, ClientProcesses, MethodFamily, ProcessOrder, ProcessRequest,
};
use crate::connection::Cx;
use crate::error::Error;
use crate::handlers::command;
use crate::permitted;
use crate::server::Server;
use crate::thread::environment;

impl ProcessMethods<Cx> for Server {
    /// Answered once the process runs; what it says and its end come as notifications.
    async fn process_spawn(&self, cx: Cx, params: ProcessSpawnParams) -> Result<Empty, Error> {
        // A terminal that nobody sees or types into is of no use.
        let streams = params.stream_stdout_stderr.unwrap_or(true) || params.tty;
        let run = self.spawn_run(&params, streams).await?;
        let name = params.process_handle;
        if name.is_empty() {
            return Err(Error::invalid_params("`processHandle` must not be empty"));
        }
        let can = (params.stream_stdin.unwrap_or(false) || params.tty, params.tty);
        let connection = cx.peer.id;
        let registered = ClientProcesses::register(
            &self.core,
            connection,
            MethodFamily::Process,
            name.clone(),
            can,
        )?;
        cx.begun();
        let session = ClientProcess::start(&self.core, run, Some(registered)).await?;
        let (peer, gate) = (cx.peer.clone(), cx.gate());
        let handle = name.clone();
        let accepted = self.core.client_processes.notifying.accept();
        let task = tokio::spawn(async move {
            let _accepted = accepted;
            gate.opened().await;
            let tell = |stream, delta_base64, cap_reached| {
                peer.notify::<ProcessOutputDelta>(&ProcessOutputDeltaNotification {
                    process_handle: handle.clone(),
                    stream: command::wire_stream(stream),
                    delta_base64,
                    cap_reached,
                });
            };
            // Without a sandbox nothing fails after the start.
            let Ok(ended) = session.follow(&peer, tell).await else { return };
            let [(stdout, stdout_cap_reached), (stderr, stderr_cap_reached)] = ended.kept;
            peer.notify::<ProcessExited>(&ProcessExitedNotification {
                process_handle: handle.clone(),
                exit_code: ended.exit_code,
                stdout,
                stdout_cap_reached,
                stderr,
                stderr_cap_reached,
            });
        });
        self.core.client_processes.follow(
            connection,
            MethodFamily::Process,
            &name,
            task.abort_handle(),
        );
        Ok(Empty {})
    }

    async fn process_write_stdin(
        &self,
        cx: Cx,
        params: ProcessWriteStdinParams,
    ) -> Result<Empty, Error> {
        let input = command::input(params.delta_base64.as_deref(), params.close_stdin)?;
        self.core.client_processes.write(
            cx.peer.id,
            MethodFamily::Process,
            &params.process_handle,
            input,
        )?;
        Ok(Empty {})
    }

    async fn process_resize_pty(
        &self,
        cx: Cx,
        params: ProcessResizePtyParams,
    ) -> Result<Empty, Error> {
        let order = ProcessOrder::Resize(command::size(params.size)?);
        self.core.client_processes.order(
            cx.peer.id,
            MethodFamily::Process,
            &params.process_handle,
            order,
        )?;
        Ok(Empty {})
    }

    async fn process_kill(&self, cx: Cx, params: ProcessKillParams) -> Result<Empty, Error> {
        let order = ProcessOrder::Terminate;
        self.core.client_processes.order(
            cx.peer.id,
            MethodFamily::Process,
            &params.process_handle,
            order,
        )?;
        Ok(Empty {})
    }
}

impl Server {
    async fn spawn_run(
        &self,
        params: &ProcessSpawnParams,
        streams: bool,
    ) -> Result<ProcessRequest, Error> {
        let argv = command::argv(&params.command)?;
        let cwd = self.core.existing_folder(&params.cwd).await?;
        let config = self.core.configuration(&cwd, None).await?.resolved.config;
        let (core, command, folder) = (self.core.clone(), params.command.clone(), cwd.clone());
        let checked = self.core.on_files(&cwd, move || {
            permitted::check_full_access(&core, &config, Invocation::Argv(&command), &folder)
                .map(|()| config)
        });
        let config = checked.await??;
        let spawn = Spawn {
            argv,
            policy: Policy::DangerFullAccess,
            env: command::environment_with(
                environment(&self.core.options, &config),
                params.env.as_ref(),
            )?,
            cwd,
            guarded: Vec::new(),
            tty: command::terminal(params.tty, params.size)?,
            stdin: match params.stream_stdin {
                Some(true) => Stdin::Pipe,
                _ => Stdin::Null,
            },
            egress: None,
        };
        let timeout = command::timeout(params.timeout_ms)?;
        let cap = client_processes::cap(
            params.output_bytes_cap,
            streams && params.output_bytes_cap.is_none(),
        )?;
        Ok(ProcessRequest { spawn, timeout, cap, streams })
    }
}
