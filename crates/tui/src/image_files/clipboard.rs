//! The image in the clipboard, through the programs that Wayland and X11 have for it. They run as if the
//! user had started them, outside of any sandbox.
#![allow(clippy::disallowed_methods, reason = "no command of an agent is run here")]

use std::io;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::process::Command;
use tokio::time::timeout;

use crate::image::NoImage;

/// Time limit of a program: the owner of the clipboard provides the bytes, and may hang.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest list of formats.
const MAX_LIST: u64 = 64 << 10;
/// The formats that are asked for, in the order of preference.
const FORMATS: &[&str] = &["image/png", "image/jpeg", "image/webp", "image/gif"];

/// A program with the arguments that list the formats, and those before the name of one that print it.
struct Program {
    name: &'static str,
    list: &'static [&'static str],
    print: fn(&str) -> Vec<String>,
}

const PROGRAMS: &[Program] = &[
    Program {
        name: "wl-paste",
        list: &["--list-types"],
        print: |format| words(&["--no-newline", "--type", format]),
    },
    Program {
        name: "xclip",
        list: &["-selection", "clipboard", "-t", "TARGETS", "-o"],
        print: |format| words(&["-selection", "clipboard", "-t", format, "-o"]),
    },
];

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// The image, of at most `max_bytes`.
///
/// # Errors
/// There is none, or no program, or it fails or takes too long.
pub(super) async fn read(max_bytes: u64) -> Result<Vec<u8>, NoImage> {
    read_with(PROGRAMS, max_bytes).await
}

async fn read_with(programs: &[Program], max_bytes: u64) -> Result<Vec<u8>, NoImage> {
    let mut failure = None;
    for program in programs {
        match output(program.name, &words(program.list), MAX_LIST).await {
            Ok(list) => return image(program, &String::from_utf8_lossy(&list), max_bytes).await,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            // The other one may belong to the display that is used.
            Err(error) => failure = Some(format!("{}: {error}", program.name)),
        }
    }
    let why = failure.unwrap_or_else(|| {
        "there is no program that reads the clipboard; install wl-clipboard (Wayland) or xclip (X11), or \
         paste the path of an image file"
            .to_owned()
    });
    Err(NoImage::Because(why))
}

async fn image(program: &Program, list: &str, max_bytes: u64) -> Result<Vec<u8>, NoImage> {
    let offered = |format: &&&str| list.lines().any(|line| line.trim() == **format);
    let Some(format) = FORMATS.iter().find(offered) else { return Err(NoImage::Missing) };
    let because = |what: String| NoImage::Because(format!("{}: {what}", program.name));
    let bytes = output(program.name, &(program.print)(format), max_bytes + 1).await;
    let bytes = bytes.map_err(|error| because(error.to_string()))?;
    match bytes.len() as u64 > max_bytes {
        true => Err(because(format!("the image is larger than {} MiB", max_bytes >> 20))),
        false => Ok(bytes),
    }
}

/// Returns the output of a program, cut off after `max_bytes`.
async fn output(name: &str, arguments: &[String], max_bytes: u64) -> io::Result<Vec<u8>> {
    let run = async {
        let mut child = Command::new(name)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let (out, errors) = (child.stdout.take(), child.stderr.take());
        let errors = async move {
            let mut text = Vec::new();
            if let Some(errors) = errors {
                // Only for the message about a failure.
                let _ = errors.take(1_000).read_to_end(&mut text).await;
            }
            String::from_utf8_lossy(&text).trim().to_owned()
        };
        let out = async move {
            let mut bytes = Vec::new();
            if let Some(out) = out {
                out.take(max_bytes).read_to_end(&mut bytes).await?;
            }
            io::Result::Ok(bytes)
        };
        let (bytes, errors) = tokio::join!(out, errors);
        let bytes = bytes?;
        if bytes.len() as u64 == max_bytes {
            // It may wait to write more; it is ended.
            return Ok(bytes);
        }
        let status = child.wait().await?;
        match status.success() {
            true => Ok(bytes),
            false if errors.is_empty() => Err(io::Error::other(status.to_string())),
            false => Err(io::Error::other(errors)),
        }
    };
    match timeout(PATIENCE, run).await {
        Ok(result) => result,
        Err(_) => Err(io::Error::other(format!(
            "the clipboard did not answer in {} s",
            PATIENCE.as_secs()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use super::*;

    /// The programs of the module, as scripts in a folder.
    fn programs(folder: &Path, scripts: &[(&'static str, &str)]) -> Vec<Program> {
        for (name, script) in scripts {
            let path = folder.join(name);
            std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        }
        let there = |program: &Program| Program {
            name: folder.join(program.name).to_str().unwrap().to_owned().leak(),
            ..*program
        };
        PROGRAMS.iter().map(there).collect()
    }

    async fn found(scripts: &[(&'static str, &str)], max_bytes: u64) -> Result<String, NoImage> {
        let folder = tempfile::tempdir().unwrap();
        let read = read_with(&programs(folder.path(), scripts), max_bytes).await;
        read.map(|bytes| String::from_utf8(bytes).unwrap())
    }

    fn because(found: Result<String, NoImage>) -> String {
        match found {
            Err(NoImage::Because(why)) => why,
            other => panic!("{other:?}"),
        }
    }

    const WAYLAND: &str = "case \"$*\" in
        --list-types) printf 'text/plain\\nimage/jpeg\\nimage/png\\n' ;;
        '--no-newline --type image/png') printf wayland ;;
        *) exit 9 ;; esac";
    const X11: &str = "case \"$*\" in
        '-selection clipboard -t TARGETS -o') printf 'TARGETS\\nimage/jpeg\\n' ;;
        '-selection clipboard -t image/jpeg -o') printf x11 ;;
        *) exit 9 ;; esac";

    #[tokio::test]
    async fn the_image_comes_from_the_program_that_is_there() {
        assert_eq!(found(&[("wl-paste", WAYLAND)], 100).await.unwrap(), "wayland");
        assert_eq!(found(&[("xclip", X11)], 100).await.unwrap(), "x11");
        // Without a Wayland display, the other one is asked.
        let fails = ("wl-paste", "echo 'no display' >&2; exit 1");
        assert_eq!(found(&[fails, ("xclip", X11)], 100).await.unwrap(), "x11");
    }

    #[tokio::test]
    async fn why_there_is_none_is_said() {
        assert!(because(found(&[], 100).await).contains("install wl-clipboard"));
        let fails = ("wl-paste", "echo 'no display' >&2; exit 1");
        let why = because(found(&[fails], 100).await);
        assert!(why.contains("wl-paste") && why.contains("no display"), "{why}");
        let text = ("wl-paste", "echo text/plain");
        assert_eq!(found(&[text], 100).await, Err(NoImage::Missing));
        let why = because(found(&[("wl-paste", WAYLAND)], 3).await);
        assert!(why.contains("larger than"), "{why}");
    }
}
