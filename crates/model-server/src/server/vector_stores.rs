//! `…/vector_stores`: the files of each store, in memory. Nothing is indexed or searched; every
//! file is ready immediately.

use hyper::StatusCode;
use serde_json::{Value, json};

use super::{
    kept::{Kept, PAGE},
    objects::VectorStore,
    offline::{Call, Objects, Offline, not_served, text},
    reply::{Answered, Refused, Reply},
};

/// Most files, and most batches, per store.
const MAX_FILES: usize = 10_000;
/// Most bytes of a request's properties of a store, and of all files that it adds.
const MAX_ABOUT: usize = 16 << 10;
/// Most files per request.
const MAX_BATCH: usize = 2000;

impl VectorStore {
    /// The store on the wire.
    fn shown(&self) -> Value {
        let mut object = self.object.clone();
        let count = self.files.values().count();
        object["file_counts"] = counts(count);
        let used: u64 = self.files.values().filter_map(|file| file["usage_bytes"].as_u64()).sum();
        object["usage_bytes"] = used.into();
        object
    }
}

fn counts(completed: usize) -> Value {
    json!({"in_progress": 0, "completed": completed, "failed": 0, "cancelled": 0,
        "total": completed})
}

impl Offline {
    pub(super) fn vector_stores(&self, method: &str, path: &[&str], call: &Call<'_>) -> Answered {
        match (method, path) {
            ("POST", []) => self.create_store(call),
            ("GET", []) => {
                let shown = |store: &VectorStore| Some(store.shown());
                self.kept().vector_stores.page(&call.query, PAGE, shown).map(Reply::Json)
            }
            ("DELETE", [id]) => {
                let removed = self.kept().vector_stores.remove(id);
                removed.ok_or_else(|| Refused::unknown("vector store", id))?;
                let deleted = json!({"id": id, "object": "vector_store.deleted", "deleted": true});
                Ok(Reply::Json(deleted))
            }
            (method, [id, rest @ ..]) => {
                let mut kept = self.kept();
                let Objects { vector_stores, files, .. } = &mut *kept;
                let store = vector_stores.get_mut(id);
                let store = store.ok_or_else(|| Refused::unknown("vector store", id))?;
                let size = |id: &str| files.get(id).map(|file| file.object["bytes"].clone());
                self.in_store(store, size, method, rest, call)
            }
            _ => Err(not_served(method, &format!("/vector_stores/{}", path.join("/")))),
        }
    }

    fn create_store(&self, call: &Call<'_>) -> Answered {
        let body = if call.bytes.is_empty() { json!({}) } else { call.json()? };
        let (id, now) = (self.id("vs_"), self.now());
        let metadata = if body["metadata"].is_object() { &body["metadata"] } else { &json!({}) };
        let object = json!({"id": id, "object": "vector_store", "created_at": now,
            "name": body["name"].as_str().unwrap_or_default(), "status": "completed",
            "expires_after": body["expires_after"], "expires_at": null, "last_active_at": now,
            "metadata": metadata});
        let (files, batches) = (Kept::new(MAX_FILES), Kept::new(MAX_FILES));
        check_length(&object, "metadata")?;
        let mut store = VectorStore { object, files, batches };
        let mut kept = self.kept();
        if !kept.vector_stores.fits(0) {
            let message = "The offline model keeps 1000 vector stores; delete some.";
            return Err(Refused::new(StatusCode::BAD_REQUEST, "storage_full", message));
        }
        if !body["file_ids"].is_null() {
            let size = |id: &str| kept.files.get(id).map(|file| file.object["bytes"].clone());
            self.add(&mut store, size, &wanted(&body)?)?;
        }
        let shown = store.shown();
        kept.vector_stores.push(id, store, 0);
        Ok(Reply::Json(shown))
    }

