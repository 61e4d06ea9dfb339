//! Lists that fill the screen, and the previews of threads.

use protocol::{SortDirection, ThreadTurnsListParams, ThreadTurnsListResponse, TurnItemsView};

use crate::app::cursors::Cursors;
use crate::app::filling::{Choosing, What};
use crate::app::program::App;
use crate::app::thread_rows;
use crate::cells;
use crate::picker::Picker;

/// Opens the list of threads.
pub(super) fn choose_thread(app: &mut App) {
    let picker = Picker::new("Resume a thread").with_folder_filter(true);
    choose(app, picker, What::Threads);
}

/// `/search`: opens the list of threads with what was said in them, of all folders.
pub(super) fn search_threads(app: &mut App, words: &str) {
    let picker = Picker::new("Search what was said").with_folder_filter(false).with_search(words);
    choose(app, picker, What::Threads);
}

/// Opens a list.
pub(super) fn choose(app: &mut App, picker: Picker, what: What) {
    let cursors = Cursors::default();
    let choosing = Choosing { picker, what, cursors, previewed: None, late_at: None };
    app.filling.open_list(choosing);
    provide(app);
}

/// Asks for the rows and the preview that the list needs next.
pub(super) fn provide(app: &mut App) {
    let Some(choosing) = app.filling.list_mut() else { return };
    if choosing.what != What::Threads {
        return;
    }
    let preview = choosing.picker.selected().map(|row| row.id.clone());
    let preview = preview
        .filter(|id| choosing.picker.needs_preview() && choosing.previewed.as_ref() != Some(id));
    if preview.is_some() {
        choosing.previewed.clone_from(&preview);
    }
    let need = choosing.picker.need();
    if let Some(need) = need {
        thread_rows::provide(app, &need);
    }
    if let Some(thread_id) = preview {
        let params = ThreadTurnsListParams {
            thread_id: thread_id.clone(),
            cursor: None,
            limit: Some(1),
            sort_direction: Some(SortDirection::Desc),
            items_view: Some(TurnItemsView::Summary),
        };
        app.call::<protocol::ThreadTurnsList>(&params, move |app, result| {
            // Without a preview there is still the row.
            if let Ok(turns) = result {
                previewed(app, &thread_id, turns);
            }
        });
    }
}

/// Shows that the rows are those of the search before, where the next ones are late.
pub(super) fn show_late_rows(app: &mut App) {
    if let Some(choosing) = app.filling.list_mut()
        && choosing.late_at.is_some_and(|at| app.now >= at)
    {
        choosing.late_at = None;
        choosing.picker.show_stale();
    }
}

fn previewed(app: &mut App, thread: &str, list: ThreadTurnsListResponse) {
    let context = app.context();
    let items = list.data.iter().flat_map(|turn| &turn.items);
    let lines = items.flat_map(|item| cells::finished(item, &context)).collect();
    if let Some(choosing) = app.filling.list_mut() {
        choosing.picker.set_preview(thread, lines);
    }
}
