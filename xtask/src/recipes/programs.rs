//! The examples of the Rust SDK, run as a reader would run them: in an empty folder, with the program in the
//! search path. The same programs in other languages run with the tests of their SDKs.

use std::path::Path;

use anyhow::{Context, Result, anyhow};

use super::recipe::{MARK, Step};
use super::{PATIENCE, Place};
use xtask::checkout::target;
use xtask::steps::{Program, SCOPE};

/// Where the output of the README's program is.
const OUTPUT: &str = "sdk/readme-output.txt";
/// Of the tour, whose texts come before it.
const TOUR: &str = "…\nCompleted, 7 items\nfile: AGENTD_DEMO.md\nresumed: 1 turn\n";

/// Their names, as those of recipes.
pub(super) const NAMES: [&str; 2] = ["readme", "tour"];

/// Builds and runs an example.
pub(super) fn run(root: &Path, agentd: &Path, name: &str) -> Result<()> {
    let build = [&["build", "--locked", "--example", name][..], &SCOPE].concat();
    let built = Program::linted(root, &build).succeed("fix the compiler errors above");
    built.map_err(|failed| anyhow!(failed.message))?;
    let output = match name {
        "readme" => std::fs::read_to_string(root.join(OUTPUT)).context(OUTPUT)?,
        _ => TOUR.to_owned(),
    };
    let program = target(root).join("debug/examples").join(name);
    run_program(root, agentd, &program, output).with_context(|| format!("the example {name}"))
}

fn run_program(root: &Path, agentd: &Path, program: &Path, output: String) -> Result<()> {
    let text = format!("'{}'", program.display());
    let script = format!("set -euo pipefail\nprintf '\\036'\n{text}\nprintf '{MARK}'\n");
    let steps = [Step { line: 1, text, output: Some(output) }];
    let ran = Place::new(root, agentd)?.run(&script, PATIENCE)?;
    ran.compare(&steps).map_err(|(_, message)| anyhow!("it {message}{}", ran.errors()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_a_program_is_compared() {
        let run = |program: &str, output: &str| {
            let none = Path::new("/bin/true");
            run_program(Path::new("/"), none, Path::new(program), output.to_owned())
        };
        run("/bin/pwd", "…/work\n").unwrap();
        let message = run("/bin/pwd", "elsewhere\n").unwrap_err().to_string();
        assert!(message.starts_with("it printed something else than the page shows"), "{message}");
        let message = run("/bin/false", "").unwrap_err().to_string();
        assert!(message.starts_with("it failed"), "{message}");
    }
}
