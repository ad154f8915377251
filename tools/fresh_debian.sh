#!/usr/bin/env bash
# Proof that a bare Debian is enough: makes a minimal root file system, clones this repository into it (the
# committed state), and runs the two commands a newcomer types, with their times. As root; needs debootstrap.
#   tools/fresh_debian.sh [FOLDER (/tmp/fresh-debian)] [COMMAND...]
# Without COMMANDs: 'script/run "What is the capital of France?"', then script/test. What debootstrap fetched is
# kept in FOLDER.base, so that a second run starts from the same bare system without fetching it again.
# DEBIAN_SUITE is the release (bookworm); another one needs another FOLDER.
set -euo pipefail

folder=${1:-/tmp/fresh-debian}
shift || true
commands=("$@")
((${#commands[@]})) || commands=('script/run "What is the capital of France?"' 'script/test')
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
((EUID == 0)) || { echo "run this as root" >&2; exit 1; }

if [[ ! -f $folder.base/.complete ]]; then
  rm -rf "$folder.base"
  debootstrap --variant=minbase --include=ca-certificates,git "${DEBIAN_SUITE:-bookworm}" "$folder.base" "$mirror" >"$folder.log" 2>&1 ||
    { tail -n 20 "$folder.log" >&2; exit 1; }
  touch "$folder.base/.complete"
fi
mountpoint -q "$folder/proc" && { echo "$folder is in use" >&2; exit 1; }
rm -rf "$folder"
cp -a "$folder.base" "$folder"
cp /etc/resolv.conf "$folder/etc/resolv.conf"
# A network with its own certificate authority: the bare system must know it as this one does.
cp /etc/ssl/certs/ca-certificates.crt "$folder/etc/ssl/certs/ca-certificates.crt"

git clone --quiet --no-hardlinks "$repository" "$folder/root/anabranch"

# run_inside COMMAND: in the chroot with its own mounts and processes, which end with it.
run_inside() {
  # shellcheck disable=SC2016
  unshare --mount --pid --fork --kill-child bash -c '
    mount --make-rprivate / && mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" &&
    exec chroot "$0" /usr/bin/env -i HOME=/root TERM=dumb LANG=C.UTF-8 \
      PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
      ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
      ${PIP_INDEX_URL:+PIP_INDEX_URL="$PIP_INDEX_URL"} ${PIP_CERT:+PIP_CERT="$PIP_CERT"} \
      bash -c "cd /root/anabranch && $1" </dev/null' "$folder" "$1"
}

status=0
for command in "${commands[@]}"; do
  echo "=== $command"
  begin=$SECONDS
  run_inside "$command" || { status=$?; echo "=== exit status $status"; }
  echo "=== $((SECONDS - begin)) s: $command"
done
exit "$status"
