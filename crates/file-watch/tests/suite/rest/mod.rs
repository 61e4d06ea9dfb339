//! Waits until a picture equals a disk at rest.

use std::time::Duration;

use file_watch::Watch;

use crate::picture::Picture;

/// Far more than is needed: a test that gets so far has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Applies changes until the picture equals the disk, which is at rest.
pub(crate) async fn becomes_right(picture: &mut Picture, watch: &Watch, when: &str) {
    let disk = Picture::of(watch.path());
    let waited = async {
        while picture.difference(&disk).is_some() {
            let change = watch.next().await;
            picture.apply(&change.paths, change.overflow);
        }
    };
    if tokio::time::timeout(PATIENCE, waited).await.is_err() {
        panic!("{when}: {:?}", picture.difference(&disk));
    }
}
