# Shared by the entrypoint's files. Sourced, not run.
# shellcheck shell=bash

log_info() { printf '%s\n' "$*" >&2; }
log_warn() { printf 'warning: %s\n' "$*" >&2; }
# 2 is "your input": a folder, a variable or an argument that can't be used.
die() { printf 'error: %s\n' "$*" >&2; exit 2; }

# True if the variable named $1 is set to 1/true/yes.
is_on() { [[ ${!1:-} =~ ^(1|[Tt]rue|TRUE|[Yy]es|YES)$ ]]; }

# The services of `lab` share one log: each line begins with the service's name.
name_output() {
    if [ -n "${LAB:-}" ]; then exec > >(exec sed -u "s/^/$1 | /") 2>&1; fi
}

# --- The token of Jupyter and TensorBoard ---------------------------------------------------------------------------

given_token=/tmp/given-token
token_file=${TOKEN_FILE:-$WORKSPACE/.token}
if [ -s "$given_token" ]; then token_file=$given_token; fi

# Make the secret that guards Jupyter and TensorBoard, once, readable for its owner only; refuse a weak one. JUPYTER_TOKEN,
# all that some cloud platforms can hand in, moves into a file: services, kernels and terminals do not see the variable.
ensure_token() {
    if [ -n "${JUPYTER_TOKEN:-}" ]; then
        token_file=$given_token
        (umask 077 && printf '%s' "$JUPYTER_TOKEN" >"$token_file")
        unset JUPYTER_TOKEN
    elif [ ! -s "$token_file" ]; then
        (umask 077 && od -An -N 24 -t x1 /dev/urandom | tr -d ' \n' >"$token_file") || die "cannot write $token_file"
    fi
    # From inside nobody can tell how a port is published, so a weak token never starts a service. 32 hex digits: 128 bits.
    grep -qzE '^[A-Za-z0-9_-]{32,}[[:space:]]*$' "$token_file" ||
        die "the token in $token_file is weak: it needs 32 or more letters or digits; delete the file, and a new one is made"
    export TOKEN_FILE=$token_file
}

# --- SSH ------------------------------------------------------------------------------------------------------------

ssh_folder=$WORKSPACE/.ssh

# Print the public keys that may log in: SSH_AUTHORIZED_KEYS (PUBLIC_KEY on RunPod) and .ssh/authorized_keys.
ssh_keys() {
    printf '%s\n' "${SSH_AUTHORIZED_KEYS:-${PUBLIC_KEY:-}}"
    cat "$ssh_folder/authorized_keys" 2>/dev/null || true
}

# True if at least one line of it could be a key.
has_ssh_keys() { ssh_keys | grep -qE '^[[:space:]]*[^#[:space:]]'; }
