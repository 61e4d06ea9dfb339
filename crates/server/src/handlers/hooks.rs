//! Hooks, for clients.

use std::path::PathBuf;

use config::Config;
use hooks::Handler;
use protocol::HooksMethods;
use protocol::hooks::{
    HookErrorInfo, HookMetadata, HookTrustStatus, HooksListEntry, HooksListParams,
    HooksListResponse,
};

use crate::server::Server;
use services::error::Error;
use services::folders;
use services::peer::Caller;
use services::thread_hooks::{self, LoadedHook, LoadedHooks, Trust};

/// Folders of one request.
const MAX_FOLDERS: usize = 64;

impl HooksMethods<Caller> for Server {
    /// The hooks of each folder, including those that do not run, even while the feature is off.
    async fn hooks_list(
        &self,
        _caller: Caller,
        params: HooksListParams,
    ) -> Result<HooksListResponse, Error> {
        let options = &self.services.options;
        if params.cwds.len() > MAX_FOLDERS {
            return Err(Error::invalid_params(format!(
                "`cwds` has more than {MAX_FOLDERS} folders; ask for them in several requests"
            )));
        }
        let mut cwds: Vec<PathBuf> = params.cwds.iter().map(|cwd| options.cwd.join(cwd)).collect();
        if cwds.is_empty() {
            cwds.push(options.cwd.clone());
        }
        let mut data = Vec::with_capacity(cwds.len());
        for cwd in cwds {
            let cwd = folders::check_cwd(&self.services.files, cwd).await?;
            let resolved = self.services.configurations.in_folder(&cwd, None).await?.resolved;
            let config = resolved.config;
            let switch = Switch::of(&config);
            let work = move || thread_hooks::load_all(&config);
            let loaded = self.services.files.run(&cwd, work).await;
            let loaded = loaded.map_err(|error| Error::failed(error.to_string()))?;
            let mut entry = entry(cwd.to_string_lossy().into_owned(), &loaded, switch);
            // A plugin that is left out may have had hooks.
            let of_plugins = resolved.warnings.iter().filter(|one| one.is_of_plugin());
            entry.warnings.extend(of_plugins.map(ToString::to_string));
            data.push(entry);
        }
        Ok(HooksListResponse { data })
    }
}

/// The switch of the hooks of the user, of projects and of plugins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Switch {
    On,
    Off,
    /// A requirement switches them off.
    Pinned,
}

impl Switch {
    fn of(config: &Config) -> Self {
        match (config.has_hooks(), config.pins_hooks_off()) {
            (true, _) => Self::On,
            (false, true) => Self::Pinned,
            (false, false) => Self::Off,
        }
    }

    /// Why the hooks do not run, and what to do.
    fn warning(self) -> Option<&'static str> {
        match self {
            Self::On => None,
            Self::Off => Some(
                "hooks are off, and none of these runs; to switch them on, set \
                 `features.codex_hooks = true`, as `agentd config set features.codex_hooks true` does",
            ),
            Self::Pinned => Some(
                "the administrator has switched hooks off in `requirements.toml`; none of these runs",
            ),
        }
    }
}

fn entry(cwd: String, loaded: &LoadedHooks, switch: Switch) -> HooksListEntry {
    let error = |(path, message): &(PathBuf, String)| HookErrorInfo {
        path: path.to_string_lossy().into_owned(),
        message: message.clone(),
    };
    let switchable = loaded.hooks.iter().any(|loaded| loaded.trust != Trust::Managed);
    let off = switch.warning().filter(|_| switchable).map(str::to_owned);
    HooksListEntry {
        cwd,
        hooks_enabled: switch == Switch::On,
        hooks: loaded.hooks.iter().map(|loaded| metadata(loaded)).collect(),
        warnings: off.into_iter().chain(loaded.warnings.iter().cloned()).collect(),
        errors: loaded.errors.iter().map(error).collect(),
    }
}

fn metadata(loaded: &LoadedHook) -> HookMetadata {
    let LoadedHook { hook, digest, trust, is_enabled } = loaded;
    let (mut command, mut prompt, mut model) = (None, None, None);
    let (mut server, mut tool, mut arguments) = (None, None, None);
    match hook.handler.clone() {
        Handler::Command(line) => command = Some(line),
        Handler::Prompt { prompt: text, model: named }
        | Handler::Agent { prompt: text, model: named } => {
            (prompt, model) = (Some(text), named);
        }
        Handler::McpTool { server: of, tool: named, arguments: given } => {
            (server, tool, arguments) = (Some(of), Some(named), Some(given));
        }
    }
    HookMetadata {
        key: hook.key.clone(),
        event_name: thread_hooks::event_name(hook.event),
        handler_type: thread_hooks::handler_type(&hook.handler),
        matcher: hook.matcher_text.clone(),
        command,
        prompt,
        model,
        server,
        tool,
        arguments,
        is_async: hook.is_async,
        timeout_sec: hook.timeout_sec,
        status_message: hook.status_message.clone(),
        source: thread_hooks::hook_source(hook.origin.source),
        source_path: hook.origin.path.to_string_lossy().into_owned(),
        plugin_id: hook.origin.plugin.clone(),
        display_order: hook.order,
        enabled: *is_enabled,
        is_managed: *trust == Trust::Managed,
        current_hash: digest.clone(),
        trust_status: match trust {
            Trust::Managed => HookTrustStatus::Managed,
            Trust::Trusted => HookTrustStatus::Trusted,
            Trust::Untrusted => HookTrustStatus::Untrusted,
            Trust::Modified => HookTrustStatus::Modified,
        },
    }
}
