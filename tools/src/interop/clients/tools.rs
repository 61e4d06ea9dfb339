//! The clients, each in a folder below the target folder: a virtual environment of Python and a
//! folder of npm, with the versions that stand next to the scripts.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow, ensure};

use crate::generate;
use xtask::steps::Program;

/// Clients in two languages, and their scripts.
pub(crate) struct Kit {
    /// Scripts, relative to the root.
    pub(crate) scripts: &'static str,
    /// Lists of versions, relative to the root.
    pub(crate) versions: &'static str,
    /// Where they are installed, below the target folder.
    pub(crate) folder: &'static str,
    /// True if packages that are not needed here are left out: the programs that the clients come
    /// with. The lists of versions are complete without them.
    pub(crate) alone: bool,
}

/// The clients of the hosted API.
pub(crate) const GATEWAY: Kit = Kit {
    scripts: "crates/gateway/tests/clients",
    versions: "crates/gateway/tests/clients",
    folder: "clients",
    alone: false,
};
/// The same clients, whose streams are read.
pub(crate) const STREAMS: Kit = Kit { scripts: "crates/model-server/tests/clients", ..GATEWAY };
/// The official clients of Messages, Chat Completions and Gemini; Python alone.
pub(crate) const MODEL_WIRES: Kit = Kit {
    scripts: "crates/model-server/tests/wire-clients",
    versions: "crates/model-server/tests/wire-clients",
    folder: "wire-clients",
    alone: false,
};
/// The official clients of the four wires, in front of a model of another wire; Python alone.
pub(crate) const GATEWAY_WIRES: Kit = Kit {
    scripts: "crates/gateway/tests/wires",
    versions: "crates/gateway/tests/wires",
    folder: "gateway-wires",
    alone: false,
};
/// Terminal agents in front of a model of another wire; JavaScript alone.
pub(crate) const WIRE_CLIENTS: Kit = Kit {
    scripts: "crates/gateway/tests/wire-clients",
    versions: "crates/gateway/tests/wire-clients",
    folder: "gateway-wire-clients",
    alone: false,
};
/// Frameworks that speak to the hosted API, and the inspector of MCP.
pub(crate) const FRAMEWORKS: Kit = Kit {
    scripts: "crates/gateway/tests/frameworks",
    versions: "crates/gateway/tests/frameworks",
    folder: "frameworks",
    alone: false,
};
/// The clients of agent servers.
pub(crate) const AGENT: Kit = Kit {
    scripts: "crates/cli/tests/clients",
    versions: "crates/cli/tests/clients",
    folder: "agent-clients",
    alone: true,
};
/// The terminal programs of another agent server, and a script that types into them; JavaScript alone.
pub(crate) const TERMINALS: Kit = Kit {
    scripts: "crates/cli/tests/terminals",
    versions: "crates/cli/tests/terminals",
    folder: "terminals",
    alone: false,
};
/// The clients of the Agent Client Protocol. The headless one comes with a compiler that is not needed.
pub(crate) const EDITORS: Kit = Kit {
    scripts: "crates/acp/tests/clients",
    versions: "crates/acp/tests/clients",
    folder: "editors",
    alone: true,
};
/// A login service, and a script that drives it; JavaScript alone.
pub(crate) const LOGIN: Kit = Kit {
    scripts: "crates/account/tests/oauth-server",
    versions: "crates/account/tests/oauth-server",
    folder: "login-service",
    alone: false,
};
/// The conformance suite of MCP, and a script that runs it; JavaScript alone.
pub(crate) const MCP: Kit = Kit {
    scripts: "crates/mcp/tests/conformance",
    versions: "crates/mcp/tests/conformance",
    folder: "mcp-conformance",
    alone: false,
};
/// The same suite, and a script that runs it against the server.
pub(crate) const MCP_SERVER: Kit = Kit { scripts: "crates/mcp-server/tests/conformance", ..MCP };
/// MCP servers in both languages, and a script of JavaScript that has the agent use them.
pub(crate) const MCP_SERVERS: Kit = Kit {
    scripts: "crates/mcp/tests/servers",
    versions: "crates/mcp/tests/servers",
    folder: "mcp-servers",
    alone: false,
};
/// A checker of accessibility, and a script that leads the web client through its states; JavaScript alone.
pub(crate) const WEB_CLIENT: Kit = Kit {
    scripts: "crates/web/tests/axe",
    versions: "crates/web/tests/axe",
    folder: "web-client",
    alone: false,
};
/// The kit that checks and tests the Python SDK; Python alone.
pub(crate) const PYTHON_SDK: Kit = Kit {
    scripts: "sdk/python/tests",
    versions: "sdk/python/tests",
    folder: "python-sdk",
    alone: true,
};
/// The kit that checks and tests the TypeScript SDK; JavaScript alone.
pub(crate) const TYPESCRIPT_SDK: Kit = Kit {
    scripts: "sdk/typescript/tests",
    versions: "sdk/typescript",
    folder: "typescript-sdk",
    alone: false,
};
/// The validator of the skills format; Python alone.
pub(crate) const SKILLS: Kit = Kit {
    scripts: "crates/skills/tests/validator",
    versions: "crates/skills/tests/validator",
    folder: "skills-validator",
    alone: false,
};
/// Helm, schemas of Kubernetes and types of the compose specification; Python alone.
pub(crate) const DEPLOYMENTS: Kit = Kit {
    scripts: "packaging/tests/deployments",
    versions: "packaging/tests/deployments",
    folder: "deployments",
    alone: true,
};
/// A collector of telemetry; Python alone.
pub(crate) const COLLECTOR: Kit = Kit {
    scripts: "crates/telemetry/tests/real-collector",
    versions: "crates/telemetry/tests/real-collector",
    folder: "collector",
    alone: false,
};
/// The file that names the last installation: when it is outdated, everything is installed again.
const STAMP: &str = "installed";

