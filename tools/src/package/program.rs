//! The program that packages contain, and what belongs to it: completions and the manual page, which it
//! writes itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow, ensure};

use super::release::Release;
use super::sbom;
use crate::link_order;
use xtask::{checkout, steps};

const NAME: &str = "agentd";
/// The profile of the tests, whose program is packaged as they built it.
const TESTS: &str = "dev";

/// A program that was built, with what it writes about itself.
pub(super) struct Program {
    pub(super) bytes: Vec<u8>,
    /// The first glibc that it starts with; none for a static one.
    pub(super) glibc: Option<(u32, u32)>,
    pub(super) manual: Vec<u8>,
    /// The names of shells and their completions.
    pub(super) completions: Vec<(&'static str, Vec<u8>)>,
    /// The list of what is in it, for the packages that contain it.
    pub(super) sbom: Vec<u8>,
}

/// The processor, by the names that the formats give it.
pub(super) struct Processor {
    pub(super) rust: &'static str,
    pub(super) wheel: &'static str,
    pub(super) npm: &'static str,
    pub(super) debian: &'static str,
}

/// Those that there are packages for.
pub(super) const PROCESSORS: [Processor; 2] = [
    Processor { rust: "x86_64", wheel: "x86_64", npm: "x64", debian: "amd64" },
    Processor { rust: "aarch64", wheel: "aarch64", npm: "arm64", debian: "arm64" },
];

/// Of this machine, which is the one that packages are built for.
pub(super) fn processor() -> Result<&'static Processor> {
    let rust = std::env::consts::ARCH;
    ensure!(cfg!(target_os = "linux"), "packages are built on Linux");
    let found = PROCESSORS.iter().find(|processor| processor.rust == rust);
    found.with_context(|| format!("there are no packages for {rust}"))
}

impl Program {
    /// Builds the program for the C library of this machine, with its functions in the order of a file.
    pub(super) fn build(release: &Release, profile: &str, order: Option<&Path>) -> Result<Program> {
        let root = &release.root;
        if profile == TESTS {
            checkout::agentd(root)?;
        } else {
            cargo(root, profile, None, order)?;
        }
        let path = stripped(&Program::path(root, profile), profile)?;
        let program = Program::of(&path, sbom::text(release, &target_of("gnu")?)?)?;
        ensure!(program.glibc.is_some(), "the program does not tell which glibc it needs");
        Ok(program)
    }

    /// Builds a program that needs no library: with musl where Rust has it here, else with glibc.
    pub(super) fn build_static(release: &Release, profile: &str) -> Result<Program> {
        let root = &release.root;
        let target = static_target()?;
        println!("static program: {target}");
        cargo(root, profile, Some(&target), None)?;
        let sbom = sbom::text(release, &target)?;
        let program = Program::of(&Program::static_path(root, profile)?, sbom)?;
        ensure!(program.glibc.is_none(), "the program for {target} needs a library of the system");
        Ok(program)
    }

    /// Where the program is built.
    pub(super) fn path(root: &Path, profile: &str) -> PathBuf {
        folder(root, profile, None).join(NAME)
    }

    /// Where the static program is built.
    pub(super) fn static_path(root: &Path, profile: &str) -> Result<PathBuf> {
        Ok(folder(root, profile, Some(&static_target()?)).join(NAME))
    }

    fn of(path: &Path, sbom: Vec<u8>) -> Result<Program> {
        let bytes = fs::read(path).with_context(|| path.display().to_string())?;
        let says = |arguments: &[&str]| -> Result<Vec<u8>> {
            let shown = || format!("{} {}", path.display(), arguments.join(" "));
            let output = Command::new(path).args(arguments).output().with_context(shown)?;
            ensure!(output.status.success(), "{} failed", shown());
            Ok(output.stdout)
        };
        let completions = ["bash", "zsh", "fish"]
            .into_iter()
            .map(|shell| Ok((shell, says(&["completions", shell])?)))
            .collect::<Result<_>>()?;
        // A static program has the names of versions, too, in the parts of glibc that could load libraries.
        let glibc = if is_dynamic(&bytes) { glibc(&bytes) } else { None };
        Ok(Program { glibc, manual: says(&["manual"])?, completions, sbom, bytes })
    }
}

/// The program without what debuggers need, which is most of one that is built for tests.
fn stripped(path: &Path, profile: &str) -> Result<PathBuf> {
    if profile != TESTS {
        return Ok(path.to_owned());
    }
    let to = path.with_file_name("agentd-stripped");
    let (from, shown) = (path.to_string_lossy(), to.to_string_lossy());
    steps::Program::new("strip", &["-o", &shown, &from])
        .succeed("install binutils")
        .map_err(|failed| anyhow!(failed.message))?;
    Ok(to)
}

