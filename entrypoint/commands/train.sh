#!/usr/bin/env bash
# Check, data, smoke, train, analyze, report. Arguments: those of the container, after those in $TRAIN_ARGS.
set -euo pipefail
touch /tmp/started # healthcheck.sh: train.log files newer than this are this container's
# xargs splits like a shell does, quotes included, but runs nothing.
mapfile -t args < <(xargs -r printf '%s\n' <<<"${TRAIN_ARGS:-}")
exec diag pipeline "${args[@]}" "$@"
