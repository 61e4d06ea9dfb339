//! `…/files`: uploaded files stay in memory until they are deleted or the server ends.

use bytes::Bytes;
use hyper::StatusCode;
use serde_json::json;

use super::{
    kept::FILES_PAGE,
    objects::File,
    offline::{Call, Offline, not_served},
    reply::{Answered, Refused, Reply},
};

impl Offline {
    pub(super) fn files(&self, method: &str, path: &[&str], call: &Call<'_>) -> Answered {
        match (method, path) {
            ("POST", []) => self.upload(call),
            ("GET", []) => {
                let purpose = call.query.get("purpose");
                let wanted = |file: &File| {
                    purpose.as_deref().is_none_or(|purpose| file.object["purpose"] == purpose)
                };
                let shown = |file: &File| wanted(file).then(|| file.object.clone());
                self.kept().files.page(&call.query, FILES_PAGE, shown).map(Reply::Json)
            }
            ("GET", [id]) => self.with_file(id, |file| Reply::Json(file.object.clone())),
            ("GET", [id, "content"]) => self.with_file(id, |file| {
                Reply::Bytes("application/octet-stream", file.content.clone())
            }),
            ("DELETE", [id]) => {
                let removed = self.kept().files.remove(id);
                removed.ok_or_else(|| Refused::unknown("file", id))?;
                Ok(Reply::Json(json!({"id": id, "object": "file", "deleted": true})))
            }
            _ => Err(not_served(method, &format!("/files/{}", path.join("/")))),
        }
    }

    fn with_file(&self, id: &str, show: impl Fn(&File) -> Reply) -> Answered {
        self.kept().files.get(id).map(show).ok_or_else(|| Refused::unknown("file", id))
    }

    fn upload(&self, call: &Call<'_>) -> Answered {
        let form = call.form()?;
        let file = form.file("file")?;
        let purpose = form
            .text("purpose")
            .ok_or_else(|| Refused::value("purpose", "`purpose` is missing."))?;
        let id = self.id("file-");
        let object = json!({"id": id, "object": "file", "bytes": file.content.len(),
            "created_at": self.now(), "expires_at": null, "filename": file.file_name,
            "purpose": purpose, "status": "processed", "status_details": null});
        let mut kept = self.kept();
        if !kept.files.fits(file.content.len()) {
            let message = "The offline model keeps 1000 files of 256 MiB together; delete some.";
            return Err(Refused::new(StatusCode::BAD_REQUEST, "storage_full", message));
        }
        let content = Bytes::copy_from_slice(file.content);
        kept.files.push(id, File { object: object.clone(), content }, file.content.len());
        Ok(Reply::Json(object))
    }
}
