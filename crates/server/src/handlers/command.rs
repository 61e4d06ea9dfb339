//! Commands without a thread (specification: Command execution).

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use protocol::command::{OutputStream, TerminalSize};
use protocol::permission::{
    FileSystemAccessMode, FileSystemPath, FileSystemPermissions, FileSystemSpecialPath,
    PermissionProfile,
};
use protocol::{
    CommandExecOutputDelta, CommandExecOutputDeltaNotification, CommandExecParams,
    CommandExecResizeParams, CommandExecResponse, CommandExecTerminateParams,
    CommandExecWriteParams, CommandMethods, Empty,
};
use sandbox::rules::Invocation;
use sandbox::{Size, Spawn, Stdin, Stream};
use session::{Access, Overrides, SandboxPolicy};

use crate::client_processes::{
    self, ClientProcess, ClientProcesses, MethodFamily, ProcessOrder, ProcessRequest, StdinChunk,
};
use crate::connection::Cx;
use crate::convert::settings::{absolute, confinement, sandbox};
use crate::egress::managed;
use crate::error::Error;
use crate::server::Server;
use crate::thread::environment;
use crate::{loading, permitted, required, warnings};

/// How long a command may run when the client does not say.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
/// Size of a terminal when the client does not say.
const DEFAULT_SIZE: Size = Size { rows: 24, cols: 80 };

impl CommandMethods<Cx> for Server {
    async fn command_exec(
        &self,
        cx: Cx,
        params: CommandExecParams,
    ) -> Result<CommandExecResponse, Error> {
        let name = params.process_id.clone();
        let run = self.exec_run(&cx, &params).await?;
        if name.is_none() && (params.tty || params.stream_stdin || params.stream_stdout_stderr) {
            let message =
                "`processId` is needed with `tty`, `streamStdin` and `streamStdoutStderr`";
            return Err(Error::invalid_params(message));
        }
        let can = (params.stream_stdin || params.tty, params.tty);
        let registered = name.clone().map(|name| {
            ClientProcesses::register(&self.core, cx.peer.id, MethodFamily::Command, name, can)
        });
        let registered = registered.transpose()?;
        cx.begun();
        let peer = cx.peer.clone();
        let tell = |stream, delta_base64, cap_reached| {
            let params = CommandExecOutputDeltaNotification {
                process_id: name.clone().unwrap_or_default(),
                stream: wire_stream(stream),
                delta_base64,
                cap_reached,
            };
            peer.notify::<CommandExecOutputDelta>(&params);
        };
        let session = ClientProcess::start(&self.core, run, registered).await?;
        let ended = session.follow(&cx.peer, tell).await?;
        if ended.is_cut {
            return Err(Error::failed(
                "the server is shutting down: the command was killed before it ended",
            ));
        }
        let [(stdout, _), (stderr, _)] = ended.kept;
        Ok(CommandExecResponse { exit_code: ended.exit_code, stdout, stderr })
    }

    async fn command_exec_write(
        &self,
        cx: Cx,
        params: CommandExecWriteParams,
    ) -> Result<Empty, Error> {
        let input = input(params.delta_base64.as_deref(), params.close_stdin)?;
        self.core.client_processes.write(
            cx.peer.id,
            MethodFamily::Command,
            &params.process_id,
            input,
        )?;
        Ok(Empty {})
    }

    async fn command_exec_resize(
        &self,
        cx: Cx,
        params: CommandExecResizeParams,
    ) -> Result<Empty, Error> {
        let order = ProcessOrder::Resize(size(params.size)?);
        self.core.client_processes.order(
            cx.peer.id,
            MethodFamily::Command,
            &params.process_id,
            order,
        )?;
        Ok(Empty {})
    }

    async fn command_exec_terminate(
        &self,
        cx: Cx,
        params: CommandExecTerminateParams,
    ) -> Result<Empty, Error> {
        let order = ProcessOrder::Terminate;
        self.core.client_processes.order(
            cx.peer.id,
            MethodFamily::Command,
            &params.process_id,
            order,
        )?;
        Ok(Empty {})
    }
}

