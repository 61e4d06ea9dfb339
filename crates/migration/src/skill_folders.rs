//! Skills of other agents: folders that are copied whole, or left out.

use std::path::{Path, PathBuf};

use crate::bounds::{DEPTH, SKILL_BYTES, SKILL_FILES};
use crate::error::Error;
use crate::item::{Change, Item};
use crate::source;

/// Adds the skills in `folder`.
pub(crate) fn add(root: &Path, folder: &Path, target: &Path, item: &mut Item) -> Result<(), Error> {
    for path in source::entries(root, folder)? {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        // Those that the other agent brings along, such as `.system`.
        if name.starts_with('.') {
            continue;
        }
        if path.is_symlink() {
            item.leave_out(name, "it is a symbolic link, which is not followed; copy the folder");
            continue;
        }
        if !path.join(skills::SKILL_FILE).exists() {
            continue;
        }
        let problems = skills::check_name(name, None);
        if let Some(problem) = problems.first() {
            item.leave_out(name, problem);
            continue;
        }
        let mut files = Vec::new();
        let collected = collect(root, &path, &path, (0, &mut 0), &mut files)
            .map_err(|error| error.to_string())
            .and_then(|()| remarks(&path));
        match collected {
            Ok(remarks) => {
                let summary = format!("{} files{remarks}", files.len());
                // Last, so that half a skill is never found.
                files.sort_by_key(|(path, _)| path.as_os_str() == skills::SKILL_FILE);
                let (at, from) = (target.join(name), Some(path.clone()));
                let change = Change::Files { at, files, from, role: None };
                item.add(name, summary, change);
            }
            Err(why) => item.leave_out(name, &visible::exact(&why)),
        }
    }
    Ok(())
}

/// Returns the faults of a skill that can be used.
///
/// # Errors
/// Why it cannot be used.
fn remarks(skill: &Path) -> Result<String, String> {
    let broken = |why: skills::Problem| format!("it cannot be used: {why}");
    let problems = skills::check(&skill.join(skills::SKILL_FILE)).map_err(broken)?;
    let Some(first) = problems.first() else { return Ok(String::new()) };
    let more = match problems.len() {
        1 => String::new(),
        count => format!(" and {} more", count - 1),
    };
    Ok(format!("; to be mended: {}{more}", visible::exact(&first.to_string())))
}

fn collect(
    root: &Path,
    skill: &Path,
    folder: &Path,
    (depth, total): (usize, &mut u64),
    files: &mut Vec<(PathBuf, Vec<u8>)>,
) -> Result<(), Error> {
    for path in source::entries(root, folder)? {
        let metadata = std::fs::symlink_metadata(&path)
            .map_err(|cause| files::Error::Io { path: path.clone(), cause })?;
        if metadata.is_dir() {
            if depth == DEPTH {
                return Err(Error::contents(&path, "folders of a skill are too deep"));
            }
            collect(root, skill, &path, (depth + 1, total), files)?;
            continue;
        }
        let left = SKILL_BYTES.saturating_sub(*total);
        let Some(bytes) = source::bytes(root, &path, left)? else { continue };
        *total += bytes.len() as u64;
        if files.len() == SKILL_FILES {
            let why = format!("it has more than {SKILL_FILES} files");
            return Err(Error::contents(skill, why));
        }
        let relative = path.strip_prefix(skill).unwrap_or(&path);
        files.push((relative.to_owned(), bytes));
    }
    Ok(())
}
