#!/usr/bin/env bash
# JupyterLab on the workspace; always with a token. TensorBoard is at /tensorboard/, behind the same token.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=entrypoint/lib.sh
source "$here/../lib.sh"

name_output jupyter
ensure_token
# Settings live in the workspace, so that they outlast the container; the token stays out of `ps`.
export JUPYTER_CONFIG_DIR=$WORKSPACE/.jupyter JUPYTER_CONFIG_PATH=$here/../lab JUPYTER_TOKEN_FILE=$token_file
export JUPYTER_RUNTIME_DIR=/tmp/jupyter SHELL=/bin/bash
# allow_unauthenticated_access=False below guards every page of every extension, and lists them all in the log.
export PYTHONWARNINGS="ignore:Extension endpoints without${PYTHONWARNINGS:+,$PYTHONWARNINGS}"
# The user's copy of the examples is the user's: what is there stays as it is.
mkdir -p "$WORKSPACE/examples"
cp --update=none /app/examples/*.ipynb "$WORKSPACE/examples/" 2>/dev/null || cp -n /app/examples/*.ipynb "$WORKSPACE/examples/"
first=examples/first_look.ipynb
if [ -f "$WORKSPACE/health/latest.md" ]; then first=health/latest.md; fi
log_info "Jupyter: http://${BIND_ADDR:-127.0.0.1}:${JUPYTER_PORT:-8888}/ (as compose publishes it); it wants the token in $token_file"
# --ip: the container's own interface; the host publishes it on 127.0.0.1 only. News, updates and the extension manager
# would call home.
exec jupyter lab --ip=0.0.0.0 --port=8888 --no-browser --ServerApp.root_dir="$WORKSPACE" --LabApp.news_url=None \
    --LabApp.default_url="/lab/tree/$first" --ServerApp.allow_unauthenticated_access=False \
    --LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate --LabApp.extension_manager=readonly --log-level=WARN "$@"