/// A client that is installed.
pub(crate) struct Client {
    pub(crate) language: &'static str,
    program: PathBuf,
    script: PathBuf,
    folder: PathBuf,
    /// For its environment.
    variables: Vec<(&'static str, PathBuf)>,
}

impl Client {
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(&self.script).current_dir(&self.folder);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        // Settings of the user who runs this would lead the clients elsewhere.
        for name in ["BASE_URL", "API_KEY", "ADMIN_KEY", "ORG_ID", "PROJECT_ID", "LOG"] {
            command.env_remove(format!("OPENAI_{name}"));
        }
        for name in ["AGENT_HOME", "AGENT_API_KEY", "AGENTD_DIALECT", "CODEX_HOME", "CODEX_API_KEY"]
        {
            command.env_remove(name);
        }
        command
    }
}

/// That everything is on this machine that the clients need.
fn check() -> Result<()> {
    let programs = [("python3", "Python 3"), ("node", "Node.js"), ("npm", "npm")];
    let mut missing: Vec<&str> = programs
        .iter()
        .filter(|(program, _)| !Program::exists(program))
        .map(|(_, name)| *name)
        .collect();
    // A virtual environment takes its pip from there.
    let ensurepip = || Command::new("python3").args(["-m", "ensurepip", "--version"]).output();
    if !missing.contains(&"Python 3") && !ensurepip().is_ok_and(|output| output.status.success()) {
        missing.push("pip for Python 3 (Debian: python3-venv)");
    }
    ensure!(
        missing.is_empty(),
        "missing on this machine: {}; install it and run `cargo xtask interop` again",
        missing.join(", ")
    );
    Ok(())
}

/// Installs what is not there yet.
pub(crate) fn install(root: &Path, target: &Path, kit: &Kit) -> Result<[Client; 2]> {
    check()?;
    let folder = target.join(kit.folder);
    let python = python(root, kit, &folder.join("python")).context("the Python client")?;
    let javascript = javascript(root, kit, &folder.join("javascript"));
    Ok([python, javascript.context("the JavaScript client")?])
}

/// As [`install`], for servers in Python that the script of JavaScript starts.
pub(crate) fn install_servers(root: &Path, target: &Path, kit: &Kit) -> Result<Client> {
    let [python, javascript] = install(root, target, kit)?;
    let server = root.join(kit.scripts).join("server.py");
    let variables = vec![("PYTHON", python.program), ("SERVER", server)];
    Ok(Client { variables, ..javascript })
}

/// As [`install`], for a kit of JavaScript alone.
pub(crate) fn install_javascript(root: &Path, target: &Path, kit: &Kit) -> Result<Client> {
    check()?;
    let folder = target.join(kit.folder).join("javascript");
    javascript(root, kit, &folder).context("the login service")
}

/// As [`install_javascript`], for a script that copies the package next to what it needs.
pub(crate) fn install_typescript_sdk(root: &Path, target: &Path) -> Result<Client> {
    generate::build(root)?;
    let client = install_javascript(root, target, &TYPESCRIPT_SDK)?;
    Ok(Client { variables: vec![("SDK", root.join(TYPESCRIPT_SDK.versions))], ..client })
}

/// As [`install`], for a kit of Python alone.
pub(crate) fn install_python(root: &Path, target: &Path, kit: &Kit) -> Result<Client> {
    check()?;
    python(root, kit, &target.join(kit.folder).join("python")).context("the Python package")
}

/// The kit of the Python SDK, whose script kills the bot of the examples and its server so many times in place of the tests.
pub(crate) fn install_soak(root: &Path, target: &Path, kills: &str) -> Result<Client> {
    let client = install_python(root, target, &PYTHON_SDK)?;
    Ok(Client { variables: vec![("SOAK_KILLS", kills.into())], ..client })
}

