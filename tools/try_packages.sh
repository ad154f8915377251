#!/usr/bin/env bash
# Proof that the wheel and the archive of build-package/ need nothing else: installs them as a user would, here and in bare systems of
# Debian, and lets each answer, with times.
#   tools/try_packages.sh [SUITE...]    SUITE: such as bullseye; as root, with debootstrap
# What debootstrap fetched is kept in $TRY_FOLDER (/tmp/try-packages)/SUITE.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=${TRY_FOLDER:-/tmp/try-packages}
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
question="What is the capital of France?"

# shellcheck disable=SC2016
steps='
set -euo pipefail
cd "$1"
step() { local begin; begin=$(date +%s%N); "${@:2}"; printf "    %s: %d ms\n" "$1" $((($(date +%s%N) - begin) / 1000000)); }
sed -n "s/^PRETTY_NAME=\"\(.*\)\"/=== \1/p" /etc/os-release
ldd --version | sed -n "1s/^/    /p"
rm -rf venv unpacked prefix
make_venv() { python3 -m venv venv; }
install_wheel() { venv/bin/pip install -q --no-index --disable-pip-version-check ./*.whl; }
install_archive() { mkdir unpacked; tar -xzf ./*.tar.gz -C unpacked --strip-components 1; unpacked/install.sh "$PWD/prefix"; }
answer() { "$1" generate --model model --temp 0 --max-tokens 24 "$2" >"$3" 2>"$3.log" || { cat "$3.log" >&2; exit 1; }; }
with_python() {
  venv/bin/python - "$1" >"$2" <<END
import sys, anabranch
with anabranch.Model("model") as model:
    print(model.generate(sys.argv[1], max_tokens=24, temperature=0))
END
}
step "an environment" make_venv
step "pip install" install_wheel
venv/bin/anabranch --version | sed "s/^/    /"
step "an answer of the command" answer venv/bin/anabranch "$2" wheel.txt
step "an answer through import anabranch" with_python "$2" python.txt
step "install.sh" install_archive
step "an answer of the archive" answer prefix/bin/anabranch "$2" archive.txt
test -s wheel.txt
cmp wheel.txt archive.txt
cmp wheel.txt python.txt
sed "s/^/    | /" wheel.txt
'

# fill FOLDER: what a user would fetch.
fill() {
  rm -rf "$1"
  mkdir -p "$1"
  cp "$root"/build-package/*.whl "$root"/build-package/*.tar.gz "$1"
  cp -r "$root/models/hybrid-146m" "$1/model"
}

here=$folder/here
fill "$here"
(cd "$here" && env -i HOME="$here" PATH=/usr/local/bin:/usr/bin:/bin bash -c "$steps" bash "$here" "$question")
for suite; do
  system=$folder/$suite
  if [[ ! -f $system/.complete ]]; then
    rm -rf "$system"
    debootstrap --variant=minbase --include=python3-venv "$suite" "$system" "$mirror" >"$system.log" 2>&1 || { tail -n 20 "$system.log" >&2; exit 1; }
    touch "$system/.complete"
  fi
  fill "$system/root/try"
  # shellcheck disable=SC2016
  unshare --mount --pid --fork --kill-child bash -c '
    mount --make-rprivate / && mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" &&
    exec chroot "$0" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin bash -c "$1" bash /root/try "$2"' "$system" "$steps" "$question" </dev/null
  cmp "$here/wheel.txt" "$system/root/try/wheel.txt"
done
