# Shared by the scripts in this folder: where things are, what is pinned, and how progress is shown.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

mlx_version=0.32.4
mlx="mlx[cpu]==$mlx_version"
[[ $(uname -s) == Darwin ]] && mlx="mlx==$mlx_version"
xgrammar_version=0.2.8
xgrammar_sha256=8305646fd2b319d6c3003f51a1665e54cbbe9cba1fb636bc41d0b46434ccbb80
# What a build needs, and what the tests need on top.
debian_build_packages=(
  g++ cmake ninja-build ccache mold pkg-config git ca-certificates python3-venv
  libboost1.81-dev libspdlog-dev libfmt-dev nlohmann-json3-dev libsimdjson-dev
  libpcre2-dev libutf8proc-dev libxxhash-dev libcli11-dev libedit-dev libsqlitecpp-dev libsqlite3-dev
  libssl-dev libcurl4-openssl-dev prometheus-cpp-dev libtomlplusplus-dev cppzmq-dev
  libjpeg62-turbo-dev libpng-dev libwebp-dev
)
debian_test_packages=(curl libgtest-dev clang-format-14 nginx-light chromium chromium-driver)
debian_nightly_packages=(clang-14 libclang-rt-14-dev clang-tidy-14 llvm-14)  # script/nightly's, beside these
homebrew_build_packages=(
  cmake ninja ccache pkg-config python@3.12 boost spdlog fmt nlohmann-json simdjson pcre2 utf8proc xxhash cli11 sqlitecpp openssl@3 prometheus-cpp tomlplusplus cppzmq
  jpeg-turbo libpng webp
)
homebrew_test_packages=(googletest clang-format)
python_test_packages=(pytest==9.2.0 numpy==2.4.6 tokenizers==0.23.3 jinja2==3.1.6 openai==3.54.0 anthropic==2.12.0 ollama==0.6.3 schemathesis==4.32.5
  jsonschema==4.26.0 rfc3339-validator==0.1.4 pyzmq==27.3.0 msgspec==0.22.0 nvidia-cuda-nvrtc==13.5.37 huggingface_hub==2.4.0
  mcp==2.3.0 mcp-server-time==2026.10.19 mcp-server-fetch==2026.10.24 filesystem-mcp==1.0.2
  selenium==4.51.0 axe-selenium-python-nhsuk==1.0.4 pyte==0.8.2)

# What .deps/stamp holds when everything that this checkout needs is installed.
build_stamp() { echo "${debian_build_packages[*]}"; }
test_stamp() { echo "${debian_test_packages[*]} ${python_test_packages[*]}"; }
have_stamp() { [[ -f $1 && $(<"$1") == "$2" ]]; }

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