impl Server {
    async fn exec_run(&self, cx: &Cx, params: &CommandExecParams) -> Result<ProcessRequest, Error> {
        let options = &self.core.options;
        let argv = argv(&params.command)?;
        let cwd =
            params.cwd.as_deref().map_or_else(|| options.cwd.clone(), |cwd| options.cwd.join(cwd));
        let cwd = self.core.folder(cwd).await?;
        let timeout = match (params.timeout_ms, params.disable_timeout) {
            (Some(_), true) => {
                return Err(Error::exclusive("timeoutMs", "disableTimeout"));
            }
            (None, true) => None,
            (given, false) => Some(timeout(given)?.unwrap_or(DEFAULT_TIMEOUT)),
        };
        let config = self.core.configuration(&cwd, None).await?.resolved.config;
        let chosen = match (&params.sandbox_policy, &params.permission_profile) {
            (Some(_), Some(_)) => {
                return Err(Error::exclusive("sandboxPolicy", "permissionProfile"));
            }
            (Some(policy), None) => sandbox(policy)?,
            (None, Some(profile)) => self.profile(profile, &config)?,
            (None, None) => loading::configured(&self.core, &config, &cwd).sandbox,
        };
        let mut wished = Overrides { sandbox: Some(chosen), ..Overrides::default() };
        let workspace = &config.sandbox_workspace_write;
        for told in required::constrain(&mut wished, &config.requirements, workspace, &cwd) {
            warnings::tell_plain(&cx.peer, told);
        }
        let chosen = wished.sandbox.unwrap_or(SandboxPolicy::DangerFullAccess);
        let (core, command, folder) = (self.core.clone(), params.command.clone(), cwd.clone());
        let checked = self.core.on_files(&cwd, move || {
            let invocation = Invocation::Argv(&command);
            permitted::check_rules(&core, &config, invocation, &chosen, &folder)
                .map(|()| (config, chosen))
        });
        let (config, chosen) = checked.await??;
        let egress = managed(&chosen, &config, options, None)?;
        let spawn = Spawn {
            argv,
            policy: confinement(&chosen, &cwd),
            guarded: config.trusted_folders.clone(),
            env: environment_with(environment(&self.core.options, &config), params.env.as_ref())?,
            cwd,
            tty: terminal(params.tty, params.size)?,
            stdin: if params.stream_stdin { Stdin::Pipe } else { Stdin::Null },
            egress,
        };
        let cap = client_processes::cap(params.output_bytes_cap, params.disable_output_cap)?;
        // A terminal that nobody sees or types into is of no use.
        let streams = params.stream_stdout_stderr || params.tty;
        Ok(ProcessRequest { spawn, timeout, cap, streams })
    }

    /// The policy of rights that the client spells out.
    fn profile(
        &self,
        profile: &PermissionProfile,
        config: &config::Config,
    ) -> Result<SandboxPolicy, Error> {
        let (file_system, network) = match profile {
            PermissionProfile::Disabled {} => return Ok(SandboxPolicy::DangerFullAccess),
            PermissionProfile::External { network } => {
                return Ok(SandboxPolicy::External { network: network.enabled });
            }
            PermissionProfile::Managed { file_system, network } => (file_system, network.enabled),
        };
        let mut rules = Vec::new();
        let mut platform_defaults = false;
        let entries = match file_system {
            FileSystemPermissions::Unrestricted {} => {
                rules.push((PathBuf::from("/"), Access::Write));
                &Vec::new()
            }
            FileSystemPermissions::Restricted { entries, .. } => entries,
        };
        for entry in entries {
            let path = match &entry.path {
                FileSystemPath::Path { path } => absolute("permissionProfile", path)?,
                FileSystemPath::GlobPattern { .. } => {
                    return Err(Error::not_implemented("permissionProfile: a `glob_pattern`"));
                }
                FileSystemPath::Special { value } => match value {
                    FileSystemSpecialPath::Root {} => PathBuf::from("/"),
                    FileSystemSpecialPath::SlashTmp {} => PathBuf::from("/tmp"),
                    FileSystemSpecialPath::Minimal {} => {
                        platform_defaults = true;
                        continue;
                    }
                    FileSystemSpecialPath::Tmpdir {} => match self.core.options.tmpdir() {
                        Some(tmpdir) => tmpdir,
                        None => continue,
                    },
                    FileSystemSpecialPath::ProjectRoots { subpath } => {
                        config.project_root.join(subpath.as_deref().unwrap_or_default())
                    }
                    FileSystemSpecialPath::Unknown { path, .. } => {
                        let message = format!("`permissionProfile`: `{path}` is no known place");
                        return Err(Error::invalid_params(message));
                    }
                },
            };
            let access = match entry.access {
                FileSystemAccessMode::Read => Access::Read,
                FileSystemAccessMode::Write => Access::Write,
                FileSystemAccessMode::None => Access::None,
            };
            rules.push((path, access));
        }
        let name = "of this command".to_owned();
        Ok(SandboxPolicy::Profile { name, rules, platform_defaults, network, managed: false })
    }
}

