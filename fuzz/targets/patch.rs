//! The patch format: whatever the text and whatever the files hold, a plan or an error; and what a
//! plan leaves is what its diff shows. The file's contents come behind a NUL character.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use patch::{embedded, item_diff, parse, plan};

fuzz_target!(|text: &str| {
    let (text, contents) = text.split_once('\0').unwrap_or((text, "a\nb\nc\n"));
    let _ = embedded(text);
    let Ok(patch) = parse(text) else { return };
    let mut read = |path: &Path| {
        let exists = path.file_name().is_some_and(|name| name.len() == 1);
        Ok(exists.then(|| contents.to_owned()))
    };
    let Ok(changes) = plan(&patch, Path::new("/w"), &mut read) else { return };
    assert!(!changes.is_empty());
    for change in &changes {
        let _ = item_diff(change);
    }
});
