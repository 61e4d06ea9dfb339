//! `/model` without a name: the models of all providers that can be asked. Those of the configured one open the list;
//! the others are asked in the background, and join it with their answers. A provider that fails has a row that says so.

use protocol::{
    Empty, ModelListParams, ModelListResponse, ModelProviderEntry, OpeningOverrides,
    ThreadStartParams,
};
use serde_json::json;

use crate::app::filling::{Choosing, ListedModel, ProviderModels, What};
use crate::app::models::{MODELS, switch_model};
use crate::app::program::App;
use crate::app::{lists, opening};
use crate::ask::{Ask, Offer};
use crate::picker::{Picker, Row};
use crate::text::Line;

/// Asks for the models of the configured provider, which are few.
pub(super) fn choose_model(app: &mut App) {
    let params = ModelListParams::default();
    app.call::<protocol::ModelList>(&params, |app, result| {
        let provider = app.login.configured().provider.clone();
        let models = match result {
            Ok(list) => Ok(listed(list)),
            Err(error) => Err(error.message),
        };
        let own = ProviderModels { name: provider.clone(), provider, models };
        let groups = vec![own];
        let mut picker = Picker::fixed("Choose a model", rows(&groups));
        picker.select(&row_id(app.login.provider(), &app.session.model));
        lists::choose(app, picker, What::Models(groups));
        ask_others(app);
    });
}

/// Asks the other providers that have a key or need none.
fn ask_others(app: &mut App) {
    app.call::<protocol::ModelProviderList>(&Empty {}, |app, result| match result {
        Ok(list) => {
            let can_be_asked = |it: &ModelProviderEntry| it.problem.is_none() && !it.is_default;
            for provider in &list.data {
                if provider.is_default {
                    name_group(app, provider);
                }
            }
            // The offline model is chosen by name: it answers by a script.
            let others = list.data.into_iter().filter(can_be_asked);
            for provider in others.filter(|it| it.base_url.is_some()) {
                ask(app, provider);
            }
        }
        Err(error) => {
            app.error(&format!("The other providers cannot be listed: {}", error.message));
        }
    });
}

fn ask(app: &mut App, provider: ModelProviderEntry) {
    let params = ModelListParams {
        limit: Some(MODELS),
        model_provider: Some(provider.id.clone()),
        ..ModelListParams::default()
    };
    app.call::<protocol::ModelList>(&params, move |app, result| {
        let models = match result {
            Ok(list) => Ok(listed(list)),
            // Such a server need not be there.
            Err(_) if provider.is_local => return,
            Err(error) => Err(error.message),
        };
        let ModelProviderEntry { id, display_name, .. } = provider;
        add(app, ProviderModels { provider: id, name: display_name, models });
    });
}

fn listed(list: ModelListResponse) -> Vec<ListedModel> {
    let shown = list.data.into_iter().filter(|model| !model.hidden);
    shown
        .map(|it| ListedModel { model: it.model, title: it.display_name, detail: it.description })
        .collect()
}

/// Gives the configured provider its name for people.
fn name_group(app: &mut App, provider: &ModelProviderEntry) {
    let Some(Choosing { what: What::Models(groups), .. }) = app.filling.list_mut() else { return };
    if let Some(group) = groups.iter_mut().find(|group| group.provider == provider.id) {
        group.name.clone_from(&provider.display_name);
    }
}

/// Adds the models of a provider to the list, if it is still open.
fn add(app: &mut App, new: ProviderModels) {
    let selected = row_id(app.login.provider(), &app.session.model);
    let is_used = new.provider == app.login.provider();
    let Some(choosing) = app.filling.list_mut() else { return };
    let What::Models(groups) = &mut choosing.what else { return };
    match groups.iter_mut().find(|group| group.provider == new.provider) {
        Some(old) => *old = new,
        None => groups.push(new),
    }
    // The first one is the configured provider.
    groups[1..].sort_by(|one, other| one.provider.cmp(&other.provider));
    choosing.picker.set_rows(rows(groups));
    if is_used {
        choosing.picker.select(&selected);
    }
    lists::provide(app);
}

