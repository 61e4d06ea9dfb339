//! Forms of the keys of a project: created, rotated, given an expiry and revoked.

use maud::{Markup, html};
use serde_json::{Value, json};

use super::super::api::Call;
use super::super::notice::Notice;
use super::super::page::Failure;
use super::edit::{Done, Edit};
use super::entered::Entered;
use super::form::{Control, Errors, Field, Form};
use super::visit::Visit;
use super::{expiry, model_list};
use gateway_policy::tenants::Organization;
use gateway_store::records::conditions::Version;
use gateway_store::records::keys::Key;
use gateway_store::records::projects::Stored;
use gateway_store::records::versions::Versioned;

/// A new key.
pub(super) struct Create {
    organization: Organization,
    project: Stored,
}

impl Edit for Create {
    const PATH: &'static str = "/dashboard/organizations/{id}/projects/{project}/keys/new";

    async fn open(visit: &Visit) -> Result<Self, Failure> {
        let organization = visit.organization().await?;
        let project = visit.project(&organization).await?;
        Ok(Self { organization, project })
    }

    fn form(&self, visit: &Visit) -> Form {
        let settings = visit.services().settings.load();
        let mut fields = vec![Field::name(""), expiry::field(Some("Never"))];
        fields.extend(model_list::fields(&settings, None, "All models of the project"));
        Form {
            title: format!("New key of {}", self.project.project.name),
            above: visit.above_project(&self.organization, &self.project),
            intro: html! { p { "The next page shows the key, once." } },
            fields,
            version: None,
            submit: "Create key",
            is_final: false,
        }
    }

    fn call(&self, visit: &Visit, entered: &Entered) -> Result<Call, Errors> {
        let body = json!({
            "name": entered.one("name"),
            "expires_in_seconds": expiry::value(entered),
            "model_permissions": model_list::value(entered)?,
        });
        Ok(Call::post(format!("{}/api_keys", visit.project_path()), body))
    }

    fn done(&self, visit: &Visit, answer: &Value) -> Done {
        Done::Secret(answer.clone(), visit.project_page())
    }
}

/// A key that exists.
pub(super) struct Existing {
    organization: Organization,
    project: Stored,
    pub(super) key: Key,
    version: Version,
}

impl Existing {
    pub(super) async fn open(visit: &Visit) -> Result<Self, Failure> {
        let organization = visit.organization().await?;
        let project = visit.project(&organization).await?;
        let version = visit.version(Versioned::Key(visit.name("key"))).await?;
        let key = visit.key(&project).await?;
        Ok(Self { organization, project, key, version })
    }

    pub(super) fn form(&self, visit: &Visit, title: &str, submit: &'static str) -> Form {
        let mut above = visit.above_project(&self.organization, &self.project);
        above.push((visit.key_page(), self.key.name.to_string()));
        Form {
            title: format!("{title} {}", self.key.name),
            above,
            intro: self.which(),
            fields: Vec::new(),
            version: Some(self.version.clone()),
            submit,
            is_final: false,
        }
    }

    fn which(&self) -> Markup {
        html! { p { "The key " code { (self.key.redacted) } " of " (self.project.project.name) "." } }
    }
}

/// When a key expires.
pub(super) struct Expire(Existing);

impl Edit for Expire {
    const PATH: &'static str = "/dashboard/organizations/{id}/projects/{project}/keys/{key}/expiry";

    async fn open(visit: &Visit) -> Result<Self, Failure> {
        Existing::open(visit).await.map(Self)
    }

    fn form(&self, visit: &Visit) -> Form {
        let fields = vec![expiry::field(None)];
        Form { fields, ..self.0.form(visit, "Expiry of", "Save") }
    }

    fn call(&self, visit: &Visit, entered: &Entered) -> Result<Call, Errors> {
        let body = json!({ "expires_in_seconds": expiry::value(entered) });
        Ok(Call::post(visit.key_path(), body))
    }

    fn done(&self, visit: &Visit, _: &Value) -> Done {
        Done::At(Notice::SAVED, visit.key_page())
    }
}

/// The replacement of a key by a new one.
pub(super) struct Rotate(Existing);

impl Edit for Rotate {
    const PATH: &'static str = "/dashboard/organizations/{id}/projects/{project}/keys/{key}/rotate";

    async fn open(visit: &Visit) -> Result<Self, Failure> {
        Existing::open(visit).await.map(Self)
    }

    fn form(&self, visit: &Visit) -> Form {
        let offered = [
            ("0", "Now"),
            ("3600", "In an hour"),
            ("86400", "In a day"),
            ("604800", "In 7 days"),
            ("2592000", "In 30 days"),
        ];
        let offered = offered.map(|(value, name)| (value.to_owned(), name.to_owned())).into();
        let fields = vec![
            Field::new("grace_seconds", "The old key is refused", Control::Choice(offered))
                .value("86400")
                .required(),
        ];
        let intro = html! {
            (self.0.which())
            p {
                "A new key with the same name, owner, expiry and models replaces it. The next page shows the new \
                key, once."
            }
        };
        Form { fields, intro, ..self.0.form(visit, "Rotate", "Rotate key") }
    }

    fn call(&self, visit: &Visit, entered: &Entered) -> Result<Call, Errors> {
        let body = json!({ "grace_seconds": entered.count("grace_seconds") });
        Ok(Call::post(format!("{}/rotate", visit.key_path()), body))
    }

    fn done(&self, visit: &Visit, answer: &Value) -> Done {
        Done::Secret(answer.clone(), visit.project_page())
    }
}

/// The end of a key.
pub(super) struct Revoke(Existing);

impl Edit for Revoke {
    const PATH: &'static str = "/dashboard/organizations/{id}/projects/{project}/keys/{key}/revoke";

    async fn open(visit: &Visit) -> Result<Self, Failure> {
        Existing::open(visit).await.map(Self)
    }

    fn form(&self, visit: &Visit) -> Form {
        let intro = html! {
            (self.0.which())
            p {
                "Requests with it are refused from then on. " strong { "This cannot be undone." }
                " To replace a key without an interruption, rotate it."
            }
        };
        let form = self.0.form(visit, "Revoke", "Revoke key");
        Form { intro, is_final: true, ..form }
    }

    fn call(&self, visit: &Visit, _: &Entered) -> Result<Call, Errors> {
        Ok(Call::delete(visit.key_path()))
    }

    fn done(&self, visit: &Visit, _: &Value) -> Done {
        Done::At(Notice::REVOKED, visit.project_page())
    }
}
