#!/usr/bin/env bash
# Proof that the wheel and the archive of build-package/ need nothing else: installs them as a user would, here and in bare systems of
# Debian and Ubuntu, lets each answer, and lets clients from the package index ask the wheel's server, with times.
#   tools/try_packages.sh [SUITE...]    SUITE: such as bullseye, or ubuntu/noble; as root, with debootstrap and the archive's keyring
# What debootstrap fetched is kept in $TRY_FOLDER (/tmp/try-packages)/SUITE.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=${TRY_FOLDER:-/tmp/try-packages}
question="What is the capital of France?"

# shellcheck disable=SC2016
steps='
set -euo pipefail
cd "$1"
step() { local begin; begin=$(date +%s%N); "${@:2}"; printf "    %s: %d ms\n" "$1" $((($(date +%s%N) - begin) / 1000000)); }
sed -n "s/^PRETTY_NAME=\"\(.*\)\"/=== \1/p" /etc/os-release
ldd --version | sed -n "1s/^/    /p"
python3 --version | sed "s/^/    /"
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
install_clients() { venv/bin/pip install -q --disable-pip-version-check openai anthropic ollama; }
ask_clients() { venv/bin/python try_clients.py venv/bin/anabranch model "$1" >"$2" 2>"$2.log" || { cat "$2.log" >&2; exit 1; }; }
step "an environment" make_venv
step "pip install" install_wheel
venv/bin/anabranch --version | sed "s/^/    /"
kernels=$(venv/bin/anabranch doctor | sed -n "s/^instructions.*the kernels for \([^ ]*\) are used/\1/p")
echo "    kernels: $kernels"
if grep -q "^flags.* avx2 " /proc/cpuinfo && [[ $kernels != avx* ]]; then echo "the instructions of this processor were not found" >&2; exit 1; fi
step "an answer of the command" answer venv/bin/anabranch "$2" wheel.txt
step "an answer through import anabranch" with_python "$2" python.txt
step "pip install of three clients" install_clients
step "their answers from a server" ask_clients "$2" clients.txt
step "install.sh" install_archive
step "an answer of the archive" answer prefix/bin/anabranch "$2" archive.txt
test -s wheel.txt
cmp wheel.txt archive.txt
cmp wheel.txt python.txt
cmp wheel.txt clients.txt
sed "s/^/    | /" wheel.txt
'

# fill FOLDER: what a user would fetch.
fill() {
  rm -rf "$1"
  mkdir -p "$1"
  cp "$root"/build-package/*x86_64.whl "$root"/build-package/*x86_64.tar.gz "$root/tools/try_clients.py" "$1"
  cp -r "$root/models/hybrid-146m" "$1/model"
}

# install_system SUITE FOLDER: a bare one with Python, and with the network of this machine. Ubuntu's releases have one script, gutsy.
install_system() {
  local suite=${1#ubuntu/} options=(--variant=minbase --include=python3-venv) archive=()
  if [[ $1 == ubuntu/* ]]; then
    options+=("--components=main,universe")
    archive=(http://archive.ubuntu.com/ubuntu gutsy)
  elif [[ ${DEBIAN_MIRROR-} ]]; then
    archive=("$DEBIAN_MIRROR")
  fi
  rm -rf "$2"
  mkdir -p "$2"
  debootstrap "${options[@]}" "$suite" "$2" "${archive[@]}" >"$2.log" 2>&1 || { tail -n 20 "$2.log" >&2; exit 1; }
  cp /etc/resolv.conf "$2/etc/resolv.conf"
  mkdir -p "$2/etc/ssl/certs"
  touch "$2/.complete"
}

here=$folder/here
fill "$here"
(cd "$here" && env -i HOME="$here" PATH=/usr/local/bin:/usr/bin:/bin ${PIP_CERT:+PIP_CERT="$PIP_CERT"} bash -c "$steps" bash "$here" "$question")
for suite; do
  system=$folder/$suite
  [[ -f $system/.complete ]] || install_system "$suite" "$system"
  # A network with its own certificate authority: pip must know it as this machine's does.
  cp /etc/ssl/certs/ca-certificates.crt "$system/etc/ssl/certs/ca-certificates.crt"
  fill "$system/root/try"
  # shellcheck disable=SC2016
  unshare --mount --pid --fork --kill-child bash -c '
    mount --make-rprivate / && mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" &&
    exec chroot "$0" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin PIP_CERT=/etc/ssl/certs/ca-certificates.crt bash -c "$1" bash /root/try "$2"' "$system" "$steps" "$question" </dev/null
  cmp "$here/wheel.txt" "$system/root/try/wheel.txt"
done
