#!/usr/bin/env bash
# Run as root by compose's `workspace`: give a workspace that Docker just made as root (so it is empty) to UID:GID.
set -euo pipefail
folder=${WORKSPACE:-/workspace}
if [ "$(stat -c %u "$folder")" = 0 ] && [ -z "$(ls -A "$folder")" ]; then chown "$1" "$folder" || true; fi
