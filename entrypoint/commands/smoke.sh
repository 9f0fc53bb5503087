#!/usr/bin/env bash
# A mini-run that proves the whole path: data, model, loss, checkpoint, validation.
set -euo pipefail
exec diag smoke "$@"
