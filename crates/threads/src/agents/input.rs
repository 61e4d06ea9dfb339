//! The input that the model gives to an agent: its images are prepared as those of clients are.

use session::UserContent;

use super::Agents;
use services::error::Error;
use services::thread_port::ThreadHandle;
use services::{bounds, image_reader};

impl Agents {
    /// The input with its images as the agent's model takes them.
    ///
    /// # Errors
    /// An image that cannot be used, named by its item; a model that takes no images.
    pub(super) async fn prepare_input(
        &self,
        handle: &ThreadHandle,
        mut content: Vec<UserContent>,
    ) -> Result<Vec<UserContent>, Error> {
        let is_image = |part: &UserContent| matches!(part, UserContent::Image { .. });
        let Some(first) = content.iter().position(is_image) else { return Ok(content) };
        let info = handle.model_info(None).await?;
        if !info.accepts_images() {
            return Err(Error::invalid_params(format!(
                "`items[{first}]`: the agent's model `{}` does not accept images; describe the \
                 image, or choose another `model`",
                info.id
            )));
        }
        let image_bounds = image_reader::bounds_of(&info);
        for (at, part) in content.iter_mut().enumerate() {
            if let UserContent::Image { url } = part {
                let prepared = self.images.url(url, image_bounds).await;
                *url =
                    prepared.map_err(|error| error.within(&format!("`items[{at}].image_url`")))?;
            }
        }
        bounds::check_images(&content, image_reader::request_bytes(&info))?;
        Ok(content)
    }
}
