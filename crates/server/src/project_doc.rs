//! The project's own documents for agents: `AGENTS.md` from the project's root down to the
//! working folder.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use config::Config;

/// The main file name; the configuration may add others.
const NAME: &str = "AGENTS.md";

/// What was found: the text for the model and where it came from.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ProjectDoc {
    pub(crate) text: Option<String>,
    pub(crate) sources: Vec<PathBuf>,
}

/// Reads the documents that apply in `cwd`, outermost first, up to the configured size.
pub(crate) fn read(config: &Config, cwd: &Path) -> ProjectDoc {
    let mut found = ProjectDoc::default();
    let mut left = usize::try_from(*config.project_doc_max_bytes).unwrap_or(usize::MAX);
    let mut text = String::new();
    for folder in folders(config, cwd) {
        if left == 0 {
            break;
        }
        let names = std::iter::once(NAME)
            .chain(config.project_doc_fallback_filenames.iter().map(String::as_str));
        let Some((path, part)) = names
            .map(|name| folder.join(name))
            .find_map(|path| read_text(&path, left).map(|text| (path, text)))
        else {
            continue;
        };
        left -= part.len().min(left);
        if !part.trim().is_empty() {
            if !text.is_empty() {
                text.push_str("\n\n");
            }
            text.push_str(&part);
            found.sources.push(path);
        }
    }
    found.text = (!text.is_empty()).then_some(text);
    found
}

/// From the project's root to `cwd`; only `cwd` where there is no root.
fn folders(config: &Config, cwd: &Path) -> Vec<PathBuf> {
    let is_root = |folder: &&Path| {
        config.project_root_markers.iter().any(|marker| folder.join(marker).exists())
    };
    let Some(root) = cwd.ancestors().find(is_root) else { return vec![cwd.to_owned()] };
    let mut folders: Vec<PathBuf> =
        cwd.ancestors().take_while(|folder| *folder != root).map(Path::to_owned).collect();
    folders.push(root.to_owned());
    folders.reverse();
    folders
}

fn read_text(path: &Path, max_bytes: usize) -> Option<String> {
    let file = File::open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(max_bytes as u64).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
