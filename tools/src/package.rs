//! `cargo xtask package`: what users install, into `target/packages`: wheels for PyPI and packages for npm, with a
//! program for glibc and with one that needs no library of the system, packages for Debian and RPM, a tarball with the
//! script that installs it, a container image, files for Homebrew and Nix, the lists of what is in the programs (SBOM), and
//! checksums, which can be signed. The same commit gives the same files.

mod archive;
mod debian;
mod image;
mod npm;
mod program;
mod recipes;
mod release;
mod review;
mod rpm;
mod sbom;
mod signing;
mod system;
mod tarball;
mod wheel;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

use crate::link_order;
pub(crate) use npm::compiled_folder;
use program::Program;
use release::{Release, folder};
use xtask::steps;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The kinds of packages to build [default: all]
    #[arg(value_enum)]
    kinds: Vec<Kind>,
    /// The profile of the program; another than `dist` is for tests of the packages
    #[arg(long, default_value = "dist")]
    profile: String,
    /// The order of the program's functions, of an earlier build of the same commit [default: made from the build]
    #[arg(long, value_name = "FILE")]
    link_order: Option<PathBuf>,
    /// The secret key that signs the checksums, of minisign [default: no signature]
    #[arg(long, value_name = "FILE")]
    sign: Option<PathBuf>,
    /// Checksums of the build on the other kind of processor, for the files for Homebrew and Nix
    #[arg(long, value_name = "FILE")]
    other_checksums: Option<PathBuf>,
}

impl Options {
    /// For tests of packages.
    fn of(kinds: Vec<Kind>, profile: &str) -> Options {
        let profile = profile.to_owned();
        Options { kinds, profile, link_order: None, sign: None, other_checksums: None }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Wheels with the program and with the Python SDK
    Wheel,
    /// The launcher, the program and the TypeScript SDK for npm; needs npm
    Npm,
    /// The wheel and the package for npm with a static program, for systems without glibc
    Musl,
    /// A Debian package; needs dpkg-deb
    Deb,
    /// A package for Fedora, openSUSE and others; needs rpmbuild
    Rpm,
    /// A tarball with a static program, and the script that installs it
    Tarball,
    /// A container image of the gateway, with a static program
    Image,
    /// A container image of the application server, on Debian; needs root and debootstrap, and is built by name only
    ServerImage,
    /// Files that have Homebrew and Nix install the tarball
    Recipes,
    /// The SBOM of each program as a file of its own, in CycloneDX; each package with a program contains it, too
    Sbom,
}

/// Builds the packages of installers; returns their folder.
pub(crate) fn build_installed(root: &Path, profile: &str) -> Result<PathBuf> {
    let mut kinds = vec![Kind::Wheel, Kind::Npm, Kind::Deb];
    if steps::Program::exists("rpmbuild") {
        kinds.push(Kind::Rpm);
    }
    run(root, &Options::of(kinds, profile))?;
    Ok(folder(root))
}

/// Builds the packages with a static program; returns their folder and the program.
pub(crate) fn build_static(root: &Path, profile: &str) -> Result<(PathBuf, PathBuf)> {
    let kinds = vec![Kind::Musl, Kind::Tarball, Kind::Recipes, Kind::Image];
    run(root, &Options::of(kinds, profile))?;
    Ok((folder(root), Program::static_path(root, profile)?))
}

/// Builds the image of the application server; returns the folder of the packages.
pub(crate) fn build_server_image(root: &Path, profile: &str) -> Result<PathBuf> {
    run(root, &Options::of(vec![Kind::ServerImage], profile))?;
    Ok(folder(root))
}

pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let is_default = options.kinds.is_empty();
    let chosen = |kind| options.kinds.contains(&kind) || is_default && kind != Kind::ServerImage;
    let release = Release::of(root, &options.profile)?;
    let mut written = Vec::new();
    if [Kind::Wheel, Kind::Npm, Kind::Deb, Kind::Rpm].into_iter().any(chosen) {
        let (program, order) = build(&release, options)?;
        if let Some(order) = order {
            written.push(release.write(link_order::FILE, &order)?);
        }
        if chosen(Kind::Wheel) {
            written.push(wheel::of_program(&release, &program)?);
            written.push(wheel::of_sdk(&release)?);
        }
        if chosen(Kind::Npm) {
            written.extend(npm::packages(&release, &program)?);
        }
        if chosen(Kind::Deb) {
            written.push(debian::package(&release, &program)?);
        }
        if chosen(Kind::Rpm) {
            written.push(rpm::package(&release, &program)?);
        }
    }
    if [Kind::Musl, Kind::Tarball, Kind::Image, Kind::ServerImage].into_iter().any(chosen) {
        let program = Program::build_static(&release, &options.profile)?;
        if chosen(Kind::Musl) {
            written.push(wheel::of_program(&release, &program)?);
            written.push(npm::of_program(&release, &program)?);
        }
        if chosen(Kind::Tarball) {
            written.push(tarball::write(&release, &program)?);
            written.push(signing::write_script(&release)?);
        }
        if chosen(Kind::Image) {
            written.push(image::write(&release, &program)?);
        }
        if chosen(Kind::ServerImage) {
            written.push(image::write_server(&release, &program)?);
        }
    }
    if chosen(Kind::Recipes) {
        let other = options.other_checksums.as_deref();
        written.extend(recipes::write(&release, &written, other)?);
    }
    if chosen(Kind::Sbom) {
        written.extend(sbom::write(&release)?);
    }
    review::check(&release, &written)?;
    release.finish(&written)?;
    options.sign.as_deref().map_or(Ok(()), |key| signing::sign(&release, key))
}

/// Builds the program for the C library of this machine. Returns the order of its functions, too, where it
/// has one: two runs of a program do not call quite the same functions, so a second build of the same
/// commit needs the order of the first to give the same bytes.
fn build(release: &Release, options: &Options) -> Result<(Program, Option<Vec<u8>>)> {
    let (root, profile) = (&release.root, &options.profile);
    if !link_order::applies(profile) {
        ensure!(
            options.link_order.is_none(),
            "a link order is for the profile `dist` on x86-64 with glibc only"
        );
        return Ok((Program::build(release, profile, None)?, None));
    }
    let file = link_order::file(root);
    let unordered = match &options.link_order {
        Some(given) => {
            let order = fs::read(given).with_context(|| given.display().to_string())?;
            fs::write(&file, order).with_context(|| file.display().to_string())?;
            None
        }
        None => Some(link_order::make(root)?),
    };
    let program = Program::build(release, profile, Some(&file))?;
    if let Some(unordered) = unordered {
        link_order::check(&unordered, &Program::path(root, profile))?;
    }
    let order = fs::read(&file).with_context(|| file.display().to_string())?;
    Ok((program, Some(order)))
}
