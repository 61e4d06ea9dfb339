//! Lists to choose from: threads and models.

use protocol::{
    ModelListParams, ModelListResponse, SortDirection, Thread, ThreadListCwdFilter,
    ThreadListParams, ThreadListResponse, ThreadSortKey, ThreadStartParams, ThreadTurnsListParams,
    ThreadTurnsListResponse, TurnItemsView,
};

use crate::app::App;
use crate::app::filling::{Choosing, What};
use crate::cells;
use crate::highlight;
use crate::picker::{Need, Outcome, PAGE, Picker, Row};
use crate::terminal::input::{Code, Key};

/// Time for which the rows of the previous search stay as they are, in milliseconds: those of the
/// next usually arrive within a few.
const LATE: u64 = 150;

impl App {
    /// Opens the list of threads.
    pub(super) fn choose_thread(&mut self) {
        let picker = Picker::new("Go on with a thread").with_folder_filter(true);
        self.choose(picker, What::Threads);
    }

    /// Asks for the models, which are few.
    pub(super) fn choose_model(&mut self) {
        let params = ModelListParams::default();
        self.call::<protocol::ModelList>(&params, |app, result| match result {
            Ok(models) => app.models_listed(models),
            Err(error) => app.error(&format!("The models cannot be listed: {}", error.message)),
        });
    }

    /// Opens the list of themes.
    pub(super) fn choose_theme(&mut self) {
        let row =
            |name: &str| Row { id: name.to_owned(), title: name.to_owned(), ..Row::default() };
        let mut picker =
            Picker::fixed("Choose a theme", highlight::theme_names().map(row).collect());
        if let Some(theme) = &self.settings.theme {
            picker.select(theme);
        }
        self.choose(picker, What::Themes);
    }

    /// Opens the list of the messages that wait.
    pub(super) fn choose_queued(&mut self) {
        let picker = Picker::fixed("Messages that wait for the end of the turn", self.queue.rows());
        let picker = picker.with_help("Enter edits, Delete removes, Esc closes");
        self.choose(picker, What::Queue);
    }

    /// Opens the list of the commands that run.
    pub(super) fn choose_terminal(&mut self) {
        let picker = Picker::fixed("Commands that run", self.terminal_rows());
        let picker = picker.with_help("Enter prints the output, Delete ends it, Esc closes");
        self.choose(picker, What::Terminals);
    }

    /// A list of what changes by itself shows it as it is.
    pub(super) fn refresh_list(&mut self) {
        let rows = match self.choosing.as_ref().map(|choosing| &choosing.what) {
            Some(What::Queue) => self.queue.rows(),
            Some(What::Terminals) => self.terminal_rows(),
            _ => return,
        };
        if rows.is_empty() {
            self.choosing = None;
            return;
        }
        let Some(choosing) = &mut self.choosing else { return };
        choosing.picker.set_rows(rows);
        let selected = choosing.picker.selected().map(|row| row.id.clone());
        if let (What::Terminals, Some(id)) = (&choosing.what, selected) {
            let lines = self.terminal_output(&id, self.size.rows);
            if let Some(choosing) = &mut self.choosing {
                choosing.picker.set_preview(id, lines);
            }
        }
    }

    /// Delete, in lists from which something can be removed.
    fn removes(&mut self, key: Key) {
        let Some(choosing) = &self.choosing else { return };
        let selected = choosing.picker.selected().map(|row| row.id.clone());
        match (&choosing.what, selected) {
            (What::Queue, Some(id)) if key.code == Code::Delete => {
                if let Ok(number) = id.parse() {
                    self.remove_queued(number);
                }
            }
            (What::Terminals, Some(id)) if key.code == Code::Delete => self.stop_terminal(&id),
            _ => self.provide(),
        }
    }

    /// Opens a list.
    pub(super) fn choose(&mut self, picker: Picker, what: What) {
        let cursors = (0, Vec::new());
        let choosing = Choosing { picker, what, cursors, previewed: None, late_at: None };
        self.choosing = Some(choosing);
        self.provide();
    }

    /// Returns whether an open list takes the key.
    pub(super) fn chooses(&mut self, key: Key) -> bool {
        let Some(choosing) = &mut self.choosing else { return false };
        match choosing.picker.key(key) {
            Outcome::Changed => self.provide(),
            Outcome::Ignored => self.removes(key),
            Outcome::Chosen(row) => {
                if let Some(Choosing { what, .. }) = self.choosing.take() {
                    self.chosen(what, row);
                }
            }
            Outcome::Cancelled => {
                self.choosing = None;
                // There has to be a thread.
                if self.session.id.is_none()
                    && let Some(start) = &self.start
                {
                    let overrides = start.overrides.clone();
                    self.start_thread(&ThreadStartParams::from(overrides));
                }
            }
        }
        true
    }

    fn chosen(&mut self, what: What, row: Row) {
        match what {
            What::Threads => {
                let overrides = self.start.take().map(|start| start.overrides);
                self.resume_thread(row.id, overrides.unwrap_or_default());
            }
            What::Models => self.choose_listed_model(row.id),
            What::Themes => self.set_theme(&row.id),
            What::Agents => self.read_agent(row.id),
            What::Queue => {
                if let Ok(number) = row.id.parse() {
                    self.edit_queued(number);
                }
            }
            What::Terminals => self.print_terminal(&row.id),
            What::Messages(messages) => self.message_chosen(&row, messages),
            What::Code(texts) => {
                if let Some(text) = row.id.parse::<usize>().ok().and_then(|at| texts.get(at)) {
                    self.copy_text(text);
                }
            }
        }
    }

