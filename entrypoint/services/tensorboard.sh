#!/usr/bin/env bash
# TensorBoard on all runs of the workspace. It knows no login: its pages live below the token instead, and are 404 elsewhere.
set -euo pipefail
# shellcheck source=entrypoint/lib.sh
source "$(dirname "$0")/../lib.sh"

ensure_token
mkdir -p "$WORKSPACE/runs"
log_info "TensorBoard: http://127.0.0.1:${TENSORBOARD_PORT:-6006}/$(cat "$token_file")/"
# The launcher reads the token from the file: an argument could be read in the host's process list.
exec python "$(dirname "$0")/below_token.py" "$WORKSPACE/runs" "$token_file" "$@"