/// Builds the program.
fn cargo(root: &Path, profile: &str, target: Option<&str>, order: Option<&Path>) -> Result<()> {
    let mut arguments = vec!["build", "--locked", "--profile", profile];
    arguments.extend(["--package", "cli"]);
    arguments.extend(target.iter().flat_map(|target| ["--target", *target]));
    let mut build = steps::Program::cargo(root, &arguments);
    if let Some(order) = order {
        build = build.env(link_order::VARIABLE, &order.to_string_lossy());
    }
    if let Some(target) = target {
        // Only for this target: plugins of the compiler cannot be linked statically.
        let name = format!("CARGO_TARGET_{}_RUSTFLAGS", target.to_uppercase().replace('-', "_"));
        // Where functions of the C library cannot be looked up at run time, random numbers would come from
        // /dev/urandom, which a root without devices does not have.
        let random = "--cfg getrandom_backend=\"linux_getrandom\"";
        build = build.env(&name, &format!("-C target-feature=+crt-static {random}"));
    }
    build.succeed("fix the errors above").map_err(|failed| anyhow!(failed.message))?;
    Ok(())
}

/// Where cargo puts the program.
fn folder(root: &Path, profile: &str, target: Option<&str>) -> PathBuf {
    let all = root.join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()));
    // The profile `dev` has a folder of another name.
    let name = if profile == "dev" { "debug" } else { profile };
    target.map_or_else(|| all.clone(), |target| all.join(target)).join(name)
}

/// The target of this machine's processor with a C library.
pub(super) fn target_of(library: &str) -> Result<String> {
    Ok(format!("{}-unknown-linux-{library}", processor()?.rust))
}

pub(super) fn static_target() -> Result<String> {
    let musl = target_of("musl")?;
    let found = Command::new("rustc")
        .args(["--print", "target-libdir", "--target", &musl])
        .output()
        .context("rustc")?;
    let folder = String::from_utf8_lossy(&found.stdout).trim().to_owned();
    if found.status.success() && Path::new(&folder).is_dir() { Ok(musl) } else { target_of("gnu") }
}

/// Returns whether a program is started by a dynamic linker: its ELF header leads to a program
/// header that names one.
fn is_dynamic(program: &[u8]) -> bool {
    const PT_INTERP: u32 = 3;
    let number = |at: usize, bytes: usize| -> Option<usize> {
        let mut wide = [0; 8];
        wide[..bytes].copy_from_slice(program.get(at..at.checked_add(bytes)?)?);
        usize::try_from(u64::from_le_bytes(wide)).ok()
    };
    let headers = || Some((number(0x20, 8)?, number(0x36, 2)?, number(0x38, 2)?));
    let Some((first, size, count)) = headers() else { return false };
    let kinds = (0..count).map_while(|header| number(first.checked_add(header * size)?, 4));
    kinds.into_iter().any(|kind| kind == PT_INTERP as usize)
}

/// The latest version of glibc that a program names, of its symbols and of the form of its relocations.
fn glibc(program: &[u8]) -> Option<(u32, u32)> {
    const PREFIX: &[u8] = b"GLIBC_";
    let names = program.windows(PREFIX.len()).enumerate().filter(|(_, part)| *part == PREFIX);
    names.filter_map(|(at, _)| version(&program[at + PREFIX.len()..])).max()
}

/// From `2.34` or `ABI_DT_RELR`, which came with 2.36, up to a zero byte.
fn version(text: &[u8]) -> Option<(u32, u32)> {
    let end = text.iter().take(32).position(|byte| *byte == 0)?;
    let text = std::str::from_utf8(&text[..end]).ok()?;
    if text == "ABI_DT_RELR" {
        return Some((2, 36));
    }
    let (major, rest) = text.split_once('.')?;
    let minor = rest.split_once('.').map_or(rest, |(minor, _)| minor);
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_needed_glibc_is_the_latest_named() {
        for (text, expected) in [
            ("GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.9\0", Some((2, 34))),
            ("GLIBC_2.34\0GLIBC_ABI_DT_RELR\0", Some((2, 36))),
            ("GLIBC_PRIVATE\0GLIBC_2", None),
            ("", None),
        ] {
            assert_eq!(glibc(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn a_program_with_an_interpreter_is_dynamic() {
        let program = |kinds: &[u8]| {
            let mut elf = vec![0; 0x40];
            (elf[0x20], elf[0x36]) = (0x40, 0x38);
            elf[0x38] = u8::try_from(kinds.len()).unwrap();
            for kind in kinds {
                elf.push(*kind);
                elf.extend([0; 0x37]);
            }
            elf
        };
        assert!(is_dynamic(&program(&[6, 3, 1])));
        assert!(!is_dynamic(&program(&[6, 1])));
        assert!(!is_dynamic(&program(&[6, 3])[..0x50]), "cut off");
        assert!(!is_dynamic(b"\x7fELF"));
        assert!(!is_dynamic(&[0xff; 0x80]));
    }
}
