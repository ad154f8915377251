# Shared by the scripts in this folder: where things are, what is pinned, and how progress is shown.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

mlx_version=0.32.4
mlx="mlx[cpu]==$mlx_version"
[[ $(uname -s) == Darwin ]] && mlx="mlx==$mlx_version"
xgrammar_version=0.2.8
xgrammar_sha256=8305646fd2b319d6c3003f51a1665e54cbbe9cba1fb636bc41d0b46434ccbb80
# Where script/bootstrap installs packages by itself. Elsewhere it prints the command: the names were not tried.
tried_systems=(debian:12)
docs_packages=(mkdocs-material==9.8.2 mkdocs==1.6.1 Markdown==3.11.3 pymdown-extensions==12.3 markdown-it-py==4.3.0)
python_test_packages=(pytest==9.2.0 numpy==2.4.6 tokenizers==0.23.3 jinja2==3.1.6 openai==3.54.0 anthropic==2.12.0 ollama==0.6.3 schemathesis==4.32.5
  jsonschema==4.26.0 rfc3339-validator==0.1.4 pyzmq==27.3.0 msgspec==0.22.0 nvidia-cuda-nvrtc==13.5.37 huggingface_hub==2.4.0
  mcp==2.3.0 mcp-server-time==2026.10.19 mcp-server-fetch==2026.10.24 filesystem-mcp==1.0.2
  selenium==4.51.0 axe-selenium-python-nhsuk==1.0.4 pyte==0.8.2 markdown-it-py==4.3.0)

# packages_of SYSTEM GROUP...: a line of names from script/packages.txt.
packages_of() {
  local system=$1
  shift
  awk -v wanted="$system" -v groups=" $* " '
    $1 == "group" { for (i = 2; i <= NF; i++) if ($i == wanted) column = i }
    column && index(groups, " " $1 " ") && $column != "-" { line = line separator $column; separator = " " }
    END { print line }' "$root/script/packages.txt"
}

# What .deps/stamp holds when everything that this checkout needs is installed.
build_stamp() { packages_of debian:12 build; }
test_stamp() { echo "$(packages_of debian:12 test) ${python_test_packages[*]}"; }
have_stamp() { [[ -f $1 && $(<"$1") == "$2" ]]; }

# The run-time compiler of CUDA that the tests have, for what is run after this.
use_nvrtc() {
  local found=("$root"/.deps/test-venv/lib/python3*/site-packages/nvidia/cu13/lib/libnvrtc.so.13)
  if [[ -f ${found[0]} ]]; then export ANABRANCH_NVRTC=${found[0]}; fi
}

# The Metal backend is made of MLX. Elsewhere only the reference ops are, which the tests need.
program_uses_mlx() { [[ $(uname -s) == Darwin ]]; }

bootstrapped() {
  have_stamp "$root/.deps/xgrammar-source/stamp" "$xgrammar_sha256" || return 1
  have_stamp "$root/.deps/stamp" "$(build_stamp)" || return 1
  ! program_uses_mlx || have_stamp "$root/.deps/mlx-stamp" "$mlx"
}
bootstrapped_for_tests() {
  bootstrapped && have_stamp "$root/.deps/mlx-stamp" "$mlx" && have_stamp "$root/.deps/test-stamp" "$(test_stamp)"
}

# progress "[1/4] packages": one line per long step, with the seconds since the script began.
started=$SECONDS
progress() { printf '%s (%d s)\n' "$1" $((SECONDS - started)) >&2; }
fail() { printf '%s\n' "$*" >&2; exit 1; }

# Compile jobs: one per core, but no more than one per GiB of memory (some libraries' headers are heavy).
job_count() {
  local cores memory_gib
  cores=$(getconf _NPROCESSORS_ONLN)
  if [[ -r /proc/meminfo ]]; then
    memory_gib=$(($(sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo) / 1048576))
  else
    memory_gib=$(($(sysctl -n hw.memsize) / 1073741824))
  fi
  ((memory_gib < 1)) && memory_gib=1
  echo $((cores < memory_gib ? cores : memory_gib))
}

# in_parallel COUNT COMMAND ARGUMENT...: runs COMMAND once for each ARGUMENT, COUNT at a time.
in_parallel() {
  local count=$1 command=$2 argument
  shift 2
  for argument; do
    while (($(jobs -rp | wc -l) >= count)); do sleep 0.1; done
    "$command" "$argument" &
  done
  wait
}

# Runs a command with its output in a log; shows the end of the log when it fails.
run_logged() {
  local log=$1
  shift
  "$@" >"$log" 2>&1 && return 0
  tail -n 25 "$log" >&2
  fail "failed: $* (whole log: $log)"
}

# The python to make environments with: 3.10 or newer, with ensurepip. Debian's own if it is there.
find_python() {
  local candidate
  for candidate in /usr/bin/python3 python3 python3.13 python3.12 python3.11; do
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  fail "No Python 3.10 or newer with venv was found (Debian: apt-get install python3-venv)."
}

# make_venv DIR REQUIREMENT...: an environment with exactly these; made anew when it cannot be used.
make_venv() {
  local dir=$1
  shift
  if ! "$dir/bin/python" -c '' 2>/dev/null; then
    rm -rf "$dir"
    "$(find_python)" -m venv "$dir"
  fi
  run_logged "$dir.log" "$dir/bin/python" -m pip install --no-input --disable-pip-version-check "$@"
}
