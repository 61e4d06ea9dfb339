//! Images in a message: from a pasted path, from `/image PATH`, and from the clipboard. The files are
//! examined outside of the state machine, which holds the text typed after a pasted path until then.

use std::path::{Path, PathBuf};

use crate::app::{App, Effect};
use crate::composer::{ChipKind, Composer, Draft};
use crate::image::{FoundImage, ImageSource, NoImage};
use crate::terminal::input::Input;

/// Inputs that are held at most. At the bound the pasted path stays text.
const MAX_HELD: usize = 4_096;

impl App {
    /// The files of the images in messages that are not sent, or whose receipt is not known.
    #[must_use]
    pub fn images_in_use(&self) -> Vec<PathBuf> {
        let present = self.composer.draft();
        let waiting = self.queue.drafts().chain(self.sent.drafts());
        waiting.chain([&present]).flat_map(image_paths).collect()
    }

    /// Takes pasted text for the composer, or the image whose path it is.
    pub(super) fn paste_into_composer(&mut self, text: String) {
        let Some(path) = Composer::pasted_path(&text) else {
            self.composer.paste(text);
            return self.keep_soon();
        };
        let path = self.absolute(&path);
        self.images.pasted = Some(text.clone());
        self.effects.push_back(Effect::FindImage(ImageSource::Pasted { text, path }));
    }

    /// Returns whether an input has to wait until the kind of a paste before it is known.
    pub(super) fn holds(&mut self, input: &Input) -> bool {
        if self.images.pasted.is_none() || matches!(input, Input::Reply(_) | Input::Focus(_)) {
            return false;
        }
        if self.images.held.len() >= MAX_HELD {
            self.release_as_text();
            return false;
        }
        self.images.held.push_back(input.clone());
        true
    }

    /// `/image PATH`.
    pub(super) fn add_image(&mut self, path: &str) {
        if path.is_empty() {
            return self
                .notice("/image PATH, or paste the path, or Ctrl+V for the clipboard's image.");
        }
        let path = Composer::pasted_path(path).unwrap_or_else(|| PathBuf::from(path));
        let path = self.absolute(&path);
        self.effects.push_back(Effect::FindImage(ImageSource::Named(path)));
    }

    /// Ctrl+V.
    pub(super) fn paste_image(&mut self) {
        if std::mem::replace(&mut self.images.reads_clipboard, true) {
            return;
        }
        self.notice("Reading the clipboard …");
        self.effects.push_back(Effect::FindImage(ImageSource::Clipboard));
    }

    /// Takes what was found.
    pub(super) fn image_found(
        &mut self,
        source: ImageSource,
        found: Result<FoundImage, NoImage>,
    ) -> bool {
        match source {
            ImageSource::Pasted { text, .. } => {
                // It was given up, or is from before.
                if self.images.pasted.as_ref() != Some(&text) {
                    return false;
                }
                self.images.pasted = None;
                match found {
                    Ok(image) => self.attach(&image),
                    Err(why) => {
                        self.composer.paste(text);
                        if let NoImage::Because(why) = why {
                            self.notice(format!("Taken as text: {why}"));
                        }
                    }
                }
                self.keep_soon();
                self.release();
            }
            ImageSource::Named(path) => match found {
                Ok(image) => self.attach(&image),
                Err(NoImage::Missing) => {
                    self.warning(&format!("There is no file {}", path.display()));
                }
                Err(NoImage::Because(why)) => self.warning(&why),
            },
            ImageSource::Clipboard => {
                self.images.reads_clipboard = false;
                self.notice = None;
                match found {
                    Ok(image) => self.attach(&image),
                    Err(NoImage::Missing) => self.notice("There is no image in the clipboard."),
                    Err(NoImage::Because(why)) => self.warning(&why),
                }
            }
        }
        true
    }

    fn attach(&mut self, image: &FoundImage) {
        let Some(path) = image.path.to_str() else {
            return self.warning(&format!(
                "{}: the name is not UTF-8, so it cannot be sent; rename the file",
                image.path.display()
            ));
        };
        self.composer.attach_image(path, image.size);
        self.keep_soon();
    }

    /// Releases the text that was typed after the paste.
    fn release(&mut self) {
        for input in std::mem::take(&mut self.images.held) {
            self.input(input);
        }
    }

    fn release_as_text(&mut self) {
        if let Some(text) = self.images.pasted.take() {
            self.composer.paste(text);
        }
        self.release();
    }

    /// A path as a shell in the working folder takes it.
    fn absolute(&self, path: &Path) -> PathBuf {
        if let (Ok(rest), Some(home)) = (path.strip_prefix("~"), &self.environment.home) {
            return home.join(rest);
        }
        self.session.cwd.as_ref().unwrap_or(&self.cwd).join(path)
    }
}

fn image_paths(draft: &Draft) -> Vec<PathBuf> {
    let paths = draft.elements.iter().filter_map(|element| match &element.kind {
        ChipKind::Image { path } => Some(PathBuf::from(path)),
        _ => None,
    });
    paths.collect()
}
