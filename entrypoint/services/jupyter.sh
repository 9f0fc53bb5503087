#!/usr/bin/env bash
# JupyterLab on the workspace; always with a token.
set -euo pipefail
# shellcheck source=entrypoint/lib.sh
source "$(dirname "$0")/../lib.sh"

ensure_token
# Settings live in the workspace, so that they outlast the container; the token stays out of `ps`.
export JUPYTER_CONFIG_DIR=$WORKSPACE/.jupyter JUPYTER_TOKEN_FILE=$token_file JUPYTER_RUNTIME_DIR=/tmp/jupyter
log_info "Jupyter: http://127.0.0.1:${JUPYTER_PORT:-8888}/lab?token=$(cat "$token_file")"
# --ip: the container's own interface; the host publishes it on 127.0.0.1 only. News, updates and the extension manager
# would call home.
exec jupyter lab --ip=0.0.0.0 --port=8888 --no-browser --ServerApp.root_dir="$WORKSPACE" --LabApp.news_url=None \
    --LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate --LabApp.extension_manager=readonly --log-level=WARN "$@"
