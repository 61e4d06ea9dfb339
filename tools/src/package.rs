//! `cargo xtask package`: what users install, into `target/packages`: wheels for PyPI and packages for npm, with a
//! program for glibc and with one that needs no library of the system, a Debian package, a tarball and a container
//! image, the list of what is in them (SBOM), and checksums. The same commit gives the same files.

mod archive;
mod debian;
mod image;
mod npm;
mod program;
mod release;
mod review;
mod sbom;
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
    /// A tarball with a static program
    Tarball,
    /// A container image with a static program
    Image,
    /// The SBOM, in CycloneDX
    Sbom,
}

/// Builds the packages of installers; returns their folder.
pub(crate) fn build_installed(root: &Path, profile: &str) -> Result<PathBuf> {
    let kinds = vec![Kind::Wheel, Kind::Npm, Kind::Deb];
    run(root, &Options { kinds, profile: profile.to_owned(), link_order: None })?;
    Ok(folder(root))
}

/// Builds the packages with a static program; returns their folder and the program.
pub(crate) fn build_static(root: &Path, profile: &str) -> Result<(PathBuf, PathBuf)> {
    let kinds = vec![Kind::Musl, Kind::Tarball, Kind::Image];
    run(root, &Options { kinds, profile: profile.to_owned(), link_order: None })?;
    Ok((folder(root), Program::static_path(root, profile)?))
}

pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let chosen = |kind| options.kinds.is_empty() || options.kinds.contains(&kind);
    let release = Release::of(root, &options.profile)?;
    let mut written = Vec::new();
    if [Kind::Wheel, Kind::Npm, Kind::Deb].into_iter().any(chosen) {
        let (program, order) = build(root, options)?;
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
    }
    if [Kind::Musl, Kind::Tarball, Kind::Image].into_iter().any(chosen) {
        let program = Program::build_static(root, &options.profile)?;
        if chosen(Kind::Musl) {
            written.push(wheel::of_program(&release, &program)?);
            written.push(npm::of_program(&release, &program)?);
        }
        if chosen(Kind::Tarball) {
            written.push(tarball::write(&release, &program)?);
        }
        if chosen(Kind::Image) {
            written.push(image::write(&release, &program)?);
        }
    }
    if chosen(Kind::Sbom) {
        written.push(sbom::write(&release)?);
    }
    review::check(&release, &written)?;
    release.finish(&written)
}

/// Builds the program for the C library of this machine. Returns the order of its functions, too, where it
/// has one: two runs of a program do not call quite the same functions, so a second build of the same
/// commit needs the order of the first to give the same bytes.
fn build(root: &Path, options: &Options) -> Result<(Program, Option<Vec<u8>>)> {
    let profile = &options.profile;
    if !link_order::applies(profile) {
        ensure!(
            options.link_order.is_none(),
            "a link order is for the profile `dist` on x86-64 with glibc only"
        );
        return Ok((Program::build(root, profile, None)?, None));
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
    let program = Program::build(root, profile, Some(&file))?;
    if let Some(unordered) = unordered {
        link_order::check(&unordered, &Program::path(root, profile))?;
    }
    let order = fs::read(&file).with_context(|| file.display().to_string())?;
    Ok((program, Some(order)))
}