    fn in_store(
        &self,
        store: &mut VectorStore,
        size: impl Fn(&str) -> Option<Value>,
        method: &str,
        path: &[&str],
        call: &Call<'_>,
    ) -> Answered {
        let unknown = |id: &str| Refused::unknown("file in this vector store", id);
        let unknown_batch = |id: &str| Refused::unknown("file batch", id);
        let object = match (method, path) {
            ("GET", []) => store.shown(),
            ("POST", []) => {
                set(&mut store.object, &call.json()?, &["name", "metadata", "expires_after"])?;
                store.shown()
            }
            ("POST", ["files"]) => {
                let body = call.json()?;
                text(&body, "file_id")?;
                self.add(store, size, std::slice::from_ref(&body))?.remove(0)
            }
            ("GET", ["files"]) => store.files.page(&call.query, PAGE, |file| Some(file.clone()))?,
            ("GET", ["files", id]) => store.files.get(id).ok_or_else(|| unknown(id))?.clone(),
            ("POST", ["files", id]) => {
                let file = store.files.get_mut(id).ok_or_else(|| unknown(id))?;
                set(file, &call.json()?, &["attributes"])?;
                file.clone()
            }
            ("DELETE", ["files", id]) => {
                store.files.remove(id).ok_or_else(|| unknown(id))?;
                json!({"id": id, "object": "vector_store.file.deleted", "deleted": true})
            }
            ("POST", ["file_batches"]) => {
                let files = wanted(&call.json()?)?;
                let added = self.add(store, size, &files)?;
                let ids: Vec<String> = added
                    .iter()
                    .filter_map(|file| file["id"].as_str().map(str::to_owned))
                    .collect();
                let id = self.id("vsfb_");
                let batch = json!({"id": id, "object": "vector_store.file_batch",
                    "created_at": self.now(), "vector_store_id": store.object["id"],
                    "status": "completed", "file_counts": counts(ids.len())});
                store.batches.push(id, (batch.clone(), ids), 0);
                batch
            }
            ("GET", ["file_batches", id]) | ("POST", ["file_batches", id, "cancel"]) => {
                let batch = store.batches.get(id).ok_or_else(|| unknown_batch(id))?;
                batch.0.clone()
            }
            ("GET", ["file_batches", id, "files"]) => {
                let (_, ids) = store.batches.get(id).ok_or_else(|| unknown_batch(id))?;
                let of_batch = |file: &Value| ids.iter().any(|id| file["id"] == *id);
                store.files.page(&call.query, PAGE, |file| of_batch(file).then(|| file.clone()))?
            }
            _ => return Err(not_served(method, &format!("/vector_stores/…/{}", path.join("/")))),
        };
        Ok(Reply::Json(object))
    }

    /// Adds `files`, all or none. Returns them as on the wire.
    fn add(
        &self,
        store: &mut VectorStore,
        size: impl Fn(&str) -> Option<Value>,
        files: &[Value],
    ) -> Result<Vec<Value>, Refused> {
        let mut added = Vec::new();
        for file in files {
            let id = file["file_id"].as_str().unwrap_or_default();
            check_length(&file["attributes"], "attributes")?;
            let size = size(id).ok_or_else(|| Refused::unknown("file", id))?;
            let static_chunks = json!({"type": "static",
                "static": {"max_chunk_size_tokens": 800, "chunk_overlap_tokens": 400}});
            added.push(json!({"id": id, "object": "vector_store.file", "usage_bytes": size,
                "created_at": self.now(), "vector_store_id": store.object["id"],
                "status": "completed", "last_error": null, "attributes": file["attributes"],
                "chunking_strategy": static_chunks}));
        }
        if store.files.values().count() + added.len() > MAX_FILES {
            let message = "A vector store of the offline model has 10000 files.";
            return Err(Refused::new(StatusCode::BAD_REQUEST, "storage_full", message));
        }
        for file in &added {
            let id = file["id"].as_str().unwrap_or_default().to_owned();
            store.files.remove(&id);
            store.files.push(id, file.clone(), 0);
        }
        Ok(added)
    }
}

/// The files to add: `files`, or `file_ids` with common `attributes`.
fn wanted(body: &Value) -> Result<Vec<Value>, Refused> {
    let files: Vec<Value> = match (&body["files"], &body["file_ids"]) {
        (Value::Array(files), _) => files.clone(),
        (_, Value::Array(ids)) => {
            let file = |id: &Value| json!({"file_id": id, "attributes": body["attributes"]});
            ids.iter().map(file).collect()
        }
        _ => return Err(Refused::value("file_ids", "`file_ids` is a list of ids.")),
    };
    if files.is_empty() || files.len() > MAX_BATCH {
        return Err(Refused::value("file_ids", "`file_ids` has 1 to 2000 entries."));
    }
    Ok(files)
}

/// Refuses values that are too long to be stored for every store or file.
fn check_length(value: &Value, name: &'static str) -> Result<(), Refused> {
    if value.to_string().len() <= MAX_ABOUT {
        return Ok(());
    }
    Err(Refused::value(name, format!("`{name}` has at most 16 KiB.")))
}

/// Copies those of `members` that `from` has.
fn set(object: &mut Value, from: &Value, members: &[&'static str]) -> Result<(), Refused> {
    for name in members.iter().filter(|name| !from[**name].is_null()) {
        check_length(&from[*name], name)?;
        object[*name] = from[*name].clone();
    }
    Ok(())
}
