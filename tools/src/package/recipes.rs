//! Files that have Homebrew and Nix install the tarball: written from `packaging/names.toml` and the checksums of the
//! tarballs. They name an address that answers once the owner has published the release.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha256};

use super::program::PROCESSORS;
use super::release::{Release, hex};

/// A tarball of the release.
struct Source {
    /// The processor, as the compiler calls it.
    processor: &'static str,
    url: String,
    sha256: String,
}

/// Writes both for the tarballs among `written` and in a list of checksums from the build on another machine.
pub(super) fn write(
    release: &Release,
    written: &[PathBuf],
    other: Option<&Path>,
) -> Result<[PathBuf; 2]> {
    let sources = sources(release, written, other)?;
    ensure!(
        !sources.is_empty(),
        "the files for Homebrew and Nix need a tarball: build it in the same run (`tarball recipes`)"
    );
    Ok([
        release.write("agentd.rb", homebrew(release, &sources).as_bytes())?,
        release.write("agentd.nix", nix(release, &sources).as_bytes())?,
    ])
}

fn sources(release: &Release, written: &[PathBuf], other: Option<&Path>) -> Result<Vec<Source>> {
    let listed = match other {
        Some(file) => fs::read_to_string(file).with_context(|| file.display().to_string())?,
        None => String::new(),
    };
    let mut sources = Vec::new();
    for processor in &PROCESSORS {
        let name = format!("agentd-{}-linux-{}.tar.gz", release.version, processor.rust);
        let sum = match written.iter().find(|path| path.ends_with(&name)) {
            Some(path) => Some(hex(&Sha256::digest(fs::read(path)?))),
            None => listed
                .lines()
                .find_map(|line| line.strip_suffix(&format!("  {name}")))
                .map(str::to_owned),
        };
        if let Some(sha256) = sum {
            let url = format!("{}/{}/{name}", release.names.publisher.downloads, release.version);
            sources.push(Source { processor: processor.rust, url, sha256 });
        }
    }
    Ok(sources)
}

fn homebrew(release: &Release, sources: &[Source]) -> String {
    let (facts, publisher) = (&release.names.program, &release.names.publisher);
    let mut formula = format!(
        "# Written by `cargo xtask package`.\nclass Agentd < Formula\n  desc \"{}\"\n  homepage \"{}\"\n  \
         version \"{}\"\n  license \"{}\"\n\n",
        facts.summary, publisher.homepage, release.version, facts.license
    );
    for source in sources {
        let processor = if source.processor == "x86_64" { "on_intel" } else { "on_arm" };
        let _ = write!(
            formula,
            "  {processor} do\n    url \"{}\"\n    sha256 \"{}\"\n  end\n",
            source.url, source.sha256
        );
    }
    if let [only] = sources {
        let processor = if only.processor == "x86_64" { "x86_64" } else { "arm64" };
        let _ = write!(formula, "\n  depends_on arch: :{processor}");
    }
    formula.push_str(
        r##"
  depends_on :linux

  def install
    bin.install "bin/agentd"
    man1.install "share/man/man1/agentd.1"
    doc.install "share/doc/agentd/sbom.cdx.json"
    bash_completion.install "share/bash-completion/completions/agentd"
    zsh_completion.install "share/zsh/vendor-completions/_agentd"
    fish_completion.install "share/fish/vendor_completions.d/agentd.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/agentd --version")
  end
end
"##,
    );
    formula
}

fn nix(release: &Release, sources: &[Source]) -> String {
    let (facts, publisher) = (&release.names.program, &release.names.publisher);
    let mut listed = String::new();
    for Source { processor, url, sha256 } in sources {
        let _ = write!(
            listed,
            "    {processor}-linux = {{\n      url = \"{url}\";\n      sha256 = \"{sha256}\";\n    }};\n"
        );
    }
    format!(
        r#"# Written by `cargo xtask package`. Use it with `pkgs.callPackage ./agentd.nix {{ }}`.
{{ lib, stdenvNoCC, fetchurl }}:
let
  sources = {{
{listed}  }};
  system = stdenvNoCC.hostPlatform.system;
in
stdenvNoCC.mkDerivation {{
  pname = "agentd";
  version = "{version}";
  src = fetchurl (sources.${{system}} or (throw "agentd has no package for ${{system}}"));
  dontConfigure = true;
  dontBuild = true;
  dontStrip = true;
  installPhase = ''
    runHook preInstall
    mkdir -p $out
    cp -r bin share $out/
    mv $out/share/zsh/vendor-completions $out/share/zsh/site-functions
    runHook postInstall
  '';
  meta = {{
    description = "{summary}";
    homepage = "{homepage}";
    license = lib.licenses.asl20;
    platforms = builtins.attrNames sources;
    sourceProvenance = [ lib.sourceTypes.binaryNativeCode ];
    mainProgram = "agentd";
  }};
}}
"#,
        version = release.version,
        summary = facts.summary,
        homepage = publisher.homepage,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_name_every_tarball_with_its_checksum() {
        let folder = tempfile::tempdir().unwrap();
        let release = Release::for_tests(folder.path(), "1.2.3");
        let own = folder.path().join("agentd-1.2.3-linux-x86_64.tar.gz");
        fs::write(&own, "tarball").unwrap();
        let other = folder.path().join("OTHER");
        let sum = "a".repeat(64);
        fs::write(&other, format!("{sum}  agentd-1.2.3-linux-aarch64.tar.gz\n")).unwrap();
        let digest = hex(&Sha256::digest("tarball"));
        let read = |path: &Path| fs::read_to_string(path).unwrap();
        let both = write(&release, std::slice::from_ref(&own), Some(&other)).unwrap();
        for text in both.iter().map(|path| read(path)) {
            assert!(text.contains(&digest) && text.contains(&sum), "{text}");
            assert!(text.contains(&release.names.publisher.downloads), "{text}");
        }
        let [formula, expression] = write(&release, &[own], None).unwrap().map(|path| read(&path));
        assert!(formula.contains("depends_on arch: :x86_64"), "{formula}");
        assert!(!expression.contains("aarch64"), "{expression}");
        assert!(write(&release, &[], None).unwrap_err().to_string().contains("need a tarball"));
    }
}
