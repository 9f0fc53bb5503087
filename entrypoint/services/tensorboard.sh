#!/usr/bin/env bash
# TensorBoard on all runs of the workspace. It knows no login: its pages live below the token instead, and are 404 elsewhere.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=entrypoint/lib.sh
source "$here/../lib.sh"

name_output tensorboard
ensure_token
mkdir -p "$WORKSPACE/runs"
host=0.0.0.0
# Beside Jupyter it is reached through Jupyter; port 6006 from outside is for those who ask for it by name.
if [ -n "${LAB:-}" ] && ! is_on EXPOSE_TENSORBOARD; then host=127.0.0.1; fi
if [ "$host" = 0.0.0.0 ]; then
    log_info "TensorBoard: http://${BIND_ADDR:-127.0.0.1}:${TENSORBOARD_PORT:-6006}/TOKEN/, with the token in $token_file"
fi
# The launcher reads the token from the file: an argument could be read in the host's process list.
exec python "$here/../lab/below_token.py" "$WORKSPACE/runs" "$token_file" --host "$host" --port 6006 "$@"