    /// Asks for the rows and the preview that the list needs next.
    pub(super) fn provide(&mut self) {
        let Some(choosing) = &mut self.choosing else { return };
        if choosing.what != What::Threads {
            return;
        }
        let preview = choosing.picker.selected().map(|row| row.id.clone());
        let preview = preview.filter(|id| {
            choosing.picker.needs_preview() && choosing.previewed.as_ref() != Some(id)
        });
        if preview.is_some() {
            choosing.previewed.clone_from(&preview);
        }
        let need = choosing.picker.need();
        if let Some(need) = need {
            self.list_threads(need);
        }
        if let Some(thread_id) = preview {
            let params = ThreadTurnsListParams {
                thread_id: thread_id.clone(),
                cursor: None,
                limit: Some(1),
                sort_direction: Some(SortDirection::Desc),
                items_view: Some(TurnItemsView::Summary),
            };
            self.call::<protocol::ThreadTurnsList>(&params, move |app, result| {
                // Without a preview there is still the row.
                if let Ok(turns) = result {
                    app.previewed(&thread_id, turns);
                }
            });
        }
    }

    /// Asks for a page; for the first whose beginning is not known, where that comes before.
    fn list_threads(&mut self, need: Need) {
        let Some(choosing) = &mut self.choosing else { return };
        if choosing.cursors.0 != need.token || choosing.cursors.1.is_empty() {
            choosing.cursors = (need.token, vec![None]);
        }
        if choosing.picker.is_stale() && choosing.late_at.is_none() {
            choosing.late_at = Some(self.now + LATE);
        }
        let page = need.page.min(choosing.cursors.1.len() - 1);
        let cwd = need
            .only_folder
            .then(|| ThreadListCwdFilter::One(self.cwd.to_string_lossy().into_owned()));
        let params = ThreadListParams {
            cursor: choosing.cursors.1[page].clone(),
            limit: u32::try_from(PAGE).ok(),
            sort_key: Some(ThreadSortKey::UpdatedAt),
            sort_direction: Some(SortDirection::Desc),
            cwd,
            search_term: Some(need.search.clone()).filter(|search| !search.is_empty()),
            ..ThreadListParams::default()
        };
        let need = Need { page, ..need };
        self.call::<protocol::ThreadList>(&params, move |app, result| match result {
            Ok(list) => app.threads_listed(&need, list),
            Err(error) => {
                if let Some(choosing) = &mut app.choosing {
                    choosing.picker.set_failure(need.token, &error.message);
                }
            }
        });
    }

    /// Shows that the rows are those of the search before, where the next ones are late.
    pub(super) fn show_late_rows(&mut self) {
        if let Some(choosing) = &mut self.choosing
            && choosing.late_at.is_some_and(|at| self.now >= at)
        {
            choosing.late_at = None;
            choosing.picker.show_stale();
        }
    }

    fn threads_listed(&mut self, need: &Need, list: ThreadListResponse) {
        let rows = list.data.iter().map(|thread| self.row(thread)).collect();
        let Some(choosing) = &mut self.choosing else { return };
        if choosing.cursors.0 == need.token
            && choosing.cursors.1.len() == need.page + 1
            && list.next_cursor.is_some()
        {
            choosing.cursors.1.push(list.next_cursor);
        }
        choosing.picker.set_page(need.token, need.page, rows, None);
        if !choosing.picker.is_stale() {
            choosing.late_at = None;
        }
        self.provide();
    }

    fn previewed(&mut self, thread: &str, list: ThreadTurnsListResponse) {
        let context = self.context();
        let items = list.data.iter().flat_map(|turn| &turn.items);
        let lines = items.flat_map(|item| cells::finished(item, &context)).collect();
        if let Some(choosing) = &mut self.choosing {
            choosing.picker.set_preview(thread, lines);
        }
    }

    fn models_listed(&mut self, list: ModelListResponse) {
        let row = |model: protocol::Model| Row {
            id: model.model,
            title: model.display_name,
            detail: model.description,
            columns: Vec::new(),
        };
        let rows = list.data.into_iter().filter(|model| !model.hidden).map(row).collect();
        let mut picker = Picker::fixed("Choose a model", rows);
        picker.select(&self.session.model);
        self.choose(picker, What::Models);
    }

    fn row(&self, thread: &Thread) -> Row {
        let first = thread.preview.lines().next().unwrap_or_default().to_owned();
        let (title, detail) = match &thread.name {
            Some(name) => (name.clone(), first),
            None => (first, String::new()),
        };
        let now = self.environment.started_at.saturating_add_unsigned(self.now / 1_000);
        let age = u64::try_from(now.saturating_sub(thread.updated_at)).unwrap_or(0);
        let columns =
            vec![self.folder(&thread.cwd), format!("{} ago", cells::duration(age * 1_000))];
        Row { id: thread.id.clone(), title, detail, columns }
    }
}
