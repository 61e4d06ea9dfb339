//! Commands without a thread (specification: Command execution).

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use policy::{Access, Location, ProfileFiles, ProfileRule};
use protocol::command::{OutputStream, TerminalSize};
use protocol::permission::{
    FileSystemAccessMode, FileSystemPath, FileSystemPermissions, FileSystemSandboxEntry,
    FileSystemSpecialPath, PermissionProfile,
};
use protocol::{
    CommandExecOutputDelta, CommandExecOutputDeltaNotification, CommandExecParams,
    CommandExecResizeParams, CommandExecResponse, CommandExecTerminateParams,
    CommandExecWriteParams, CommandMethods, Empty,
};
use sandbox::rules::Invocation;
use sandbox::{Outputs, Size, Stdin, Stream};
use session::SandboxPolicy;

use crate::client_processes::{self, MethodFamily, ProcessOrder, ProcessRequest, StdinChunk};
use crate::server::Server;
use services::allowed::Allowed;
use services::command_checks::check_rules;
use services::command_environment::{command_environment, command_tmpdir};
use services::command_limits::command_limits;
use services::command_runner::CommandLine;
use services::convert::settings::client_sandbox;
use services::error::Error;
use services::folders::{self, absolute};
use services::peer::Caller;
use services::warnings;
use threads::egress::managed_network;

/// Time limit of a command when the client names none.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
/// Size of a terminal when the client does not say.
const DEFAULT_SIZE: Size = Size { rows: 24, cols: 80 };

impl CommandMethods<Caller> for Server {
    async fn command_exec(
        &self,
        caller: Caller,
        params: CommandExecParams,
    ) -> Result<CommandExecResponse, Error> {
        let name = params.process_id.clone();
        if name.is_none() && (params.tty || params.stream_stdin || params.stream_stdout_stderr) {
            let message =
                "`processId` is needed with `tty`, `streamStdin` and `streamStdoutStderr`";
            return Err(Error::invalid_params(message));
        }
        let can = (params.stream_stdin || params.tty, params.tty);
        let processes = &self.services.processes;
        let registered = name
            .clone()
            .map(|name| processes.register(caller.peer.id, MethodFamily::Command, name, can));
        let registered = registered.transpose()?;
        // A `command/exec/write` that follows finds it. From here on the request may wait for files.
        caller.begun();
        let run = self.exec_run(&caller, &params).await?;
        let peer = caller.peer.clone();
        let tell = |stream, delta_base64, cap_reached| {
            let params = CommandExecOutputDeltaNotification {
                process_id: name.clone().unwrap_or_default(),
                stream: wire_stream(stream),
                delta_base64,
                cap_reached,
            };
            peer.notify::<CommandExecOutputDelta>(&params);
        };
        let process = processes.start(run, registered).await?;
        let ended = process.follow(&caller.peer, tell).await?;
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
        caller: Caller,
        params: CommandExecWriteParams,
    ) -> Result<Empty, Error> {
        let input = input(params.delta_base64.as_deref(), params.close_stdin)?;
        self.services.processes.write(
            caller.peer.id,
            MethodFamily::Command,
            &params.process_id,
            input,
        )?;
        Ok(Empty {})
    }

    async fn command_exec_resize(
        &self,
        caller: Caller,
        params: CommandExecResizeParams,
    ) -> Result<Empty, Error> {
        let order = ProcessOrder::Resize(size(params.size)?);
        self.services.processes.order(
            caller.peer.id,
            MethodFamily::Command,
            &params.process_id,
            order,
        )?;
        Ok(Empty {})
    }

    async fn command_exec_terminate(
        &self,
        caller: Caller,
        params: CommandExecTerminateParams,
    ) -> Result<Empty, Error> {
        let order = ProcessOrder::Terminate;
        self.services.processes.order(
            caller.peer.id,
            MethodFamily::Command,
            &params.process_id,
            order,
        )?;
        Ok(Empty {})
    }
}