/// The rows of all providers, one after the other. With several, each has the name of its provider.
fn rows(groups: &[ProviderModels]) -> Vec<Row> {
    let several = groups.len() > 1;
    let mut rows = Vec::new();
    for ProviderModels { provider, name, models } in groups {
        let columns = if several { vec![name.clone()] } else { Vec::new() };
        match models {
            Ok(models) => rows.extend(models.iter().map(|it| Row {
                id: row_id(provider, &it.model),
                title: it.title.clone(),
                detail: it.detail.clone(),
                has_hit: false,
                columns: columns.clone(),
            })),
            Err(why) => rows.push(Row {
                id: provider.clone(),
                title: "no models".to_owned(),
                detail: why.clone(),
                has_hit: false,
                columns: vec![name.clone()],
            }),
        }
    }
    rows
}

fn row_id(provider: &str, model: &str) -> String {
    json!([provider, model]).to_string()
}

/// A row was chosen: a model, or a provider without any.
pub(super) fn chosen(app: &mut App, row: &Row) {
    let Ok((provider, model)) = serde_json::from_str::<(String, String)>(&row.id) else {
        return app.error(&row.detail);
    };
    if provider == app.login.provider() {
        return switch_model(app, &model, None);
    }
    if app.session.turn.is_some() {
        return app
            .notice("Another provider cannot be used during a turn. Esc interrupts the turn.");
    }
    let how = match app.session.has_turns {
        true => "A thread keeps its provider: the conversation goes on in a copy of this thread.",
        false => "The thread is new: it starts with this provider.",
    };
    let facts =
        vec![Line::plain(format!("{model} of the provider `{provider}`.")), Line::plain(how)];
    let offers = vec![
        Offer::new("thread", 't', "In this conversation"),
        Offer::new("always", 'a', "From now on")
            .with_effect("also for new threads; stored in your configuration"),
        Offer::new("no", 'n', "Keep the model").on_escape(),
    ];
    let ask = Ask::offer(&format!("{model}: for how long?"), facts, offers);
    app.open_dialog(ask, move |app, reply| match reply.as_str() {
        Some("thread") => use_provider(app, &provider, &model),
        Some("always") => keep_provider(app, provider, model),
        _ => {}
    });
}

/// Stores the provider and the model for new threads, and uses them.
fn keep_provider(app: &mut App, provider: String, model: String) {
    let values =
        vec![("model_provider".to_owned(), json!(provider)), ("model".to_owned(), json!(model))];
    app.store_settings(values, move |app, stored| {
        match stored {
            Ok(file) => app.info(&format!(
                "From now on the provider is `{provider}` with {model}: `model_provider` and `model` \
                 in {file}."
            )),
            Err(why) => {
                app.error(&format!("The model is used in this conversation only: {why}"));
            }
        }
        opening::read_configuration(app);
        use_provider(app, &provider, &model);
    });
}

/// Continues the conversation with a model of another provider.
fn use_provider(app: &mut App, provider: &str, model: &str) {
    // They are of the other provider.
    app.outbox.overrides_mut().model = None;
    app.outbox.overrides_mut().effort = None;
    let (model, model_provider) = (Some(model.to_owned()), Some(provider.to_owned()));
    match app.session.id.clone().filter(|_| app.session.has_turns) {
        Some(thread) => {
            let overrides =
                OpeningOverrides { model, model_provider, ..OpeningOverrides::default() };
            opening::fork_thread(app, thread, overrides);
        }
        None => {
            let overrides = OpeningOverrides {
                model,
                model_provider,
                cwd: Some(app.working_folder()),
                ..app.beginning.overrides().clone()
            };
            opening::start_thread(app, &ThreadStartParams::from(overrides));
        }
    }
}
