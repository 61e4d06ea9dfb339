//! The two requests of each form, and the answers to them.

use axum::extract::Request;
use axum::response::{Html, IntoResponse, Redirect, Response};
use hyper::StatusCode;
use serde_json::Value;

use super::super::api::{Call, Refusal};
use super::super::notice::Notice;
use super::super::page::{Failure, Frame};
use super::entered::Entered;
use super::form::{Errors, Form, content};
use super::secret;
use super::visit::Visit;
use gateway_store::records::conditions::{Conditions, Version};

/// A change that a form makes: the record that it concerns, its form, and the request to the API.
pub(super) trait Edit: Sized + Send + Sync + 'static {
    /// The address, with the ids of the record.
    const PATH: &'static str;

    /// Reads the record.
    fn open(visit: &Visit) -> impl Future<Output = Result<Self, Failure>> + Send;

    /// The form, filled with the record's values.
    fn form(&self, visit: &Visit) -> Form;

    /// The request to the API.
    ///
    /// # Errors
    /// The values cannot be a request: the API does not know their notation.
    fn call(&self, visit: &Visit, entered: &Entered) -> Result<Call, Errors>;

    /// The answer after the change.
    fn done(&self, visit: &Visit, answer: &Value) -> Done;
}

/// The answer after a change.
pub(super) enum Done {
    /// Leads to a page with a notice.
    At(Notice, String),
    /// Shows the text of a new key, once. The second text is the address of the project's page.
    Secret(Value, String),
}

/// `GET`.
pub(super) async fn show<E: Edit>(visit: Visit) -> Result<Html<String>, Failure> {
    let form = E::open(&visit).await?.form(&visit);
    let random = &*visit.services().random;
    let token = visit.access.forms.issue(&visit.path, visit.seconds(), random);
    Ok(page(&visit, &form, &token, None, &Errors::default()))
}

/// `POST`.
pub(super) async fn send<E: Edit>(visit: Visit, request: Request) -> Result<Response, Failure> {
    let entered = Entered::read(&visit, request).await?;
    let record = E::open(&visit).await?;
    let form = record.form(&visit);
    let again = |form: &Form, status: StatusCode, errors: &Errors| {
        (status, page(&visit, form, entered.token(), Some(&entered), errors)).into_response()
    };
    let call = match record.call(&visit, &entered) {
        Ok(call) => call,
        Err(errors) => return Ok(again(&form, StatusCode::BAD_REQUEST, &errors)),
    };
    let expected = form.version.as_ref().map(|_| Version::from_text(entered.one("version")));
    let conditions = Conditions { once: Some(entered.number.clone()), expected };
    let refusal = match visit.call(call, conditions).await {
        Ok(answer) => return Ok(record.done(&visit, &answer).respond(&visit)),
        Err(refusal) => refusal,
    };
    match refusal.code.as_str() {
        "already_done" => {
            let back = form.above.last().map_or("/dashboard", |(page, _)| page.as_str());
            Ok(Redirect::to(&Notice::REPEATED.at(back)).into_response())
        }
        "record_changed" => {
            let form = E::open(&visit).await?.form(&visit);
            let errors = Errors { is_changed: true, ..Errors::default() };
            Ok(again(&form, StatusCode::CONFLICT, &errors))
        }
        _ => match refusal.status.as_u16() {
            400 | 404 | 503 => Ok(again(&form, refusal.status, &reasons(&form, &refusal))),
            _ => Err(refusal.into()),
        },
    }
}

fn page(
    visit: &Visit,
    form: &Form,
    token: &str,
    entered: Option<&Entered>,
    errors: &Errors,
) -> Html<String> {
    let mark = if errors.are_none() { "" } else { "Error: " };
    let title = &format!("{mark}{}", form.title);
    let frame = Frame { title, access: Some(&visit.access), refresh: None };
    frame.around(&content(form, (&visit.path, token), entered, errors))
}

/// The reason of a refusal: at its field if the form has it, or of the form.
fn reasons(form: &Form, refusal: &Refusal) -> Errors {
    let param = refusal.param.as_deref().unwrap_or_default();
    let is_field = form.fields.iter().any(|field| field.name == param);
    let reason = match refusal.code.as_str() {
        "missing_required_parameter" if is_field => "This field is needed.".to_owned(),
        _ => plain(&refusal.message, param),
    };
    match is_field {
        true => Errors::of_field(param, reason),
        false => Errors { whole: Some(reason), ..Errors::default() },
    }
}

/// The message of the API without the name of the parameter, which stands at its field.
fn plain(message: &str, param: &str) -> String {
    let start = format!("Invalid value for `{param}`: ");
    let rest = message.strip_prefix(&start).unwrap_or(message);
    let mut chars = rest.chars();
    let first = chars.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    first + chars.as_str()
}

impl Done {
    fn respond(self, visit: &Visit) -> Response {
        match self {
            Self::At(notice, page) => Redirect::to(&notice.at(&page)).into_response(),
            Self::Secret(key, project) => secret::page(visit, &key, &project).into_response(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_start_at_their_reason() {
        let message = "Invalid value for `name`: expected a text.";
        assert_eq!(plain(message, "name"), "Expected a text.");
        assert_eq!(plain("There is not a key.", ""), "There is not a key.");
        assert_eq!(plain("", "name"), "");
    }
}