impl Server {
    async fn exec_run(
        &self,
        caller: &Caller,
        params: &CommandExecParams,
    ) -> Result<ProcessRequest, Error> {
        let options = &self.services.options;
        let argv = argv(&params.command)?;
        let cwd =
            params.cwd.as_deref().map_or_else(|| options.cwd.clone(), |cwd| options.cwd.join(cwd));
        let cwd = folders::check_cwd(&self.services.files, cwd).await?;
        let timeout = match (params.timeout_ms, params.disable_timeout) {
            (Some(_), true) => {
                return Err(Error::exclusive("timeoutMs", "disableTimeout"));
            }
            (None, true) => None,
            (given, false) => Some(timeout(given)?.unwrap_or(DEFAULT_TIMEOUT)),
        };
        let config = self.services.configurations.in_folder(&cwd, None).await?.resolved.config;
        let chosen = match (&params.sandbox_policy, &params.permission_profile) {
            (Some(_), Some(_)) => {
                return Err(Error::exclusive("sandboxPolicy", "permissionProfile"));
            }
            (Some(policy), None) => client_sandbox(policy)?,
            (None, Some(profile)) => self.profile(profile, &config)?,
            (None, None) => self.services.defaults.settings(&config, &cwd).sandbox,
        };
        let (policy, replacements) = Allowed::new(chosen, &config, &cwd);
        for replacement in replacements {
            warnings::send_plain(&caller.peer, replacement);
        }
        let (rules, own) = (self.services.rules.clone(), options.clone());
        let (argv_text, folder) = (params.command.clone(), cwd.clone());
        let checked = self.services.files.run(&cwd, move || {
            let command = (Invocation::Argv(&argv_text), &policy);
            check_rules(&rules, &own, &config, command, &folder).map(|()| (config, policy))
        });
        let (config, policy) = checked.await??;
        let command = CommandLine {
            argv,
            policy: policy.confinement(&cwd),
            guarded: config.trusted_folders.clone(),
            granted: Vec::new(),
            env: environment_with(command_environment(options, &config), params.env.as_ref())?,
            tty: terminal(params.tty, params.size)?,
            stdin: if params.stream_stdin { Stdin::Pipe } else { Stdin::Null },
            outputs: Outputs::Separate,
            egress: managed_network(&policy, &config, options, None)?,
            limits: command_limits(&config, None),
            cwd,
            cwd_is_real: false,
        };
        let cap = client_processes::cap(params.output_bytes_cap, params.disable_output_cap)?;
        // A terminal is of use only when it is streamed.
        let streams = params.stream_stdout_stderr || params.tty;
        Ok(ProcessRequest { command, timeout, cap, streams })
    }

    /// The policy for the permissions that the client lists.
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
        let everything = ProfileRule { base: Location::Root, subpath: None, access: Access::Write };
        let rules = match file_system {
            FileSystemPermissions::Unrestricted {} => vec![everything],
            FileSystemPermissions::Restricted { entries, .. } => {
                entries.iter().map(profile_rule).collect::<Result<_, _>>()?
            }
        };
        let tmpdir = command_tmpdir(&self.services.options, config);
        let ProfileFiles { rules, platform_defaults } =
            ProfileFiles::new(&rules, &config.project_root, tmpdir.as_deref());
        let name = "of this command".to_owned();
        Ok(SandboxPolicy::Profile { name, rules, platform_defaults, network, managed: false })
    }
}

/// A rule that the client lists.
///
/// # Errors
/// `-32602` for a location that is not known, `notImplemented` for a pattern.
fn profile_rule(entry: &FileSystemSandboxEntry) -> Result<ProfileRule, Error> {
    let mut subpath = None;
    let base = match &entry.path {
        FileSystemPath::Path { path } => Location::Path(absolute("permissionProfile", path)?),
        FileSystemPath::GlobPattern { .. } => {
            return Err(Error::not_implemented("permissionProfile: a `glob_pattern`"));
        }
        FileSystemPath::Special { value } => match value {
            FileSystemSpecialPath::Root {} => Location::Root,
            FileSystemSpecialPath::SlashTmp {} => Location::SlashTmp,
            FileSystemSpecialPath::Minimal {} => Location::Minimal,
            FileSystemSpecialPath::Tmpdir {} => Location::Tmpdir,
            FileSystemSpecialPath::ProjectRoots { subpath: below } => {
                subpath = below.as_ref().map(PathBuf::from);
                Location::ProjectRoots
            }
            FileSystemSpecialPath::Unknown { path, .. } => {
                let message = format!("`permissionProfile`: `{path}` is not a known location");
                return Err(Error::invalid_params(message));
            }
        },
    };
    let access = match entry.access {
        FileSystemAccessMode::Read => Access::Read,
        FileSystemAccessMode::Write => Access::Write,
        FileSystemAccessMode::None => Access::None,
    };
    Ok(ProfileRule { base, subpath, access })
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
        return Err(Error::invalid_params("`command` must not contain a NUL character"));
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

/// The environment with the variables of `changes` set, or unset where they have no value.
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
