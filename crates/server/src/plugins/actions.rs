//! The actions that the hooks and MCP servers of a plugin would take, in sentences for the person
//! who decides about it.

use config::PluginParts;
use hooks::{Handler, Hook, Origin, Source};

use services::installed_plugins::servers;
use services::thread_hooks::key_in_plugin;

/// The hooks of a plugin, and what cannot be read of their files.
pub(super) fn hooks_of(parts: &PluginParts) -> (Vec<Hook>, Vec<String>) {
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    for (path, text) in &parts.hooks {
        let plugin = Some(parts.id.clone());
        let origin = Origin { source: Source::Plugin, path: path.clone(), plugin };
        match hooks::read_file(text.as_bytes(), &origin) {
            Ok(read) => {
                for mut hook in read.hooks {
                    hook.key = key_in_plugin(&hook, parts);
                    found.push(hook);
                }
                let warnings = read.warnings.iter();
                problems.extend(warnings.map(|one| format!("{}: {one}", path.display())));
            }
            Err(error) => problems.push(format!("{}: {error}", path.display())),
        }
    }
    (found, problems)
}

/// Returns the actions that the hooks and MCP servers of a plugin would take, a sentence each.
pub(super) fn actions(parts: &PluginParts) -> Vec<String> {
    let (hooks, problems) = hooks_of(parts);
    let servers = parts.servers.iter().map(|(name, entry)| servers::action(name, entry));
    let problems = problems.into_iter().map(|problem| format!("cannot be read: {problem}"));
    hooks.iter().map(of_hook).chain(servers).chain(problems).collect()
}

fn of_hook(hook: &Hook) -> String {
    let matcher = hook.matcher_text.as_deref().filter(|matcher| !matcher.is_empty());
    let matcher = matcher
        .map(|matcher| format!(" of `{}`", visible::exact_line(matcher)))
        .unwrap_or_default();
    let what = match &hook.handler {
        Handler::Command(line) => format!("runs, in the sandbox: {}", visible::exact_line(line)),
        Handler::Prompt { prompt, .. } | Handler::Agent { prompt, .. } => {
            format!("asks a model: {}", visible::exact_line(prompt))
        }
        Handler::McpTool { server, tool, .. } => {
            let (server, tool) = (visible::exact_line(server), visible::exact_line(tool));
            format!("calls the tool `{tool}` of the MCP server `{server}`, which plugins may not")
        }
    };
    format!("a hook at {}{matcher}, once you trust it, {what}", hook.event)
}
