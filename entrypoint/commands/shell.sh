#!/usr/bin/env bash
# A shell, or one command line in it: `shell -c "yolo version"`.
set -euo pipefail
if [ $# -eq 0 ] && [ -t 0 ]; then
    printf '%s\n' "diag --help    check, train, analyze" "yolo           Ultralytics' own command" "/workspace     your folder; /data: DATA_DIR, read-only" >&2
fi
exec bash "$@"
