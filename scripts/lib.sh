# Shared by the scripts: where things are, how to get uv, which stack fits this machine. Sourced, not run.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=${VENV:-$root/.venv}
stacks=$root/configs/stacks

say() { printf '%s\n' "$*" >&2; }
die() { say "error: $*"; exit 2; }

# Print the path of uv: the user's own, else one fetched with pip by its hash into .cache/uv.
find_uv() {
    if command -v uv; then return; fi
    local own=$root/.cache/uv
    if [ ! -x "$own/bin/uv" ]; then
        python3 -m pip --version >/dev/null 2>&1 ||
            die "neither uv nor pip found; install one of them (Debian: apt-get install python3-pip) and run this again"
        say "setup: fetching uv with pip ..."
        python3 -m pip install -q --disable-pip-version-check --no-warn-script-location --require-hashes \
            --target "$own" -r "$stacks/uv.lock" >&2 || die "pip could not fetch uv; is the package index reachable?"
    fi
    printf '%s\n' "$own/bin/uv"
}

# Print the stack that this machine's NVIDIA driver can run: cu13 needs driver 580, cu12 needs 525; without a GPU cu13.
# Sources: CUDA minor-version compatibility table, docs.nvidia.com/deploy/cuda-compatibility.
detect_stack() {
    local driver
    driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -n 1 || true)
    case ${driver%%.*} in
        '' | *[!0-9]*) echo cu13 ;;
        *) if [ "${driver%%.*}" -ge 580 ]; then echo cu13; else echo cu12; fi ;;
    esac
}

# Print the stack to use: argument, $STACK, the one that .venv holds, the one that fits the driver.
choose_stack() {
    local chosen=${1:-${STACK:-}}
    if [ -z "$chosen" ] && [ -f "$venv/diag-stack" ]; then read -r chosen _ <"$venv/diag-stack"; fi
    if [ -z "$chosen" ]; then chosen=$(detect_stack); fi
    [ -f "$stacks/$chosen.lock" ] ||
        die "unknown stack '$chosen'; there are: $(cd "$stacks" && echo cu*.lock | sed 's/\.lock//g')"
    printf '%s\n' "$chosen"
}
