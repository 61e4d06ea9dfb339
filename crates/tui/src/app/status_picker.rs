//! `/statusline`: which items the status line has, and in which order. The line itself is the preview.

use serde_json::{Value, json};

use crate::app::{App, status};
use crate::ask::{Ask, CheckItem};
use crate::text::Line;

impl App {
    pub(super) fn choose_status_line(&mut self, _: &str) {
        let before = self.settings.status_line.clone();
        let item = |id: &str, is_checked| CheckItem {
            id: id.to_owned(),
            detail: status::detail(id).unwrap_or("not known by this version").to_owned(),
            is_checked,
        };
        let mut items: Vec<CheckItem> = before.iter().map(|id| item(id, true)).collect();
        let others = status::ITEMS
            .iter()
            .filter(|(id, _)| !before.iter().any(|shown| status::is_same(shown, id)));
        items.extend(others.map(|(id, _)| item(id, false)));
        let facts = vec![Line::plain("The line below shows how it would look.")];
        let ask = Ask::checklist("The status line", facts, items);
        let preview = |app: &mut Self, checked| app.settings.status_line = checked;
        self.open_checklist(ask, preview, move |app, reply| match reply {
            Value::Array(_) => app.store_status_line(reply, before),
            _ => app.settings.status_line = before,
        });
    }

    fn store_status_line(&mut self, items: Value, before: Vec<String>) {
        let values = vec![("tui.status_line".to_owned(), json!(items))];
        self.store_settings(values, |app, stored| match stored {
            Ok(file) => app.info(&format!("Stored: `tui.status_line` in {file}.")),
            Err(why) => {
                app.settings.status_line = before;
                app.error(&format!("The status line was not stored: {why}"));
            }
        });
    }
}
