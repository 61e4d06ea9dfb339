//! A form and its fields, as HTML: each field has a label, a hint and, after a refusal, the reason.

use std::borrow::Cow;

use maud::{Markup, html};

use super::entered::Entered;
use gateway_store::records::conditions::Version;

/// A form that changes a record.
pub(super) struct Form {
    /// The heading of its page.
    pub(super) title: String,
    /// Pages above it: their addresses and names.
    pub(super) above: Vec<(String, String)>,
    /// The text above the fields.
    pub(super) intro: Markup,
    pub(super) fields: Vec<Field>,
    /// The version of the record; `None`: the form creates one.
    pub(super) version: Option<Version>,
    /// The name of the button.
    pub(super) submit: &'static str,
    /// True if its effect cannot be undone.
    pub(super) is_final: bool,
}

/// A field. Its name is that of the API's parameter.
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) label: Cow<'static, str>,
    pub(super) hint: Cow<'static, str>,
    pub(super) control: Control,
    /// The record's values; more than one only with [`Control::Checks`].
    pub(super) values: Vec<String>,
    pub(super) is_required: bool,
}

/// The control of a field.
pub(super) enum Control {
    /// A line of text.
    Text,
    /// A whole number.
    Count,
    /// An amount of dollars.
    Dollars,
    /// One of these values, with their names.
    Choice(Vec<(String, String)>),
    /// Any of these values, with their names.
    Checks(Vec<(String, String)>),
}

impl Field {
    pub(super) fn new(
        name: &'static str,
        label: impl Into<Cow<'static, str>>,
        control: Control,
    ) -> Self {
        let (label, hint, values) = (label.into(), "".into(), Vec::new());
        Self { name, label, hint, control, values, is_required: false }
    }

    pub(super) fn hint(self, hint: impl Into<Cow<'static, str>>) -> Self {
        Self { hint: hint.into(), ..self }
    }

    pub(super) fn value(self, value: impl Into<String>) -> Self {
        Self { values: vec![value.into()], ..self }
    }

    pub(super) fn values(self, values: Vec<String>) -> Self {
        Self { values, ..self }
    }

    pub(super) fn required(self) -> Self {
        Self { is_required: true, ..self }
    }

    /// A display name.
    pub(super) fn name(value: &str) -> Self {
        let hint = "1 to 256 characters.";
        Self::new("name", "Name", Control::Text).hint(hint).value(value).required()
    }
}

/// Why a form is shown again.
#[derive(Debug, Default)]
pub(super) struct Errors {
    /// Reasons by field.
    pub(super) fields: Vec<(String, String)>,
    /// The reason of the form as a whole.
    pub(super) whole: Option<String>,
    /// True if somebody else has changed the record.
    pub(super) is_changed: bool,
}

impl Errors {
    pub(super) fn of_field(name: &str, reason: impl Into<String>) -> Self {
        Self { fields: vec![(name.to_owned(), reason.into())], ..Self::default() }
    }

    pub(super) fn are_none(&self) -> bool {
        self.fields.is_empty() && self.whole.is_none() && !self.is_changed
    }

    fn of(&self, field: &Field) -> Option<&str> {
        let found = self.fields.iter().find(|(name, _)| *name == field.name);
        found.map(|(_, reason)| reason.as_str())
    }
}

/// The content of a form's page. `entered` are the values of a refused form.
pub(super) fn content(
    form: &Form,
    (path, token): (&str, &str),
    entered: Option<&Entered>,
    errors: &Errors,
) -> Markup {
    let first_wrong = form.fields.iter().find(|field| errors.of(field).is_some());
    let focus = first_wrong.or_else(|| form.fields.first().filter(|_| errors.are_none()));
    let focus = focus.map_or("", |field| field.name);
    html! {
        nav.crumbs aria-label="Breadcrumb" {
            @for (href, name) in &form.above { a href=(href) { (name) } }
        }
        div.form {
            h1 { (form.title) }
            (reasons(errors, first_wrong.is_some()))
            div.prose { (form.intro) }
            form.card.fields method="post" action=(path) {
                input type="hidden" name="form" value=(token);
                @if let Some(version) = &form.version {
                    input type="hidden" name="version" value=(version.as_text());
                }
                @for field in &form.fields {
                    (draw(field, entered, errors, field.name == focus))
                }
                div.actions {
                    button.primary[!form.is_final].danger[form.is_final] type="submit" {
                        (form.submit)
                    }
                    @if let Some((href, _)) = form.above.last() { a href=(href) { "Cancel" } }
                }
            }
        }
    }
}

