//! The page with the text of a new key. It is the answer to the form, which is sent once: no address
//! leads to it, no cache keeps it, and reloading it makes no other key.

use axum::response::Html;
use maud::html;
use serde_json::Value;

use super::super::page::Frame;
use super::super::text::query_value;
use super::visit::Visit;

/// The page of a new key, in the API's form.
pub(super) fn page(visit: &Visit, key: &Value, project: &str) -> Html<String> {
    let text = |name: &str| key[name].as_str().unwrap_or_default();
    let frame = Frame { title: "New key", access: Some(&visit.access), refresh: None };
    frame.around(&html! {
        div.form {
            h1 { "New key: " (text("name")) }
            p.notice role="status" {
                strong { "Copy the key now. " }
                "This page is the only place that shows it. A lost key cannot be shown again, only replaced."
            }
            div.card.fields {
                div.field {
                    label for="secret" { "Key" }
                    input #secret.mono type="text" readonly value=(text("value"))
                        autocomplete="off" spellcheck="false" autofocus;
                }
                p.hint { "Id: " code { (text("id")) } }
                div.actions {
                    a href={ (project) "/keys/" (query_value(text("id"))) } { "The key's page" }
                    a href=(project) { "Back to the project" }
                }
            }
        }
    })
}
