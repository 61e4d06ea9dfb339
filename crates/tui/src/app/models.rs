//! News about models: a successor of the one in use, and new ones.

use protocol::{ConfigReadParams, ConfigReadResponse, Model, ModelListParams, ReasoningEffort};
use serde_json::{Value, json};

use crate::app::access::{self, ask_scope};
use crate::app::configuration::{Configuration, quoted};
use crate::app::program::{App, word};
use crate::ask::{Ask, Offer};
use crate::palette::Palette;
use crate::text::Line;

/// A new model is announced so many times.
const ANNOUNCEMENTS: u64 = 4;
/// Models of a list that are asked for at once.
pub(super) const MODELS: u32 = 500;

/// Looks once, when a model can be asked, at what the provider's list says.
pub(super) fn check_models(app: &mut App) {
    // Its model has no news.
    if app.login.provider() == "offline" || !app.login.is_configured_provider() {
        return;
    }
    if !app.notices.takes_model_check() {
        return;
    }
    let params = ModelListParams { include_hidden: Some(true), ..ModelListParams::default() };
    app.call::<protocol::ModelList>(&params, |app, result| match result {
        Ok(list) => {
            offer_successor(app, &list.data);
            announce(app, &list.data);
        }
        // The list is asked for again where the user wants to choose.
        Err(error) => {
            tracing::warn!(target: "tui", "the models cannot be listed: {}", error.message);
        }
    });
}

/// Uses a model if the provider's list has it, or the user insists: a request for a model that does not
/// exist fails long after the mistake. A provider without a list is not doubted.
pub(super) fn check_model(app: &mut App, model: String, effort: Option<ReasoningEffort>) {
    let is_certain = app.notices.take_doubted_model().is_some_and(|doubted| doubted == model);
    if is_certain || !app.login.is_configured_provider() {
        return switch_model(app, &model, effort);
    }
    find_model(app, model, effort, None);
}

fn find_model(
    app: &mut App,
    model: String,
    effort: Option<ReasoningEffort>,
    cursor: Option<String>,
) {
    let is_first = cursor.is_none();
    let params = ModelListParams {
        cursor,
        limit: Some(MODELS),
        include_hidden: Some(true),
        model_provider: None,
    };
    app.call::<protocol::ModelList>(&params, move |app, result| {
        let list = match result {
            Ok(list) => list,
            Err(error) => return models_unknown(app, &model, effort, &error.message),
        };
        let is_listed = list.data.iter().any(|it| it.model == model || it.id == model);
        // Of a provider that has not reported its models, the list has at most the one that is used.
        let says_nothing = is_first && list.data.iter().all(|it| it.model == app.session.model);
        match list.next_cursor {
            _ if is_listed || says_nothing => {
                switch_model(app, &model, effort);
            }
            Some(cursor) => find_model(app, model, effort, Some(cursor)),
            None => {
                app.warning(&format!(
                    "{model:?} is not in the model list of {} (see /model). \
                     Repeat the command to use it anyway.",
                    app.login.provider(),
                ));
                app.notices.doubt_model(model);
            }
        }
    });
}

fn models_unknown(app: &mut App, model: &str, effort: Option<ReasoningEffort>, why: &str) {
    switch_model(app, model, effort);
    app.warning(&format!("The model list is unavailable, so the name was not checked: {why}"));
}

/// Uses the model, and asks whether new threads have it, too.
pub(super) fn switch_model(app: &mut App, model: &str, effort: Option<ReasoningEffort>) {
    use_model(app, model);
    if effort.is_some() {
        app.outbox.overrides_mut().effort = effort;
        app.session.effort = effort;
    }
    let used = with_effort(model, effort);
    app.info(&format!("From the next turn on, this thread: {used}"));
    let params = ConfigReadParams {
        cwd: Some(app.working_folder()),
        include_defaults: true,
        include_layers: false,
    };
    let model = model.to_owned();
    app.call::<protocol::ConfigRead>(&params, move |app, result| {
        let later = match result {
            Ok(read) => model_of_new_threads(app, &read),
            Err(error) => format!("unknown: {}", error.message),
        };
        let facts = vec![
            Line::plain(format!("This thread: {used}.")),
            Line::plain(format!("New threads: {later}.")),
        ];
        let title = format!("{used}: for how long?");
        let effect = "also for new threads; stored in your configuration";
        ask_scope(app, &title, facts, effect, move |app| keep_model(app, &model, effort));
    });
}