/// The program and its arguments.
///
/// # Errors
/// `-32602` for none, an empty program or a NUL character.
pub(crate) fn argv(command: &[String]) -> Result<Vec<OsString>, Error> {
    if command.first().is_none_or(String::is_empty) {
        return Err(Error::invalid_params("`command` must not be empty: give a program"));
    }
    if command.iter().any(|part| part.contains('\0')) {
        return Err(Error::invalid_params("`command` must not hold a NUL character"));
    }
    Ok(command.iter().map(Into::into).collect())
}

pub(crate) fn timeout(ms: Option<i64>) -> Result<Option<Duration>, Error> {
    let Some(ms) = ms else { return Ok(None) };
    match u64::try_from(ms) {
        Ok(ms) => Ok(Some(Duration::from_millis(ms))),
        Err(_) => Err(Error::invalid_params(format!("`timeoutMs` must not be negative: {ms}"))),
    }
}

/// Sets and unsets variables.
pub(crate) fn environment_with(
    mut environment: Vec<(OsString, OsString)>,
    changes: Option<&BTreeMap<String, Option<String>>>,
) -> Result<Vec<(OsString, OsString)>, Error> {
    for (name, value) in changes.into_iter().flatten() {
        let bad = name.is_empty() || name.contains(['=', '\0']);
        if bad || value.as_ref().is_some_and(|value| value.contains('\0')) {
            let message = format!("`env`: `{name}` cannot be a variable with this value");
            return Err(Error::invalid_params(message));
        }
        environment.retain(|(known, _)| known.to_str() != Some(name));
        environment.extend(value.as_ref().map(|value| (name.into(), value.into())));
    }
    Ok(environment)
}

pub(crate) fn terminal(tty: bool, given: Option<TerminalSize>) -> Result<Option<Size>, Error> {
    match (tty, given) {
        (false, Some(_)) => Err(Error::invalid_params("`size` needs `tty`")),
        (false, None) => Ok(None),
        (true, None) => Ok(Some(DEFAULT_SIZE)),
        (true, Some(given)) => size(given).map(Some),
    }
}

pub(crate) fn size(size: TerminalSize) -> Result<Size, Error> {
    if size.rows == 0 || size.cols == 0 {
        return Err(Error::invalid_params("`size`: rows and columns must be at least 1"));
    }
    Ok(Size { rows: size.rows, cols: size.cols })
}

pub(crate) fn input(delta: Option<&str>, close: bool) -> Result<StdinChunk, Error> {
    if delta.is_none() && !close {
        return Err(Error::invalid_params("give `deltaBase64`, `closeStdin` or both"));
    }
    Ok(StdinChunk { bytes: client_processes::decoded(delta)?, close })
}

pub(crate) fn wire_stream(stream: Stream) -> OutputStream {
    match stream {
        Stream::Stdout => OutputStream::Stdout,
        Stream::Stderr => OutputStream::Stderr,
    }
}
