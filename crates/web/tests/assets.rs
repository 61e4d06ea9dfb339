//! The files of the page: they are small, complete, and come from nowhere else.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

/// The whole page, compressed.
const MOST_BYTES: usize = 80 << 10;

#[test]
fn every_file_is_served_and_all_are_small() {
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets");
    let mut names: Vec<String> = std::fs::read_dir(assets)
        .unwrap()
        .map(|entry| format!("/{}", entry.unwrap().file_name().to_str().unwrap()))
        .map(|name| if name == "/index.html" { "/".to_owned() } else { name })
        .collect();
    names.sort();
    let mut served: Vec<&str> = web::FILES.iter().map(|(path, _)| *path).collect();
    served.sort_unstable();
    assert_eq!(served, names);
    let mut compressed = GzEncoder::new(Vec::new(), Compression::default());
    for (_, file) in web::FILES {
        compressed.write_all(file.body).unwrap();
    }
    let bytes = compressed.finish().unwrap().len();
    assert!(bytes < MOST_BYTES, "{bytes}");
}

#[test]
fn no_text_becomes_markup_and_nothing_is_loaded_from_elsewhere() {
    let forbidden = [
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "DOMParser",
        "eval(",
        "new Function",
        "createContextualFragment",
        "srcdoc",
        "<script>",
        " style=",
        " onclick=",
        "@import",
    ];
    for (path, file) in web::FILES {
        let text = std::str::from_utf8(file.body).unwrap();
        for word in forbidden {
            assert!(!text.contains(word), "{path} contains {word}");
        }
        assert!(!path.ends_with(".css") || !text.contains("url("), "{path} loads something");
        let sources = ["src=\"", "href=\""].map(|start| text.split(start).skip(1));
        for source in sources.into_iter().flatten() {
            let is_own = !source.starts_with("http") && !source.starts_with("//");
            assert!(is_own, "{path}: {source}");
        }
    }
}
