//! Lists that fill the screen, and the rows of threads, which are read page by page.

use protocol::{
    SortDirection, Thread, ThreadListCwdFilter, ThreadListParams, ThreadListResponse,
    ThreadSortKey, ThreadTurnsListParams, ThreadTurnsListResponse, TurnItemsView,
};

use crate::app::filling::{Choosing, What};
use crate::app::program::App;
use crate::cells;
use crate::picker::{Need, PAGE, Picker, Row};

/// Time for which the rows of the search before stay as they are, in milliseconds: those of the next usually come
/// within a few.
const LATE: u64 = 150;

/// Opens the list of threads.
pub(super) fn choose_thread(app: &mut App) {
    let picker = Picker::new("Resume a thread").with_folder_filter(true);
    choose(app, picker, What::Threads);
}

/// Opens a list.
pub(super) fn choose(app: &mut App, picker: Picker, what: What) {
    let cursors = (0, Vec::new());
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
        list_threads(app, need);
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

/// Asks for a page; for the first whose beginning is not known, where that comes before.
fn list_threads(app: &mut App, need: Need) {
    let Some(choosing) = app.filling.list_mut() else { return };
    if choosing.cursors.0 != need.token || choosing.cursors.1.is_empty() {
        choosing.cursors = (need.token, vec![None]);
    }
    if choosing.picker.is_stale() && choosing.late_at.is_none() {
        choosing.late_at = Some(app.now + LATE);
    }
    let page = need.page.min(choosing.cursors.1.len() - 1);
    let cursor = choosing.cursors.1[page].clone();
    let cwd = need.only_folder.then(|| ThreadListCwdFilter::One(app.beginning.cwd_text()));
    let params = ThreadListParams {
        cursor,
        limit: u32::try_from(PAGE).ok(),
        sort_key: Some(ThreadSortKey::UpdatedAt),
        sort_direction: Some(SortDirection::Desc),
        cwd,
        search_term: Some(need.search.clone()).filter(|search| !search.is_empty()),
        ..ThreadListParams::default()
    };
    let need = Need { page, ..need };
    app.call::<protocol::ThreadList>(&params, move |app, result| match result {
        Ok(list) => threads_listed(app, &need, list),
        Err(error) => {
            if let Some(choosing) = app.filling.list_mut() {
                choosing.picker.set_failure(need.token, &error.message);
            }
        }
    });
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

fn threads_listed(app: &mut App, need: &Need, list: ThreadListResponse) {
    let rows = list.data.iter().map(|thread| row(app, thread)).collect();
    let Some(choosing) = app.filling.list_mut() else { return };
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
    provide(app);
}

fn previewed(app: &mut App, thread: &str, list: ThreadTurnsListResponse) {
    let context = app.context();
    let items = list.data.iter().flat_map(|turn| &turn.items);
    let lines = items.flat_map(|item| cells::finished(item, &context)).collect();
    if let Some(choosing) = app.filling.list_mut() {
        choosing.picker.set_preview(thread, lines);
    }
}

fn row(app: &App, thread: &Thread) -> Row {
    let first = thread.preview.lines().next().unwrap_or_default().to_owned();
    let (title, detail) = match &thread.name {
        Some(name) => (name.clone(), first),
        None => (first, String::new()),
    };
    let now = app.environment.started_at.saturating_add_unsigned(app.now / 1_000);
    let age = u64::try_from(now.saturating_sub(thread.updated_at)).unwrap_or(0);
    let columns = vec![app.folder(&thread.cwd), format!("{} ago", cells::duration(age * 1_000))];
    Row { id: thread.id.clone(), title, detail, columns }
}
