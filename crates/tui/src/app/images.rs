//! Images in a message: from a pasted path, from `/image PATH`, and from the clipboard. The files are
//! examined outside of the state machine, which meanwhile holds the keys after a pasted path.

use std::path::{Path, PathBuf};

use crate::app::events::Effect;
use crate::app::program::App;
use crate::composer::{ChipKind, Composer, Draft};
use crate::image::{FoundImage, ImageSource, NoImage};
use crate::terminal::input::Input;

/// Inputs that are held at most. At the bound the pasted path stays text.
const MAX_HELD: usize = 4_096;

/// The files of the images in a message.
pub(super) fn image_paths(draft: &Draft) -> Vec<PathBuf> {
    let paths = draft.elements.iter().filter_map(|element| match &element.kind {
        ChipKind::Image { path } => Some(PathBuf::from(path)),
        _ => None,
    });
    paths.collect()
}

/// Takes pasted text for the composer, or the image whose path it is.
pub(super) fn paste_into_composer(app: &mut App, text: String) {
    let Some(path) = Composer::pasted_path(&text) else {
        app.writing.composer_mut().paste(text);
        return app.keep_soon();
    };
    let path = absolute(app, &path);
    app.images.examine(text.clone());
    app.output.emit(Effect::FindImage(ImageSource::Pasted { text, path }));
}

/// Keeps an input that has to wait until a paste before it is examined. Returns whether it has to.
pub(super) fn holds(app: &mut App, input: &Input) -> bool {
    if !app.images.is_examining() || matches!(input, Input::Reply(_) | Input::Focus(_)) {
        return false;
    }
    if app.images.hold(input.clone()) > MAX_HELD {
        release_as_text(app);
    }
    true
}

/// `/image PATH`.
pub(super) fn add_image(app: &mut App, path: &str) {
    if path.is_empty() {
        return app.notice("/image PATH, or paste the path, or Ctrl+V for the clipboard's image.");
    }
    let path = Composer::pasted_path(path).unwrap_or_else(|| PathBuf::from(path));
    let path = absolute(app, &path);
    app.output.emit(Effect::FindImage(ImageSource::Named(path)));
}

/// Ctrl+V.
pub(super) fn paste_image(app: &mut App) {
    if !app.images.begin_clipboard() {
        return;
    }
    app.notice("Reading the clipboard …");
    app.output.emit(Effect::FindImage(ImageSource::Clipboard));
}

/// Takes what was found.
pub(super) fn image_found(
    app: &mut App,
    source: ImageSource,
    found: Result<FoundImage, NoImage>,
) -> bool {
    match source {
        ImageSource::Pasted { text, .. } => {
            // It was given up, or is from before.
            if !app.images.examined(&text) {
                return false;
            }
            match found {
                Ok(image) => attach(app, &image),
                Err(why) => {
                    app.writing.composer_mut().paste(text);
                    if let NoImage::Because(why) = why {
                        app.notice(format!("Sent as text: {why}"));
                    }
                }
            }
            app.keep_soon();
            app.images.release();
        }
        ImageSource::Named(path) => match found {
            Ok(image) => attach(app, &image),
            Err(NoImage::Missing) => {
                app.warning(&format!("There is no file {}", path.display()));
            }
            Err(NoImage::Because(why)) => app.warning(&why),
        },
        ImageSource::Clipboard => {
            app.images.end_clipboard();
            app.output.clear_notice();
            match found {
                Ok(image) => attach(app, &image),
                Err(NoImage::Missing) => app.notice("There is no image in the clipboard."),
                Err(NoImage::Because(why)) => app.warning(&why),
            }
        }
    }
    true
}

fn attach(app: &mut App, image: &FoundImage) {
    let Some(path) = image.path.to_str() else {
        return app.warning(&format!(
            "{}: the name is not UTF-8, so it cannot be sent; rename the file",
            image.path.display()
        ));
    };
    app.writing.composer_mut().attach_image(path, image.size);
    app.keep_soon();
}

fn release_as_text(app: &mut App) {
    if let Some(text) = app.images.give_up() {
        app.writing.composer_mut().paste(text);
    }
    app.images.release();
}

/// A path as a shell in the working folder takes it.
fn absolute(app: &App, path: &Path) -> PathBuf {
    if let (Ok(rest), Some(home)) = (path.strip_prefix("~"), &app.environment.home) {
        return home.join(rest);
    }
    app.cwd().join(path)
}
