//! The rows of threads, read page by page. A search has two sources: first the threads whose name or first message
//! has the text, then those in which the words were said.

use protocol::{
    SortDirection, Thread, ThreadListCwdFilter, ThreadListParams, ThreadListResponse,
    ThreadSearchParams, ThreadSearchResponse, ThreadSortKey,
};

use crate::app::cursors::{Begin, Cursors};
use crate::app::lists;
use crate::app::program::App;
use crate::cells;
use crate::history;
use crate::picker::{Need, PAGE, Row};

/// Time for which the rows of the search before stay as they are, in milliseconds: those of the next usually come
/// within a few.
const LATE: u64 = 150;

/// A page that is being filled.
#[derive(Debug)]
struct Filling {
    need: Need,
    rows: Vec<Row>,
}

/// Asks for a page; for the first whose beginning is not known, where that comes before.
pub(super) fn provide(app: &mut App, need: &Need) {
    let Some(choosing) = app.filling.list_mut() else { return };
    let cursors = &mut choosing.cursors;
    if cursors.token != need.token || cursors.pages.is_empty() {
        *cursors = Cursors { token: need.token, pages: vec![Begin::Listed(None)] };
    }
    if choosing.picker.is_stale() && choosing.late_at.is_none() {
        choosing.late_at = Some(app.now + LATE);
    }
    let page = need.page.min(choosing.cursors.pages.len() - 1);
    let begin = choosing.cursors.pages[page].clone();
    let need = Need { page, ..need.clone() };
    fill(app, Filling { need, rows: Vec::new() }, begin);
}

/// Asks for the rows that the page still lacks.
fn fill(app: &mut App, filling: Filling, begin: Begin) {
    let limit = u32::try_from(PAGE - filling.rows.len()).ok();
    let only_folder = filling.need.only_folder;
    let cwd = only_folder.then(|| ThreadListCwdFilter::One(app.beginning.cwd_text()));
    let (sort_key, sort_direction) = (Some(ThreadSortKey::UpdatedAt), Some(SortDirection::Desc));
    let search = filling.need.search.trim().to_owned();
    match begin {
        Begin::Listed(cursor) => {
            let search_term = Some(search).filter(|search| !search.is_empty());
            let params = ThreadListParams {
                cursor,
                limit,
                sort_key,
                sort_direction,
                cwd,
                search_term,
                ..ThreadListParams::default()
            };
            app.call::<protocol::ThreadList>(&params, move |app, result| match result {
                Ok(page) => listed(app, filling, page),
                Err(error) => failed(app, filling, &error.message),
            });
        }
        Begin::Said(cursor) => {
            let params = ThreadSearchParams {
                search_term: search,
                cursor,
                limit,
                sort_key,
                sort_direction,
                cwd,
                ..ThreadSearchParams::default()
            };
            app.call::<protocol::ThreadSearch>(&params, move |app, result| match result {
                Ok(page) => found(app, filling, page),
                Err(error) => failed(app, filling, &error.message),
            });
        }
    }
}

fn listed(app: &mut App, mut filling: Filling, page: ThreadListResponse) {
    filling.rows.extend(page.data.iter().map(|thread| row(app, thread)));
    let is_searching = !filling.need.search.trim().is_empty();
    let next = match page.next_cursor {
        None if is_searching => Some(Begin::Said(None)),
        next => next.map(|cursor| Begin::Listed(Some(cursor))),
    };
    filled(app, filling, next);
}

fn found(app: &mut App, mut filling: Filling, page: ThreadSearchResponse) {
    let search = filling.need.search.trim();
    // Those of the first source came before.
    let is_listed = |thread: &Thread| {
        let mut texts = thread.name.iter().chain([&thread.preview]);
        texts.any(|text| history::find(text, search).is_some())
    };
    let new = page.data.iter().filter(|hit| !is_listed(&hit.thread));
    filling.rows.extend(new.map(|hit| {
        let said = hit.snippet.split_whitespace().collect::<Vec<_>>().join(" ");
        Row { detail: said, has_hit: true, ..row(app, &hit.thread) }
    }));
    if page.indexing && page.next_cursor.is_none() {
        app.notice(
            "Earlier turns are still being indexed for the search: more may be found later.",
        );
    }
    filled(app, filling, page.next_cursor.map(|cursor| Begin::Said(Some(cursor))));
}

/// Shows the rows so far, and asks for more while the page is not full.
fn filled(app: &mut App, filling: Filling, next: Option<Begin>) {
    let Filling { need, rows } = &filling;
    let Some(choosing) = app.filling.list_mut() else { return };
    if choosing.cursors.token != need.token {
        return;
    }
    let is_full = rows.len() >= PAGE;
    // An empty page would say that nothing is found.
    if is_full || next.is_none() || !rows.is_empty() {
        let total = next.is_none().then(|| need.page * PAGE + rows.len());
        choosing.picker.set_page(need.token, need.page, rows.clone(), total);
    }
    if !choosing.picker.is_stale() {
        choosing.late_at = None;
    }
    match next {
        Some(next) if is_full && choosing.cursors.pages.len() == need.page + 1 => {
            choosing.cursors.pages.push(next);
        }
        Some(next) if !is_full => fill(app, filling, next),
        _ => {}
    }
    lists::provide(app);
}

fn failed(app: &mut App, filling: Filling, why: &str) {
    let Filling { need, rows } = filling;
    let Some(choosing) = app.filling.list_mut() else { return };
    if !rows.is_empty() || need.page > 0 {
        choosing.picker.set_page(need.token, need.page, rows, None);
    }
    choosing.picker.set_failure(need.token, why);
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
    Row { id: thread.id.clone(), title, detail, has_hit: false, columns }
}
