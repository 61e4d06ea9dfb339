//! `/status` and `/cost`: the thread, its settings and where they come from, and what it used.

use protocol::config::{ConfigLayer, ConfigLayerSource};
use protocol::{ConfigReadParams, ConfigReadResponse, ThreadTokenUsage};

use crate::app::configuration::{Configuration, quoted};
use crate::app::program::{App, word};
use crate::app::{account, status};

/// Rows of a name and a value.
#[derive(Default)]
struct Report(String);

impl Report {
    fn row(&mut self, name: &str, value: &str) {
        self.0.push_str(&format!("{name:<12} {value}\n"));
    }

    /// A row for each value, the first one with the name.
    fn rows(&mut self, name: &str, values: &[String]) {
        for (at, value) in values.iter().enumerate() {
            self.row(if at == 0 { name } else { "" }, value);
        }
    }
}

/// `/status`.
pub(super) fn show_status(app: &mut App, _: &str) {
    let params = ConfigReadParams {
        cwd: Some(app.working_folder()),
        include_defaults: false,
        include_layers: true,
    };
    app.call::<protocol::ConfigRead>(&params, |app, result| {
        let mut report = thread_rows(app);
        match &result {
            Ok(read) => source_rows(app, read, &mut report),
            Err(error) => report.row("config", &format!("unknown: {}", error.message)),
        }
        let items: Vec<&str> = status::ITEMS.iter().map(|(name, _)| *name).collect();
        report.row("status line", &items.join(", "));
        app.info(report.0.trim_end());
        account::show_account(app, "");
    });
}

fn thread_rows(app: &App) -> Report {
    let session = &app.session;
    let mut report = Report::default();
    report.row("thread", session.id.as_deref().unwrap_or("being opened"));
    if let Some(name) = &session.name {
        report.row("name", name);
    }
    let effort = session.effort.as_ref().map(word).unwrap_or_default();
    report.row("model", format!("{} {effort}", session.model).trim_end());
    report.row("provider", &session.provider);
    report.row("folder", &app.cwd().to_string_lossy());
    report.row("mode", session.mode);
    report.row("asks", &session.approval);
    report.row("commands", session.sandbox);
    if let Some(usage) = &session.usage {
        if let Some(window) = usage.model_context_window.filter(|window| *window > 0) {
            let used = usage.last.total_tokens.clamp(0, window);
            let left = (window - used).saturating_mul(100) / window;
            report.row("context", &format!("{left}% left: {used} of {window} tokens are used"));
        }
        usage_rows(usage, &mut report);
    }
    report
}

/// The provider's address, and the files that the settings and instructions come from.
fn source_rows(app: &App, read: &ConfigReadResponse, report: &mut Report) {
    let config = Configuration::new(&read.config);
    let id = app.session.provider.as_str();
    let providers = config.table("model_providers").find(|(name, _)| *name == id);
    let own = providers.and_then(|(_, provider)| provider.get("base_url")?.as_str());
    let shared = config.text("default_provider_base_url").filter(|_| id == "default");
    if let Some(address) = own.or(shared) {
        report.row("address", address);
    }
    let instructions: Vec<String> =
        app.session.instructions.iter().map(|path| app.folder(path)).collect();
    match instructions.is_empty() {
        true => report.row("instructions", "no AGENTS.md; /init writes one"),
        false => report.rows("instructions", &instructions),
    }
    let files: Vec<String> =
        read.layers.iter().flatten().filter_map(|layer| file_of(app, layer)).collect();
    match files.is_empty() {
        true => report.row("config", "no file"),
        false => report.rows("config", &files),
    }
}

/// The file of a layer, highest priority first.
fn file_of(app: &App, layer: &ConfigLayer) -> Option<String> {
    let file = match &layer.name {
        ConfigLayerSource::User { file }
        | ConfigLayerSource::System { file }
        | ConfigLayerSource::LegacyManagedConfigTomlFromFile { file } => app.folder(file),
        ConfigLayerSource::Project { dot_agent_folder } => {
            format!("{}/config.toml", app.folder(dot_agent_folder))
        }
        ConfigLayerSource::SessionFlags => "the command line".to_owned(),
        ConfigLayerSource::Mdm { domain, key } => format!("{domain} {}", quoted(key)),
        ConfigLayerSource::LegacyManagedConfigTomlFromMdm | ConfigLayerSource::Default => {
            return None;
        }
    };
    Some(match &layer.disabled_reason {
        Some(_) => format!("{file} (not used: the folder is not trusted)"),
        None => file,
    })
}

/// `/cost`.
pub(super) fn show_cost(app: &mut App, _: &str) {
    let Some(usage) = &app.session.usage else {
        return app.info("No model request since this thread was opened.");
    };
    let mut report = Report::default();
    usage_rows(usage, &mut report);
    let price = usage.cost.as_ref().is_some_and(|cost| cost.thread.is_some());
    if !price {
        report.row("cost", "unknown: the model has no price in the configuration or the catalog");
    }
    app.info(report.0.trim_end());
}

fn usage_rows(usage: &ThreadTokenUsage, report: &mut Report) {
    let total = &usage.total;
    let (input, cached) = (total.input_tokens, total.cached_input_tokens);
    report.row("tokens", &format!("{input} in ({cached} cached), {} out", total.output_tokens));
    if let Some(tokens) = usage.tokens_with_agents {
        report.row("", &format!("{tokens} in this turn, with its agents"));
    }
    let Some(cost) = &usage.cost else { return };
    let currency = &cost.currency;
    let parts = [
        (&cost.thread, "for the thread"),
        (&cost.turn, "for the latest turn"),
        (&cost.turn_with_agents, "for the latest turn, with its agents"),
    ];
    let known = parts.into_iter().filter_map(|(amount, of)| Some((amount.as_ref()?, of)));
    let known: Vec<String> =
        known.map(|(amount, of)| format!("{amount} {currency} {of}")).collect();
    report.rows("cost", &known);
}
