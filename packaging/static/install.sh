#!/bin/sh
# Installs what lies beside this script for one user: ./install.sh [PREFIX]   (~/.local)
# Every file is compared with SHA256SUMS first, and the program is started once; only then anything is written. No root is needed
# where you may write to PREFIX. To update, run the newer version's install.sh.
set -eu

fail() { printf 'error: %s\n' "$*" >&2; exit 1; }

[ $# -le 1 ] || fail "usage: $0 [PREFIX]"
case ${1-} in -*) sed -n '2,4s/^# \{0,1\}//p' "$0" >&2; exit 2 ;; esac
prefix=${1:-${HOME:?}/.local}
cd "$(dirname "$0")"
case $prefix in /*) ;; *) prefix=${OLDPWD:?}/$prefix ;; esac
case $prefix in *"
"*) fail "the folder's name has more than one line: choose another folder" ;; esac

command -v sha256sum >/dev/null || fail "sha256sum is missing: install coreutils"
[ -s SHA256SUMS ] || fail "SHA256SUMS is missing here: unpack the whole archive again"
sha256sum -c SHA256SUMS >/dev/null 2>&1 ||
  fail "files differ from SHA256SUMS: $(sha256sum -c SHA256SUMS 2>/dev/null | sed -n 's/: FAILED.*//p' | tr '\n' ' ')- fetch the archive again"
version=$(bin/anabranch --version 2>&1) || fail "the program does not run here: $version
It needs Linux on @MACHINE@ with glibc @GLIBC@ or newer. Other systems build it from the source."

# The unit names the program where it lies: quoted for systemd, which replaces what follows %.
program=$(printf '%s\n' "$prefix/bin/anabranch" | sed 's/["\\]/\\&/g; s/%/%%/g')
unit() {
  while IFS= read -r line; do
    case $line in ExecStart=*) line="ExecStart=\"$program\"${line#"${line%% *}"}" ;; esac
    printf '%s\n' "$line"
  done
}

# A program that runs is replaced, and not written to.
cut -c 67- SHA256SUMS | while IFS= read -r file; do
  mkdir -p "$prefix/$(dirname "$file")" || fail "cannot write to $prefix: choose another folder, $0 PREFIX"
  case $file in
    *.service) unit <"$file" >"$prefix/$file.new" ;;
    *) cp -p "$file" "$prefix/$file.new" ;;
  esac
  mv -f "$prefix/$file.new" "$prefix/$file"
done
printf 'anabranch %s is in %s\n' "$version" "$prefix/bin"
case :$PATH: in *:"$prefix/bin":*) ;; *) printf 'Add this folder to your PATH: export PATH="%s:$PATH"\n' "$prefix/bin" ;; esac
