//! `cargo xtask recipes`: the recipes of `docs/recipes/` are run as a reader would run them, block by block in
//! one shell, with an empty home and folder, and their output is compared with what the page shows. So are the
//! examples of the Rust SDK.

mod expected;
mod programs;
mod recipe;

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use recipe::{MARK, Recipe, Step};
use xtask::checkout::agentd;
use xtask::files::files_below;
use xtask::steps::{Counts, Done, Failed, Outcome};

const FOLDER: &str = "docs/recipes";
/// Of a whole recipe; none waits for a network.
const PATIENCE: Duration = Duration::from_secs(90);
const PAUSE: Duration = Duration::from_millis(20);

#[derive(Debug, Default, clap::Args)]
pub(crate) struct Options {
    /// The recipes to run, as `bot`, and examples, as `tour` [default: all]
    #[arg(value_name = "RECIPE")]
    recipes: Vec<String>,
    /// The program to run them with, in place of a debug build of this checkout
    #[arg(long, value_name = "FILE")]
    agentd: Option<PathBuf>,
}

/// Runs the chosen recipes as a task.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let program = match &options.agentd {
        Some(given) => given.canonicalize().with_context(|| given.display().to_string())?,
        None => agentd(root)?,
    };
    let counts =
        run_all(root, &program, &options.recipes).map_err(|failed| anyhow!(failed.message))?;
    println!("{counts}");
    Ok(())
}

/// Runs every recipe as a step.
pub(crate) fn check(root: &Path) -> Outcome {
    let program = agentd(root)?;
    run_all(root, &program, &[]).map(Done::Tests)
}

fn run_all(root: &Path, program: &Path, chosen: &[String]) -> Result<Counts, Failed> {
    let (examples, chosen): (Vec<&str>, Vec<&str>) =
        chosen.iter().map(String::as_str).partition(|name| programs::NAMES.contains(name));
    let is_all = examples.is_empty() && chosen.is_empty();
    let examples = if is_all { programs::NAMES.to_vec() } else { examples };
    let pages = if is_all || !chosen.is_empty() { pages(root, &chosen)? } else { Vec::new() };
    let mut counts = Counts::default();
    let mut messages = Vec::new();
    let mut count = |name: String, run: &dyn Fn() -> Result<()>| {
        println!("── {name}");
        match run() {
            Ok(()) => counts.passed += 1,
            Err(error) => {
                counts.failed += 1;
                messages.push(format!("{error:#}"));
            }
        }
    };
    for page in &pages {
        count(page.display().to_string(), &|| run_page(root, program, page));
    }
    for name in examples {
        count(format!("the example {name}"), &|| programs::run(root, program, name));
    }
    match counts.failed {
        0 => Ok(counts),
        _ => Err(Failed { message: messages.join("\n\n"), counts }),
    }
}

/// The pages of the recipes, from the root.
fn pages(root: &Path, chosen: &[&str]) -> Result<Vec<PathBuf>> {
    let all: Vec<PathBuf> = files_below(&root.join(FOLDER), &[])?
        .into_iter()
        .filter(|file| file.extension().is_some_and(|extension| extension == "md"))
        .collect();
    ensure!(!all.is_empty(), "{FOLDER} has no recipes");
    let name = |page: &PathBuf| page.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    for &wanted in chosen {
        ensure!(
            all.iter().any(|page| name(page).is_some_and(|name| name == wanted)),
            "there is no recipe {wanted:?}; there are: {}",
            all.iter().filter_map(name).collect::<Vec<_>>().join(", ")
        );
    }
    let is_chosen = |page: &PathBuf| {
        chosen.is_empty() || name(page).is_some_and(|name| chosen.contains(&name.as_str()))
    };
    Ok(all.into_iter().filter(is_chosen).map(|page| Path::new(FOLDER).join(page)).collect())
}

fn run_page(root: &Path, program: &Path, page: &Path) -> Result<()> {
    let shown = page.display();
    let text = std::fs::read_to_string(root.join(page)).with_context(|| shown.to_string())?;
    let recipe = Recipe::parse(&text).with_context(|| shown.to_string())?;
    let place = Place::new(root, program)?;
    recipe.write_files(&place.work())?;
    let ran = place.run(&recipe.script(), PATIENCE)?;
    ran.compare(&recipe.steps)
        .map_err(|(line, message)| anyhow!("{shown}:{line}: the block {message}{}", ran.errors()))
}

/// An empty home, an empty folder, and a folder for the search path that has the program.
struct Place {
    folder: tempfile::TempDir,
    variables: Vec<(&'static str, std::ffi::OsString)>,
}

/// The result of a script.
struct Ran {
    stdout: String,
    stderr: String,
    /// `None` when it did not end in time.
    status: Option<ExitStatus>,
}

impl Place {
    fn new(root: &Path, program: &Path) -> Result<Place> {
        let folder = tempfile::tempdir().context("a folder for the recipe")?;
        for name in ["home", "work", "bin", "temporary"] {
            std::fs::create_dir(folder.path().join(name))?;
        }
        std::os::unix::fs::symlink(program, folder.path().join("bin/agentd"))?;
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders =
            std::iter::once(folder.path().join("bin")).chain(std::env::split_paths(&path));
        let variables = vec![
            ("PATH", std::env::join_paths(folders)?),
            ("HOME", folder.path().join("home").into()),
            ("TMPDIR", folder.path().join("temporary").into()),
            // As if it were installed.
            ("PYTHONPATH", root.join("sdk/python/src").into()),
            ("PYTHONDONTWRITEBYTECODE", "1".into()),
            ("LANG", "C.UTF-8".into()),
            ("TERM", "dumb".into()),
        ];
        Ok(Place { folder, variables })
    }

    fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// Runs a script of bash. What it leaves running ends with it.
    fn run(&self, script: &str, patience: Duration) -> Result<Ran> {
        let path = |name: &str| self.folder.path().join(name);
        std::fs::write(path("script"), script)?;
        // Not pipes: programs in the background would keep those open.
        let (stdout, stderr) = (File::create(path("stdout"))?, File::create(path("stderr"))?);
        let mut shell = Command::new("bash")
            .arg(path("script"))
            .current_dir(self.work())
            .env_clear()
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(stderr)
            .process_group(0)
            .spawn()
            .context("cannot start bash")?;
        let shell_id = Pid::from_child(&shell);
        let has_ended = ends_in_time(shell_id, patience)?;
        // Before the shell is reaped: until then, the number names no other group.
        kill_process_group(shell_id, Signal::KILL).context("cannot end the recipe")?;
        let status = shell.wait().context("waiting for bash")?;
        let read =
            |name: &str| std::fs::read(path(name)).map(|b| String::from_utf8_lossy(&b).into());
        let status = has_ended.then_some(status);
        Ok(Ran { stdout: read("stdout")?, stderr: read("stderr")?, status })
    }
}

/// Returns whether a child ends within that time. It is not reaped.
fn ends_in_time(child: Pid, patience: Duration) -> Result<bool> {
    let deadline = Instant::now() + patience;
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    while Instant::now() < deadline {
        if waitid(WaitId::Pid(child), options).context("waiting for bash")?.is_some() {
            return Ok(true);
        }
        std::thread::sleep(PAUSE);
    }
    Ok(false)
}

impl Ran {
    /// An error has the line of a block, and what that did.
    fn compare(&self, steps: &[Step]) -> Result<(), (usize, String)> {
        // A mark precedes each step and ends the script.
        let outputs: Vec<&str> = self.stdout.split(MARK).skip(1).collect();
        for (number, (step, output)) in steps.iter().zip(&outputs).enumerate() {
            let is_last = number + 1 == outputs.len();
            if is_last {
                return Err((step.line, format!("{}:\n{output}\n", self.end())));
            }
            if step.output.as_ref().is_some_and(|wanted| !expected::fits(wanted, output)) {
                let message = "printed something else than the page shows";
                return Err((step.line, format!("{message}:\n{output}\n")));
            }
        }
        match outputs.len() {
            0 => Err((1, self.end())),
            _ => Ok(()),
        }
    }

    /// Returns the end of a script that did not come to its last mark.
    fn end(&self) -> String {
        match self.status {
            Some(status) if status.success() => {
                "ended the shell, or continues after its end".into()
            }
            Some(status) => format!("failed ({status})"),
            None => format!("had not ended after {} seconds", PATIENCE.as_secs()),
        }
    }

    fn errors(&self) -> String {
        match self.stderr.trim_end() {
            "" => String::new(),
            text => format!("standard error of the recipe:\n{text}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a page whose program is `true`.
    fn run(page: &str) -> Result<()> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("page.md"), page).unwrap();
        run_page(folder.path(), Path::new("/bin/true"), Path::new("page.md"))
    }

    #[test]
    fn a_recipe_is_run_in_one_shell() {
        run("`a`:\n```x\n1\n```\n```sh\nX=$(cat a)\nsleep 100 &\n```\n\n```sh\nagentd; echo $X $HOME\n```\n\
             ```text\n1 …/home\n```\n")
        .unwrap();
    }

    #[test]
    fn failures_name_the_block() {
        for (page, expected) in [
            ("```sh\necho a\n```\n```text\nb\n```", "page.md:1: the block printed something else"),
            (
                "```sh\ntrue\n```\n```sh\necho a; ls /gone; echo b\n```",
                "page.md:4: the block failed",
            ),
            ("```sh\ntrue\n```\n```sh\nls /gone\n```", "standard error of the recipe:\nls: "),
            (
                "```sh\ncat <<'END'\n```\n```sh\n```\n```text\na\n```",
                "page.md:1: the block ended the shell",
            ),
            ("```sh\nexit\n```\n```sh\n```", "page.md:1: the block ended the shell"),
            ("```sh\nif\n```", "page.md:1: the block failed"),
        ] {
            let message = format!("{:#}", run(page).unwrap_err());
            assert!(message.contains(expected), "{page}: {message}");
        }
    }

    #[test]
    fn what_does_not_end_is_ended() {
        let place = Place::new(Path::new("/"), Path::new("/bin/true")).unwrap();
        let ran = place.run("echo a; sleep 100 & wait", Duration::from_millis(300)).unwrap();
        assert_eq!((ran.status, ran.stdout.as_str()), (None, "a\n"));
    }
}
