#!/bin/sh
# Installs the program `agentd` for one user, without a toolchain and without root: checks the platform, the signature of
# the checksums and the checksum of the package, and copies files below one folder.
#
#   sh install.sh --from FOLDER-OR-URL [--key KEY-OR-FILE] [--to FOLDER]
#   sh install.sh --uninstall [--to FOLDER]
#
# `cargo xtask package` writes the address of the release and its public key into the copy that it puts next to the
# packages. Needs tar, gzip and sha256sum; minisign or OpenSSL 3 for the signature; curl or wget for an address.
set -eu

SOURCE=''
PUBLIC_KEY=''

fail() { printf 'install.sh: %s\n' "$*" >&2; exit 1; }
say() { printf '%s\n' "$*"; }
has() { command -v "$1" >/dev/null 2>&1; }

usage() {
  sed -n '2,/^set /p' "$0" | sed -e '/^set /d' -e 's/^# \{0,1\}//'
  say 'Options:'
  say '  --from FOLDER-OR-URL   where the packages are: a folder, or an address that begins with https://'
  say '  --key KEY-OR-FILE      the public key of the release (minisign)'
  say '  --without-signature    installs what nobody signed: only the checksum is checked'
  say '  --to FOLDER            default: ~/.local; the program becomes FOLDER/bin/agentd'
  say '  --uninstall            removes what an installation wrote; your threads and configuration stay'
}

to=${HOME:+$HOME/.local}
from=$SOURCE
key=$PUBLIC_KEY
signed=yes
action=install
while [ $# -gt 0 ]; do
  case $1 in
    --from | --key | --to)
      [ $# -ge 2 ] || fail "$1 needs a value"
      case $1 in
        --from) from=$2 ;;
        --key) key=$2 ;;
        --to) to=$2 ;;
      esac
      shift
      ;;
    --without-signature) signed=no ;;
    --uninstall) action=uninstall ;;
    --help | -h) usage; exit 0 ;;
    *) fail "unknown option $1; --help lists them" ;;
  esac
  shift
done

