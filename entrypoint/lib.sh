# Shared by the entrypoint's files. Sourced, not run.
# shellcheck shell=bash

log_info() { printf '%s\n' "$*" >&2; }
log_warn() { printf 'warning: %s\n' "$*" >&2; }
# 2 is "your input": a folder, a variable or an argument that can't be used.
die() { printf 'error: %s\n' "$*" >&2; exit 2; }

# True if the variable named $1 is set to 1/true/yes.
is_on() { [[ ${!1:-} =~ ^(1|[Tt]rue|TRUE|[Yy]es|YES)$ ]]; }

token_file=${TOKEN_FILE:-$WORKSPACE/.token}

# Make the secret that guards Jupyter and TensorBoard, once; readable for its owner only.
ensure_token() {
    if [ -s "$token_file" ]; then return; fi
    (umask 077 && od -An -N 24 -t x1 /dev/urandom | tr -d ' \n' >"$token_file") || die "cannot write $token_file"
}