fn reasons(errors: &Errors, has_field: bool) -> Markup {
    html! {
        @if errors.is_changed {
            p.notice.bad role="alert" tabindex="-1" autofocus {
                strong { "Not saved. " }
                "Somebody else has changed this since you opened it. Check the values below: if you save \
                again, yours replace the present ones."
            }
        } @else if let Some(whole) = &errors.whole {
            p.notice.bad role="alert" tabindex="-1" autofocus {
                strong { "Not accepted. " } (whole)
            }
        } @else if has_field {
            p.notice.bad role="alert" { strong { "Not accepted. " } "Check the marked field." }
        }
    }
}

fn draw(field: &Field, entered: Option<&Entered>, errors: &Errors, has_focus: bool) -> Markup {
    let values: Vec<&str> = match entered {
        Some(entered) => entered.all(field.name).collect(),
        None => field.values.iter().map(String::as_str).collect(),
    };
    let (error, id) = (errors.of(field), format!("field-{}", field.name));
    let now = errors.is_changed && values.join("\n") != field.values.join("\n");
    let parts = [("hint", !field.hint.is_empty()), ("error", error.is_some()), ("now", now)];
    let described: Vec<String> = parts
        .iter()
        .filter(|(_, is_there)| *is_there)
        .map(|(part, _)| format!("{id}-{part}"))
        .collect();
    let described = Some(described.join(" ")).filter(|ids| !ids.is_empty());
    let invalid = error.map(|_| "true");
    let texts = html! {
        @if !field.hint.is_empty() { p.hint id={ (id) "-hint" } { (field.hint) } }
        @if let Some(error) = error { p.error id={ (id) "-error" } { (error) } }
        @if now { p.error id={ (id) "-now" } { "Present value: " (present(field)) } }
    };
    if let Control::Checks(options) = &field.control {
        return html! {
            fieldset aria-describedby=[described] {
                legend { (field.label) }
                (texts)
                @for (at, (value, name)) in options.iter().enumerate() {
                    label.check {
                        input type="checkbox" name=(field.name) value=(value)
                            checked[values.contains(&value.as_str())]
                            autofocus[has_focus && at == 0] aria-invalid=[invalid];
                        " " (name)
                    }
                }
            }
        };
    }
    let value = values.first().copied().unwrap_or_default();
    html! {
        div.field {
            label for=(id) { (field.label) @if !field.is_required { " " span.hint { "optional" } } }
            (texts)
            @if let Control::Choice(options) = &field.control {
                select id=(id) name=(field.name) autofocus[has_focus]
                    aria-describedby=[described] aria-invalid=[invalid] {
                    @for (option, name) in options {
                        option value=(option) selected[option.as_str() == value] { (name) }
                    }
                }
            } @else {
                input id=(id) name=(field.name) type="text" value=(value) autocomplete="off"
                    inputmode=[field.control.keyboard()] required[field.is_required]
                    autofocus[has_focus] aria-describedby=[described] aria-invalid=[invalid];
            }
        }
    }
}

impl Control {
    /// The keyboard that phones show.
    fn keyboard(&self) -> Option<&'static str> {
        match self {
            Self::Count => Some("numeric"),
            // The numeric keyboards of some phones have no minus sign.
            Self::Text | Self::Dollars | Self::Choice(_) | Self::Checks(_) => None,
        }
    }
}

/// The record's values, by name.
fn present(field: &Field) -> String {
    let named = |value: &String| match &field.control {
        Control::Choice(options) | Control::Checks(options) => {
            let found = options.iter().find(|(option, _)| option == value);
            found.map_or_else(|| value.clone(), |(_, name)| name.clone())
        }
        _ => value.clone(),
    };
    let names: Vec<String> = field.values.iter().map(named).collect();
    match names.join(", ") {
        none if none.is_empty() => "none".to_owned(),
        names => names,
    }
}