[ -n "$to" ] || fail 'HOME is not set: name the folder with --to'
case $to in /*) ;; *) to=$PWD/$to ;; esac
list=$to/share/agentd/installed-files

uninstall() {
  [ -f "$list" ] || fail "$list does not exist: nothing was installed below $to by this script"
  while IFS= read -r file; do
    case $file in
      '' | /* | *..*) fail "$list names $file, which this script does not write: remove the files by hand" ;;
    esac
    rm -f -- "$to/$file"
  done <"$list"
  rm -f -- "$list"
  rmdir -- "$to/share/agentd" 2>/dev/null || :
  say "Removed agentd from $to. Threads and configuration are still in ${AGENT_HOME:-~/.agent}."
}

if [ "$action" = uninstall ]; then
  uninstall
  exit 0
fi

# The platform.
system=$(uname -s)
[ "$system" = Linux ] || fail "there is no package for $system. Run agentd on Linux, or in a Linux container or virtual machine"
case $(uname -m) in
  x86_64 | amd64) processor=x86_64 ;;
  aarch64 | arm64) processor=aarch64 ;;
  *) fail "there is no package for the processor $(uname -m): build agentd from its sources" ;;
esac
for program in tar gzip sha256sum; do
  has "$program" || fail "the program $program is missing: install it with your system's package tool"
done
[ -n "$from" ] || fail 'this copy of the script names no release: say where the packages are with --from'

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM HUP

# Copies a file of the release: NAME.
fetch() {
  case $from in
    https://*)
      if has curl; then
        curl --fail --silent --show-error --location --proto '=https' --tlsv1.2 --output "$scratch/$1" "$from/$1" ||
          fail "$from/$1 cannot be fetched"
      elif has wget; then
        wget --quiet --https-only --output-document="$scratch/$1" "$from/$1" || fail "$from/$1 cannot be fetched"
      else
        fail 'curl and wget are missing: install one, or download the packages and name their folder with --from'
      fi
      ;;
    *://*) fail "$from is not an https address" ;;
    *)
      [ -f "$from/$1" ] || fail "$from/$1 does not exist"
      cp -- "$from/$1" "$scratch/$1"
      ;;
  esac
}

decode() { base64 -d 2>/dev/null; }
# Bytes of a file: FILE SKIP COUNT.
bytes() { dd if="$1" bs=1 skip="$2" count="$3" 2>/dev/null; }

# Checks SHA256SUMS.minisig with OpenSSL: a key and a signature of minisign are Ed25519, over the BLAKE2b digest of the
# file, and over the signature with its trusted comment.
verify_with_openssl() {
  sig=$scratch/SHA256SUMS.minisig
  printf '%s' "$key" | decode >"$scratch/key" && [ "$(wc -c <"$scratch/key")" -eq 42 ] ||
    fail 'the public key is not one of minisign'
  sed -n 2p "$sig" | decode >"$scratch/sig" && [ "$(wc -c <"$scratch/sig")" -eq 74 ] ||
    fail 'SHA256SUMS.minisig is not a signature of minisign'
  [ "$(bytes "$scratch/sig" 0 2)" = ED ] || fail 'SHA256SUMS.minisig has an old form: sign again with a newer minisign'
  [ "$(bytes "$scratch/key" 2 8 | od -An -tx1)" = "$(bytes "$scratch/sig" 2 8 | od -An -tx1)" ] ||
    fail 'SHA256SUMS was signed with another key'
  {
    printf '\060\052\060\005\006\003\053\145\160\003\041\000'
    bytes "$scratch/key" 10 32
  } >"$scratch/key.der"
  bytes "$scratch/sig" 10 64 >"$scratch/sig.raw"
  openssl dgst -blake2b512 -binary "$scratch/SHA256SUMS" >"$scratch/digest" ||
    fail 'this OpenSSL is too old to check the signature: install minisign'
  {
    cat "$scratch/sig.raw"
    sed -n 3p "$sig" | sed 's/^trusted comment: //' | tr -d '\n'
  } >"$scratch/global"
  sed -n 4p "$sig" | decode >"$scratch/global.raw"
  for pair in digest:sig.raw global:global.raw; do
    openssl pkeyutl -verify -pubin -keyform DER -inkey "$scratch/key.der" -rawin \
      -in "$scratch/${pair%%:*}" -sigfile "$scratch/${pair##*:}" >/dev/null 2>&1 ||
      fail 'the signature of SHA256SUMS is wrong: these packages are not those that were signed. Nothing was installed'
  done
}

verify() {
  [ -n "$key" ] || fail 'this copy of the script has no public key: name one with --key, or accept --without-signature'
  if [ -f "$key" ]; then key=$(sed -n '$p' "$key"); fi
  fetch SHA256SUMS.minisig
  if has minisign; then
    minisign -Vq -P "$key" -m "$scratch/SHA256SUMS" -x "$scratch/SHA256SUMS.minisig" >/dev/null 2>&1 ||
      fail 'the signature of SHA256SUMS is wrong: these packages are not those that were signed. Nothing was installed'
  elif has openssl; then
    verify_with_openssl
  else
    fail 'minisign and openssl are missing: install one to check the signature'
  fi
  comment=$(sed -n 's/^trusted comment: //p' "$scratch/SHA256SUMS.minisig")
}

comment=
fetch SHA256SUMS
if [ "$signed" = yes ]; then
  verify
else
  say 'warning: the signature is not checked (--without-signature)' >&2
fi

# The package, by its checksum.
line=$(grep -E "^[0-9a-f]{64}  agentd-[0-9][0-9A-Za-z.+-]*-linux-$processor\.tar\.gz\$" "$scratch/SHA256SUMS") ||
  fail "SHA256SUMS has no package for $processor"
[ "$(printf '%s\n' "$line" | wc -l)" -eq 1 ] || fail "SHA256SUMS has several packages for $processor"
archive=${line##*  }
version=${archive#agentd-}
version=${version%"-linux-$processor.tar.gz"}
if [ "$signed" = yes ] && [ "$comment" != "agentd $version" ]; then
  fail "the signature is for \"$comment\", and the package is agentd $version. Nothing was installed"
fi
fetch "$archive"
printf '%s\n' "$line" >"$scratch/line"
(cd "$scratch" && sha256sum --check --strict --status line) ||
  fail "$archive is not the file that SHA256SUMS lists: it is damaged or was changed. Nothing was installed"

mkdir "$scratch/files"
tar -xzf "$scratch/$archive" -C "$scratch/files" --strip-components=1 || fail "$archive cannot be unpacked"
new=$scratch/files/bin/agentd
[ -f "$new" ] || fail "$archive has no bin/agentd"
"$new" --version >/dev/null || fail 'the program does not start on this machine. Nothing was installed'

# Copies of an earlier version are replaced file by file; the program last, in one step.
mkdir -p "$to/bin" "$to/share/agentd" || fail "$to cannot be written: name another folder with --to"
(cd "$scratch/files" && find bin share -type f) >"$scratch/installed"
while IFS= read -r file; do
  [ "$file" = bin/agentd ] && continue
  mkdir -p "$to/${file%/*}"
  cp -- "$scratch/files/$file" "$to/$file.new.$$" && mv -f -- "$to/$file.new.$$" "$to/$file"
done <"$scratch/installed"
cp -- "$scratch/installed" "$list"
cp -- "$new" "$to/bin/agentd.new.$$"
chmod 755 "$to/bin/agentd.new.$$"
mv -f -- "$to/bin/agentd.new.$$" "$to/bin/agentd"

say "Installed agentd $version as $to/bin/agentd."
case :$PATH: in
  *:"$to/bin":*) ;;
  *) say "$to/bin is not in PATH: add it, for example with  export PATH=\"$to/bin:\$PATH\"" ;;
esac
say 'Next: agentd doctor checks this machine, agentd demo shows one turn without a key.'