fn model_of_new_threads(app: &App, read: &ConfigReadResponse) -> String {
    let config = Configuration::new(&read.config);
    let Some(model) = config.text("model") else {
        return "the default of the provider".to_owned();
    };
    let effort = config.text("model_reasoning_effort").unwrap_or_default();
    let by = read.origins.get("model").map(|origin| access::source(app, origin));
    format!("{} ({})", format!("{model} {effort}").trim_end(), by.unwrap_or_default())
}

fn with_effort(model: &str, effort: Option<ReasoningEffort>) -> String {
    let effort = effort.as_ref().map(word).unwrap_or_default();
    format!("{model} {effort}").trim_end().to_owned()
}

/// Stores the model for new threads. A warning says where a profile or the command line comes after it.
fn keep_model(app: &mut App, model: &str, effort: Option<ReasoningEffort>) {
    let used = with_effort(model, effort);
    let mut values = vec![("model".to_owned(), json!(model))];
    values.extend(effort.map(|effort| ("model_reasoning_effort".to_owned(), json!(effort))));
    app.store_settings(values, move |app, stored| match stored {
        Ok(file) => app
            .info(&format!("From now on, for this thread and new ones: {used} (stored in {file})")),
        Err(why) => app.error(&format!("The model is used in this thread only: {why}")),
    });
}

/// From the next turn on.
fn use_model(app: &mut App, model: &str) {
    model.clone_into(&mut app.session.model);
    app.outbox.overrides_mut().model = Some(model.to_owned());
}

fn offer_successor(app: &mut App, models: &[Model]) {
    let old = app.session.model.clone();
    let Some(model) = models.iter().find(|it| it.model == old) else { return };
    let Some(new) = model.upgrade.clone() else { return };
    if app.notices.has_answered(&old, &new) {
        return;
    }
    let mut facts = vec![Line::plain(format!("{old} has a successor: {new}."))];
    let info = model.upgrade_info.as_ref();
    for text in [
        info.and_then(|info| info.upgrade_copy.as_ref()),
        info.and_then(|info| info.migration_markdown.as_ref()),
    ]
    .into_iter()
    .flatten()
    {
        facts.extend(text.lines().map(|line| Line::plain(line.to_owned())));
    }
    if let Some(link) = info.and_then(|info| info.model_link.as_ref()) {
        facts.push(Line::new(link.clone(), Palette::LINK));
    }
    let offers = vec![
        Offer::new("use", 'u', format!("Use {new} from now on"))
            .with_effect("stores `model`; this thread uses it from the next turn on"),
        Offer::new("keep", 'k', format!("Keep {old}, and do not ask again"))
            .with_effect("stores the answer in `notice`"),
        Offer::new("later", 'l', "Keep it for now").on_escape(),
    ];
    let ask = Ask::offer("A newer model", facts, offers);
    app.open_dialog_later(ask, move |app, reply| successor_chosen(app, &reply, &old, new));
}

fn successor_chosen(app: &mut App, reply: &Value, old: &str, new: String) {
    let values = match reply.as_str() {
        Some("use") => {
            let migration = format!("notice.model_migrations.{}", quoted(old));
            vec![("model".to_owned(), json!(new)), (migration, json!(new))]
        }
        Some("keep") => {
            let key = quoted(&format!("hide_{old}_migration_prompt"));
            vec![(format!("notice.{key}"), json!(true))]
        }
        _ => return,
    };
    let uses = reply == "use";
    app.store_settings(values, move |app, stored| match stored {
        Ok(file) if uses => {
            app.info(&format!("From now on the model is {new}: stored in {file}."));
            use_model(app, &new);
        }
        Ok(file) => app.info(&format!("You will not be asked again (stored in {file}).")),
        Err(why) => app.error(&format!("It was not stored: {why}")),
    });
}

/// Announces a new model, a bounded number of times.
fn announce(app: &mut App, models: &[Model]) {
    if !app.settings.tooltips {
        return;
    }
    let count = |model: &Model| app.notices.announcements(&model.model);
    let new = models
        .iter()
        .find(|it| it.availability_nux.is_some() && !it.hidden && count(it) < ANNOUNCEMENTS);
    let Some((model, nux)) = new.and_then(|it| Some((it, it.availability_nux.as_ref()?))) else {
        return;
    };
    let shown = count(model) + 1;
    let name = model.model.clone();
    app.info(&format!("{}\n/model {name} uses it.", nux.message));
    app.notices.set_announcements(name.clone(), shown);
    let key = format!("tui.model_availability_nux.{}", quoted(&name));
    app.store_settings(vec![(key, json!(shown))], |app, stored| {
        if let Err(why) = stored {
            app.error(&format!("The announcement of the new model was not stored: {why}"));
        }
    });
}
