//! `cargo xtask interop`: other people's programs against this one, as they come from their registries.
//! It needs a network the first time, and is no part of `cargo xtask test`.

mod clients;
mod packages;
mod patches;
mod skills;
mod telemetry;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use clap::builder::PossibleValuesParser;

use xtask::steps::When::InTurn;
use xtask::steps::{self, Step};

const STEPS: &[Step] = &[
    Step { name: "patches", when: InTurn, check: patches::check },
    Step { name: "gateway clients", when: InTurn, check: clients::check },
    Step { name: "gateway wires", when: InTurn, check: clients::check_gateway_wires },
    Step { name: "model streams", when: InTurn, check: clients::check_streams },
    Step { name: "model wires", when: InTurn, check: clients::check_model_wires },
    Step { name: "agent clients", when: InTurn, check: clients::check_agent },
    Step { name: "acp", when: InTurn, check: clients::check_editors },
    Step { name: "python sdk", when: InTurn, check: clients::check_python_sdk },
    Step { name: "typescript sdk", when: InTurn, check: clients::check_typescript_sdk },
    Step { name: "web client", when: InTurn, check: clients::check_web_client },
    Step { name: "login service", when: InTurn, check: clients::check_login },
    Step { name: "mcp", when: InTurn, check: clients::check_mcp },
    Step { name: "mcp servers", when: InTurn, check: clients::check_mcp_servers },
    Step { name: "skills", when: InTurn, check: skills::check },
    Step { name: "book", when: InTurn, check: crate::book::check },
    Step { name: "telemetry", when: InTurn, check: telemetry::check },
    Step { name: "packages", when: InTurn, check: packages::check },
    Step { name: "deployments", when: InTurn, check: clients::check_deployments },
];

/// Run only by name: two compile the program again, for another target, three download hundreds of packages or
/// programs of 100 MB each, and one takes minutes.
const BY_NAME: &[Step] = &[
    Step { name: "static program", when: InTurn, check: packages::check_static },
    Step { name: "server image", when: InTurn, check: packages::check_server_image },
    Step { name: "terminals", when: InTurn, check: clients::check_terminals },
    Step { name: "wire clients", when: InTurn, check: clients::check_wire_clients },
    Step { name: "frameworks", when: InTurn, check: clients::check_frameworks },
    Step { name: "sdk kills", when: InTurn, check: clients::check_sdk_kills },
];

/// A step's name, and what writes its page.
type Writer = (&'static str, fn(&Path) -> Result<()>);

const WRITERS: &[Writer] = &[("patches", patches::write), ("gateway clients", clients::write)];

/// As [`BY_NAME`].
const WRITERS_BY_NAME: &[Writer] = &[("frameworks", clients::write_frameworks)];

pub(crate) fn run(root: &Path, options: &Options) -> ExitCode {
    if options.write {
        let by_default = WRITERS.iter().filter(|(name, _)| options.includes(name));
        let by_name = WRITERS_BY_NAME.iter().filter(|(name, _)| options.names(name));
        for (name, write) in by_default.chain(by_name) {
            if let Err(error) = write(root) {
                eprintln!("error: {name}: {error:#}");
                return ExitCode::FAILURE;
            }
        }
        return ExitCode::SUCCESS;
    }
    let by_default = STEPS.iter().filter(|step| options.includes(step.name));
    let by_name = BY_NAME.iter().filter(|step| options.names(step.name));
    let chosen: Vec<Step> = by_default.chain(by_name).copied().collect();
    steps::run(root, &chosen)
}

/// Needs python3 with venv and pip, node and npm.
#[derive(Debug, Default, PartialEq, Eq, clap::Args)]
pub(crate) struct Options {
    /// The steps to run [default: all]
    #[arg(value_name = "STEP", value_parser = step_names())]
    steps: Vec<String>,
    /// Write the pages of docs/ that show the results instead
    #[arg(long)]
    write: bool,
}

fn step_names() -> PossibleValuesParser {
    STEPS.iter().chain(BY_NAME).map(|step| step.name).into()
}

impl Options {
    fn includes(&self, name: &str) -> bool {
        self.steps.is_empty() || self.names(name)
    }

    fn names(&self, name: &str) -> bool {
        self.steps.iter().any(|step| step == name)
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args, FromArgMatches};

    use super::*;

    #[test]
    fn options_are_parsed() {
        let parse = |line: &[&str]| {
            let command = Options::augment_args(clap::Command::new("interop").no_binary_name(true));
            let matches = command.try_get_matches_from(line)?;
            Options::from_arg_matches(&matches)
        };
        assert_eq!(parse(&[]).unwrap(), Options::default());
        let one = Options { steps: vec!["gateway clients".to_owned()], write: true };
        assert_eq!(parse(&["gateway clients", "--write"]).unwrap(), one);
        let message = parse(&["fast"]).unwrap_err().to_string();
        let names = "possible values: patches, \"gateway clients\", \"gateway wires\", \"model streams\", \
                     \"model wires\", \"agent clients\", acp, \"python sdk\", \"typescript sdk\", \"web client\", \"login service\", mcp";
        assert!(message.contains(names), "{message}");
    }
}
