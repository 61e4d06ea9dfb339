//! `…/videos`: jobs that finish immediately, without content.

use hyper::StatusCode;
use serde_json::{Value, json};

use super::{
    kept::PAGE,
    offline::{Call, Offline, not_served},
    reply::{Answered, Refused, Reply},
};

/// Most bytes of a text in a request.
const MAX_TEXT: usize = 32_000;

impl Offline {
    pub(super) fn videos(&self, method: &str, path: &[&str], call: &Call<'_>) -> Answered {
        let unknown = |id: &str| Refused::unknown("video", id);
        match (method, path) {
            ("POST", []) => self.make_video(call, None),
            ("POST", ["edits"]) => self.make_video(call, None),
            ("POST", [id, "remix"]) => self.make_video(call, Some(id)),
            ("GET", []) => {
                let page = self.kept().videos.page(&call.query, PAGE, |video| Some(video.clone()));
                page.map(Reply::Json)
            }
            ("GET", [id]) => {
                let kept = self.kept();
                let video = kept.videos.get(id).ok_or_else(|| unknown(id))?;
                Ok(Reply::Json(video.clone()))
            }
            ("GET", [_, "content"]) => {
                let message = "The offline model makes no pictures that move.";
                Err(Refused::new(StatusCode::NOT_FOUND, "not_supported", message))
            }
            ("DELETE", [id]) => {
                self.kept().videos.remove(id).ok_or_else(|| unknown(id))?;
                Ok(Reply::Json(json!({"id": id, "object": "video.deleted", "deleted": true})))
            }
            _ => Err(not_served(method, &format!("/videos/{}", path.join("/")))),
        }
    }

    fn make_video(&self, call: &Call<'_>, remixed: Option<&str>) -> Answered {
        let body = match call.is_form() {
            true => {
                let form = call.form()?;
                let texts = ["prompt", "model", "seconds", "size"].into_iter();
                let field = |name: &str| Some((name.to_owned(), form.text(name)?.into()));
                Value::Object(texts.filter_map(field).collect())
            }
            false => call.json()?,
        };
        let text = |name: &str, other: &str| body[name].as_str().unwrap_or(other).to_owned();
        if body["prompt"].as_str().is_none_or(str::is_empty) {
            return Err(Refused::value("prompt", "`prompt` is missing."));
        }
        if ["prompt", "model", "seconds", "size"].iter().any(|name| text(name, "").len() > MAX_TEXT)
        {
            return Err(Refused::value("prompt", "`prompt` has at most 32000 bytes."));
        }
        let (id, now) = (self.id("video_"), self.now());
        let video = json!({"id": id, "object": "video", "model": text("model", "offline"),
            "status": "completed", "progress": 100, "created_at": now, "completed_at": now,
            "expires_at": null, "seconds": text("seconds", "4"), "size": text("size", "720x1280"),
            "prompt": body["prompt"], "remixed_from_video_id": remixed, "error": null});
        self.kept().videos.push(id, video.clone(), 4 * MAX_TEXT);
        Ok(Reply::Json(video))
    }
}