/// The script that installs packages, which are in a folder, in an empty place: those of these parts.
pub(crate) fn installers(root: &Path, parts: &str, packages: &Path, place: &Path) -> Client {
    let compiler = crate::package::compiled_folder(root);
    Client {
        language: "installers",
        program: "python3".into(),
        script: root.join("packaging/tests/client.py"),
        folder: root.to_owned(),
        variables: vec![
            ("PACKAGES", packages.to_owned()),
            ("PLACE", place.to_owned()),
            ("PARTS", parts.into()),
            ("COMPILER", compiler),
        ],
    }
}

fn python(root: &Path, kit: &Kit, folder: &Path) -> Result<Client> {
    let program = folder.join("bin/python");
    let list = root.join(kit.versions).join("requirements.txt");
    let wanted = read(&list)?;
    once(folder, &wanted, || {
        let place = folder.to_string_lossy();
        run(Program::new("python3", &["-m", "venv", "--clear", &place]))?;
        let list = list.to_string_lossy();
        let quiet = ["--quiet", "--disable-pip-version-check"];
        let only: &[&str] = if kit.alone { &["--no-deps"] } else { &[] };
        let install = [&["-m", "pip", "install"][..], &quiet, only, &["--requirement", &list]];
        let install = install.concat();
        run(Program::new(&program, &install))
    })?;
    let script = root.join(kit.scripts).join("client.py");
    let (folder, variables) = (folder.to_owned(), Vec::new());
    Ok(Client { language: "Python", program, script, folder, variables })
}

fn javascript(root: &Path, kit: &Kit, folder: &Path) -> Result<Client> {
    let files = ["package.json", "package-lock.json"];
    let versions = root.join(kit.versions);
    let wanted: String =
        files.iter().map(|file| read(&versions.join(file))).collect::<Result<_>>()?;
    once(folder, &wanted, || {
        for file in files {
            std::fs::copy(versions.join(file), folder.join(file))?;
        }
        let only: &[&str] = if kit.alone { &["--omit=optional"] } else { &[] };
        let install = [&["ci", "--no-audit", "--no-fund"][..], only].concat();
        run(Program::new("npm", &install).folder(folder))
    })?;
    // Modules are looked for from where the script is, also those that it imports from next to it.
    for entry in std::fs::read_dir(root.join(kit.scripts))? {
        let module = entry?.path();
        if let Some(name) =
            module.file_name().filter(|_| module.extension() == Some("mjs".as_ref()))
        {
            std::fs::copy(&module, folder.join(name))?;
        }
    }
    let script = folder.join("client.mjs");
    let (folder, variables) = (folder.to_owned(), Vec::new());
    Ok(Client { language: "JavaScript", program: "node".into(), script, folder, variables })
}

/// Does it, unless it was done for the same before.
fn once(folder: &Path, wanted: &str, install: impl FnOnce() -> Result<()>) -> Result<()> {
    let stamp = folder.join(STAMP);
    if std::fs::read_to_string(&stamp).is_ok_and(|done| done == wanted) {
        return Ok(());
    }
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    install()?;
    std::fs::write(&stamp, wanted).with_context(|| stamp.display().to_string())
}

fn run(program: Program) -> Result<()> {
    let done = program.succeed("check the network and the output above");
    done.map(drop).map_err(|failed| anyhow!(failed.message))
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn installed_tools_are_not_installed_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut installed = 0;
        let mut install = |wanted: &str, works: bool| {
            once(&folder.path().join("tool"), wanted, || {
                installed += 1;
                ensure!(works, "no network");
                Ok(())
            })
            .is_ok()
        };
        let done = [("a", false), ("a", true), ("a", true), ("b", true), ("b", true)]
            .map(|(wanted, works)| install(wanted, works));
        assert_eq!((done, installed), ([false, true, true, true, true], 3));
    }

    #[test]
    fn versions_are_pinned_and_no_registry_is_named() {
        let kits = [
            GATEWAY,
            STREAMS,
            FRAMEWORKS,
            AGENT,
            EDITORS,
            LOGIN,
            MCP,
            MCP_SERVERS,
            TERMINALS,
            TYPESCRIPT_SDK,
            WEB_CLIENT,
            WIRE_CLIENTS,
        ];
        for kit in kits {
            let scripts = xtask::workspace_root().join(kit.versions);
            let is_javascript = [LOGIN, MCP, TERMINALS, TYPESCRIPT_SDK, WEB_CLIENT, WIRE_CLIENTS]
                .map(|kit| kit.scripts);
            if !is_javascript.contains(&kit.scripts) {
                let requirements = read(&scripts.join("requirements.txt")).unwrap();
                assert!(requirements.lines().all(|line| line.contains("==")), "{requirements}");
            }
            let lock = read(&scripts.join("package-lock.json")).unwrap();
            assert!(lock.contains("\"integrity\"") && !lock.contains("\"resolved\""), "{lock}");
        }
    }
}
