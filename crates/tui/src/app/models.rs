//! News about models: a successor of the one in use, and new ones.

use protocol::{Model, ModelListParams, ReasoningEffort};
use serde_json::{Value, json};

use crate::app::App;
use crate::app::answers::word;
use crate::app::asking::quoted;
use crate::ask::{Ask, Offer};
use crate::palette::Palette;
use crate::text::Line;

/// A new model is announced so many times.
const ANNOUNCEMENTS: u64 = 4;
/// Models of a list that are asked for at once.
const MODELS: u32 = 500;

impl App {
    /// Looks once, when a model can be asked, at what the provider's list says.
    pub(super) fn check_models(&mut self) {
        // Its model has no news.
        if self.login.provider() == "offline" || !self.login.is_configured_provider() {
            return;
        }
        if std::mem::replace(&mut self.has_checked_models, true) {
            return;
        }
        let params = ModelListParams { include_hidden: Some(true), ..ModelListParams::default() };
        self.call::<protocol::ModelList>(&params, |app, result| match result {
            Ok(list) => {
                app.offer_successor(&list.data);
                app.announce(&list.data);
            }
            // The list is asked for again where the user wants to choose.
            Err(error) => {
                tracing::warn!(target: "tui", "the models cannot be listed: {}", error.message);
            }
        });
    }

    /// One of the list that the server gave.
    pub(super) fn choose_listed_model(&mut self, model: String) {
        self.switch_model(&model, None);
    }

    /// Uses a model if the provider's list has it, or the user insists: a request for a model that does not
    /// exist fails long after the mistake. A provider without a list is not doubted.
    pub(super) fn check_model(&mut self, model: String, effort: Option<ReasoningEffort>) {
        let is_certain = self.doubted_model.take().is_some_and(|doubted| doubted == model);
        if is_certain || !self.login.is_configured_provider() {
            return self.switch_model(&model, effort);
        }
        self.find_model(model, effort, None);
    }

    fn find_model(
        &mut self,
        model: String,
        effort: Option<ReasoningEffort>,
        cursor: Option<String>,
    ) {
        let is_first = cursor.is_none();
        let params = ModelListParams { include_hidden: Some(true), limit: Some(MODELS), cursor };
        self.call::<protocol::ModelList>(&params, move |app, result| {
            let list = match result {
                Ok(list) => list,
                Err(error) => return app.models_unknown(&model, effort, &error.message),
            };
            let is_listed = list.data.iter().any(|it| it.model == model || it.id == model);
            match list.next_cursor {
                _ if is_listed || is_first && list.data.is_empty() => {
                    app.switch_model(&model, effort);
                }
                Some(cursor) => app.find_model(model, effort, Some(cursor)),
                None => {
                    app.warning(&format!(
                        "The models of {} have no {model:?}: /model lists them. The same command again uses \
                         it all the same.",
                        app.login.provider(),
                    ));
                    app.doubted_model = Some(model);
                }
            }
        });
    }

    fn models_unknown(&mut self, model: &str, effort: Option<ReasoningEffort>, why: &str) {
        self.switch_model(model, effort);
        self.warning(&format!(
            "Whether it exists is not known, since the models cannot be listed: {why}"
        ));
    }

    fn switch_model(&mut self, model: &str, effort: Option<ReasoningEffort>) {
        self.use_model(model);
        let shown = effort.as_ref().map(word).unwrap_or_default();
        self.info(format!("From the next turn on: {model} {shown}").trim_end());
        if let Some(effort) = effort {
            self.overrides.effort = Some(effort);
            self.session.effort = Some(effort);
        }
    }

    /// From the next turn on.
    fn use_model(&mut self, model: &str) {
        model.clone_into(&mut self.session.model);
        self.overrides.model = Some(model.to_owned());
    }

    fn offer_successor(&mut self, models: &[Model]) {
        let old = self.session.model.clone();
        let Some(model) = models.iter().find(|it| it.model == old) else { return };
        let Some(new) = model.upgrade.clone() else { return };
        let notices = &self.notices;
        if notices.kept_models.contains(&old) || notices.migrations.get(&old) == Some(&new) {
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
            Offer::new("later", 'l', "Keep it for now (Esc)"),
        ];
        let ask = Ask::offer("A newer model", facts, offers);
        self.open_dialog_later(ask, move |app, reply| app.successor_chosen(&reply, &old, new));
    }

    fn successor_chosen(&mut self, reply: &Value, old: &str, new: String) {
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
        self.store_settings(values, move |app, stored| match stored {
            Ok(file) if uses => {
                app.info(&format!("From now on the model is {new}: stored in {file}."));
                app.use_model(&new);
            }
            Ok(file) => app.info(&format!("Not asked again: stored in {file}.")),
            Err(why) => app.error(&format!("It was not stored: {why}")),
        });
    }

    /// Announces a new model, a bounded number of times.
    fn announce(&mut self, models: &[Model]) {
        if !self.settings.tooltips {
            return;
        }
        let count = |model: &Model| self.notices.announced.get(&model.model).copied().unwrap_or(0);
        let new = models
            .iter()
            .find(|it| it.availability_nux.is_some() && !it.hidden && count(it) < ANNOUNCEMENTS);
        let Some((model, nux)) = new.and_then(|it| Some((it, it.availability_nux.as_ref()?)))
        else {
            return;
        };
        let shown = count(model) + 1;
        let name = model.model.clone();
        self.info(&format!("{}\n/model {name} uses it.", nux.message));
        self.notices.announced.insert(name.clone(), shown);
        let key = format!("tui.model_availability_nux.{}", quoted(&name));
        self.store_settings(vec![(key, json!(shown))], |app, stored| {
            if let Err(why) = stored {
                app.error(&format!("That the new model was announced was not stored: {why}"));
            }
        });
    }
}
