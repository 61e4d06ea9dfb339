//! Processes outside of any sandbox (experimental; specification: Process sessions).

use protocol::{
    Empty, ProcessExited, ProcessExitedNotification, ProcessKillParams, ProcessMethods,
    ProcessOutputDelta, ProcessOutputDeltaNotification, ProcessResizePtyParams, ProcessSpawnParams,
    ProcessWriteStdinParams,
};
use sandbox::Stdin;
use sandbox::rules::Invocation;

use crate::client_processes::{self, MethodFamily, ProcessOrder, ProcessRequest};
use crate::handlers::command;
use crate::server::Server;
use services::command_checks::check_full_access;
use services::command_environment::command_environment;
use services::command_limits::command_limits;
use services::command_runner::CommandLine;
use services::error::Error;
use services::folders;
use services::peer::Caller;

impl ProcessMethods<Caller> for Server {
    /// Responds once the process runs; its output and its end follow as notifications.
    async fn process_spawn(
        &self,
        caller: Caller,
        params: ProcessSpawnParams,
    ) -> Result<Empty, Error> {
        // A terminal is of use only when it is streamed.
        let streams = params.stream_stdout_stderr.unwrap_or(true) || params.tty;
        let name = params.process_handle.clone();
        if name.is_empty() {
            return Err(Error::invalid_params("`processHandle` must not be empty"));
        }
        let can = (params.stream_stdin.unwrap_or(false) || params.tty, params.tty);
        let connection = caller.peer.id;
        let processes = &self.services.processes;
        let registered =
            processes.register(connection, MethodFamily::Process, name.clone(), can)?;
        // A `process/writeStdin` that follows finds it. From here on the request may wait for files.
        caller.begun();
        let run = self.spawn_run(&params, streams).await?;
        let process = processes.start(run, Some(registered)).await?;
        let (peer, gate) = (caller.peer.clone(), caller.gate());
        let handle = name.clone();
        let accepted = self.services.processes.accept_notification();
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
            let Ok(ended) = process.follow(&peer, tell).await else { return };
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
        self.services.processes.follow(
            connection,
            MethodFamily::Process,
            &name,
            task.abort_handle(),
        );
        Ok(Empty {})
    }

    async fn process_write_stdin(
        &self,
        caller: Caller,
        params: ProcessWriteStdinParams,
    ) -> Result<Empty, Error> {
        let input = command::input(params.delta_base64.as_deref(), params.close_stdin)?;
        self.services.processes.write(
            caller.peer.id,
            MethodFamily::Process,
            &params.process_handle,
            input,
        )?;
        Ok(Empty {})
    }

    async fn process_resize_pty(
        &self,
        caller: Caller,
        params: ProcessResizePtyParams,
    ) -> Result<Empty, Error> {
        let order = ProcessOrder::Resize(command::size(params.size)?);
        self.services.processes.order(
            caller.peer.id,
            MethodFamily::Process,
            &params.process_handle,
            order,
        )?;
        Ok(Empty {})
    }

    async fn process_kill(
        &self,
        caller: Caller,
        params: ProcessKillParams,
    ) -> Result<Empty, Error> {
        let order = ProcessOrder::Terminate;
        self.services.processes.order(
            caller.peer.id,
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
        let cwd = folders::existing_cwd(&self.services.files, &params.cwd).await?;
        let config = self.services.configurations.in_folder(&cwd, None).await?.resolved.config;
        let options = &self.services.options;
        let (rules, own) = (self.services.rules.clone(), options.clone());
        let (argv_text, folder) = (params.command.clone(), cwd.clone());
        let checked = self.services.files.run(&cwd, move || {
            let command = Invocation::Argv(&argv_text);
            let policy = check_full_access(&rules, &own, &config, command, &folder)?;
            Ok::<_, Error>((config, policy))
        });
        let (config, policy) = checked.await??;
        let env = command_environment(options, &config);
        let env = command::environment_with(env, params.env.as_ref())?;
        let policy = policy.confinement(&cwd);
        let command = CommandLine {
            tty: command::terminal(params.tty, params.size)?,
            stdin: match params.stream_stdin {
                Some(true) => Stdin::Pipe,
                _ => Stdin::Null,
            },
            limits: command_limits(&config, None),
            ..CommandLine::new(argv, cwd, env, policy)
        };
        let timeout = command::timeout(params.timeout_ms)?;
        let cap = client_processes::cap(
            params.output_bytes_cap,
            streams && params.output_bytes_cap.is_none(),
        )?;
        Ok(ProcessRequest { command, timeout, cap, streams })
    }
}
