//! Images of clients, of the model and of tools as `data:` URLs that the model's provider takes. They
//! are decoded on blocking threads, a few at a time. See the crate `images`.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use files::Pool;
use images::Bounds;
use model::catalog::ModelInfo;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use crate::bounds::{IMAGE_BYTES, INPUT_IMAGE_BYTES, PREFIX_BYTES};
use crate::error::Error;
use crate::image_url;

/// Images that are decoded at the same time, for all threads: each takes up to 256 MiB for its pixels,
/// and more while it is scaled. Further ones wait, within [`TIMEOUT`].
const AT_ONCE: usize = 2;
/// Time limit of the work on one image, the wait for others included.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The reader of images.
pub struct ImageReader {
    files: Pool,
    permits: Arc<Semaphore>,
}

/// The bounds of a model's images.
pub fn bounds_of(info: &ModelInfo) -> Bounds {
    let default = Bounds::default();
    let bytes = info.max_image_bytes.and_then(|bytes| bytes.try_into().ok());
    // Each fits in a request on its own, as base64 in a `data:` URL.
    let most = request_bytes(info).saturating_sub(PREFIX_BYTES) / 4 * 3;
    Bounds {
        side: info.max_image_side.unwrap_or(default.side),
        bytes: bytes.unwrap_or(default.bytes).min(most),
    }
}

/// Most bytes of all images of a request, as base64.
pub fn request_bytes(info: &ModelInfo) -> usize {
    let bytes = info.max_images_bytes.and_then(|bytes| bytes.try_into().ok());
    bytes.unwrap_or(INPUT_IMAGE_BYTES)
}

/// The contents of an image file. Blocks on the file system.
///
/// # Errors
/// A file that cannot be read, with its path.
pub fn contents(path: &Path) -> Result<Vec<u8>, Error> {
    files::read(path, IMAGE_BYTES as u64)
        .map_err(|error| Error::invalid_params(error.to_string()).with_source(error))
}

/// Checks that the file at `path` can be read and begins as an image does, as `turn/start` will. Waits
/// for the file system.
///
/// # Errors
/// What is wrong with the file, with its path.
pub fn check_image(path: &Path) -> Result<(), Error> {
    let wrong = |error: images::Error| {
        Error::invalid_params(format!("{}: {error}", path.display())).with_source(error)
    };
    images::kind_of(&contents(path)?).map(drop).map_err(wrong)
}

impl ImageReader {
    pub fn new(files: Pool) -> Self {
        Self { files, permits: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    /// The image in the file at `path`.
    ///
    /// # Errors
    /// A file that cannot be read, and one that holds no image that can be sent, with its path.
    pub async fn file(&self, path: &Path, bounds: Bounds) -> Result<String, Error> {
        let file = path.to_owned();
        let bytes = self.files.run(path, move || contents(&file)).await??;
        self.of_file(path, bytes, bounds).await
    }

    /// The image in `bytes`, which were read from the file at `path`.
    ///
    /// # Errors
    /// What is wrong with the image, with the path.
    pub async fn of_file(
        &self,
        path: &Path,
        bytes: Vec<u8>,
        bounds: Bounds,
    ) -> Result<String, Error> {
        let normalized = self.normalized(move || Ok(bytes), bounds).await;
        normalized.map_err(|error| error.within(&path.display().to_string()))
    }

    /// The image at `url`. An `http:` or `https:` URL is returned as it is: the provider loads it.
    ///
    /// # Errors
    /// What is wrong with the URL or its image.
    pub async fn url(&self, url: &str, bounds: Bounds) -> Result<String, Error> {
        image_url::check(url)?;
        let Some(encoded) = image_url::encoded(url) else { return Ok(url.to_owned()) };
        let encoded = encoded.to_owned();
        let decode = move || {
            let bytes = STANDARD.decode(encoded);
            bytes.map_err(|error| Error::invalid_params(format!("the `data:` URL: {error}")))
        };
        self.normalized(decode, bounds).await
    }

    /// The image that is encoded as base64.
    ///
    /// # Errors
    /// What is wrong with it.
    pub async fn base64(&self, encoded: String, bounds: Bounds) -> Result<String, Error> {
        if encoded.len() / 4 * 3 > IMAGE_BYTES {
            let most = IMAGE_BYTES >> 20;
            return Err(Error::invalid_params(format!("it has more than {most} MiB")));
        }
        let decode = move || {
            let bytes = STANDARD.decode(encoded);
            bytes.map_err(|error| Error::invalid_params(format!("no valid base64: {error}")))
        };
        self.normalized(decode, bounds).await
    }

    /// Replaces the images of a model item.
    ///
    /// # Errors
    /// What is wrong with an image.
    pub async fn model_item(&self, item: &mut Value, bounds: Bounds) -> Result<(), Error> {
        for list in ["content", "output"] {
            let parts = item.get_mut(list).and_then(Value::as_array_mut);
            for part in parts.into_iter().flatten() {
                if part.get("type").and_then(Value::as_str) == Some("input_image")
                    && let Some(Value::String(url)) = part.get_mut("image_url")
                {
                    *url = self.url(url, bounds).await?;
                }
            }
        }
        Ok(())
    }

    async fn normalized(
        &self,
        bytes: impl FnOnce() -> Result<Vec<u8>, Error> + Send + 'static,
        bounds: Bounds,
    ) -> Result<String, Error> {
        let deadline = Instant::now() + TIMEOUT;
        let seconds = TIMEOUT.as_secs();
        let waiting = timeout_at(deadline, self.permits.clone().acquire_owned()).await;
        let permit = waiting.map_err(|_| {
            let message = format!("other images were decoded for {seconds} s");
            Error::invalid_params(message).next_step("try again")
        })?;
        let permit = permit.expect("the semaphore is never closed");
        let work = tokio::task::spawn_blocking(move || {
            // Returned when the work is done, even when nothing waits for it.
            let _permit = permit;
            let image = images::normalize(&bytes()?, bounds)
                .map_err(|error| Error::invalid_params(error.to_string()).with_source(error))?;
            let (kind, bytes) = (image.kind.media_type(), STANDARD.encode(image.bytes));
            Ok(format!("data:{kind};base64,{bytes}"))
        });
        match timeout_at(deadline, work).await {
            Ok(Ok(image)) => image,
            Ok(Err(_)) => Err(Error::invalid_params("the decoder failed on the image")),
            Err(_) => {
                let message = format!("the image takes longer than {seconds} s to decode");
                Err(Error::invalid_params(message))
            }
        }
    }
}
