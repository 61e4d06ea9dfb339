//! Decides which layers confine a command, and prepares them.

use std::io;
use std::path::Path;

use policy::{Access, ReadAccess};

use super::interface::{Layer, Spawn};
use super::on_linux::{bad_cwd, bytes, io_error, unavailable};
use crate::error::Error;
use crate::linux::detect::Detected;
use crate::linux::landlock::{self, Ruleset};
use crate::linux::seccomp::{self, Files, Network};
use crate::linux::view::View;
use crate::protect::{Placeholder, Protection};
use crate::resolved::Resolved;
use crate::supervise::places::Places;
use crate::supervise::request::{Confinement, Narrowing};

/// Confinement, and the placeholders to hold until the command has ended.
pub(super) type Confined = (Confinement, Vec<Placeholder>);

pub(super) fn confine(
    layer: Layer,
    found: Option<&Detected>,
    resolved: &Resolved,
    spawn: &Spawn,
) -> Result<Confined, Error> {
    let Some(found) = found.filter(|_| resolved.confined) else {
        return match spawn.egress {
            None => Ok((Confinement::None, Vec::new())),
            Some(_) => {
                Err(unavailable("a managed network needs a policy that confines the command"))
            }
        };
    };
    if resolved.check_read(&spawn.cwd).is_err() {
        return Err(bad_cwd(&spawn.cwd, "the sandbox policy does not allow reading it"));
    }
    let protection = protection(resolved).map_err(io_error("looking at writable folders"))?;
    match layers(layer, found) {
        (Ok(()), _) => wrap(found.landlock.is_ok(), resolved, &protection, spawn)
            .map_err(io_error("preparing the sandbox")),
        (Err(no_namespaces), Ok(abi)) => {
            if let (Err(why), Some(part)) = (&found.broker, needs_more(resolved, spawn)) {
                return Err(unavailable(&format!(
                    "{part} cannot be enforced by Landlock alone. {no_namespaces}. {why}"
                )));
            }
            landlocked(*abi, found, resolved, &protection, spawn.egress.is_some())
                .map_err(io_error("preparing the sandbox"))
        }
        (Err(no_namespaces), Err(no_landlock)) => {
            Err(unavailable(&format!("{no_namespaces}. {no_landlock}")))
        }
    }
}

/// The part of a policy that Landlock alone cannot enforce: where connections go, and a path inside of a folder that
/// differs from it.
fn needs_more(resolved: &Resolved, spawn: &Spawn) -> Option<&'static str> {
    if spawn.egress.is_some() {
        return Some("a managed network");
    }
    resolved.rules.is_some().then_some("a permission profile")
}

/// The layers that may be used, each with the reason why it cannot.
pub(super) fn layers(layer: Layer, found: &Detected) -> (Result<(), String>, Result<&u32, String>) {
    let namespaces = found.namespaces.clone().map_err(|error| error.to_string());
    let landlock = found.landlock.as_ref().map_err(Error::to_string);
    match layer {
        Layer::Auto => (namespaces, landlock),
        Layer::Namespaces => {
            (namespaces, Err("the configuration allows namespaces only".to_owned()))
        }
        Layer::Landlock => (Err("the configuration allows Landlock only".to_owned()), landlock),
        Layer::None => {
            let refused = || "the configuration allows no layer of the sandbox".to_owned();
            (Err(refused()), Err(refused()))
        }
    }
}

fn protection(resolved: &Resolved) -> io::Result<Protection> {
    let roots = resolved.writable_folders();
    let found = resolved.protected_paths().map_err(io::Error::other)?;
    let mut protection = Protection::of(&roots, &found);
    if resolved.rules.is_some() {
        protection.follow(&roots, &resolved.real_rules());
    }
    Ok(protection)
}

pub(super) fn wrap(
    has_landlock: bool,
    resolved: &Resolved,
    protection: &Protection,
    spawn: &Spawn,
) -> io::Result<Confined> {
    let mut placeholders = Vec::new();
    let mut read_only = protection.read_only.clone();
    for path in &protection.missing {
        // Nothing can be created at the top of a frozen root.
        if path.parent().is_some_and(|parent| protection.frozen.iter().any(|root| root == parent)) {
            continue;
        }
        placeholders.extend(Placeholder::hold(path)?);
        match path.symlink_metadata() {
            // Where the link leads was not checked.
            Ok(meta) if meta.is_symlink() => return Err(changed(path)),
            Ok(_) => read_only.push(path.clone()),
            // A command cannot create it either: it has the same rights.
            Err(_) => {}
        }
    }
    read_only.sort();
    let managed = spawn.egress.is_some();
    let view = View::new(resolved, protection, &read_only)?;
    let filter =
        seccomp::to_bytes(&seccomp::filter(of_machine(resolved.network || managed), Files::Mounts));
    // Pinned folders are mounted writable as well, so they must be those that were checked. In a
    // profile, its rules decide about them.
    let pins = protection.pins.iter().filter(|_| resolved.rules.is_none());
    let roots = || protection.roots.iter().chain(pins).map(bytes).collect();
    let narrowing = (has_landlock && runs_inside(resolved)).then(|| Narrowing { roots: roots() });
    let network = resolved.network && !managed;
    Ok((Confinement::Namespaces { view, network, filter, narrowing }, placeholders))
}

/// Returns whether this program finds the system's libraries inside the sandbox.
fn runs_inside(resolved: &Resolved) -> bool {
    match &resolved.read {
        ReadAccess::Full => true,
        ReadAccess::Restricted { platform_defaults: true, .. } => true,
        ReadAccess::Restricted { .. } => resolved
            .real_rules()
            .first()
            .is_some_and(|(path, access)| path == Path::new("/") && *access != Access::None),
    }
}

fn changed(path: &Path) -> io::Error {
    let path = path.display();
    io::Error::other(format!("{path} has just become a symbolic link; start the command again"))
}

/// The confinement by Landlock alone, with a supervisor that makes what the policy allows beyond it, if that is
/// possible here.
fn landlocked(
    abi: u32,
    found: &Detected,
    resolved: &Resolved,
    protection: &Protection,
    is_managed: bool,
) -> io::Result<Confined> {
    let ruleset = Ruleset::new(abi, resolved, protection, is_managed)?;
    if found.broker.is_err() {
        let network = of_machine(resolved.network);
        let filter = seccomp::to_bytes(&seccomp::filter(network, Files::Landlock));
        return Ok((Confinement::Landlock { ruleset, filter, places: None }, Vec::new()));
    }
    let places = Places::new(resolved, protection);
    let network = if is_managed { Network::Supervisor } else { of_machine(resolved.network) };
    let files = Files::Supervisor {
        reads: !places.readable.is_empty(),
        signals: abi < landlock::SIGNALS_ABI,
    };
    let filter = seccomp::to_bytes(&seccomp::filter(network, files));
    Ok((Confinement::Landlock { ruleset, filter, places: Some(places) }, Vec::new()))
}

fn of_machine(is_open: bool) -> Network {
    if is_open { Network::Open } else { Network::None }
}
