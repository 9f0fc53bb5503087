#!/usr/bin/env bash
# Can this machine train? GPU, driver, CPUs, memory, shared memory, disk, numerics, speed.
set -euo pipefail
exec diag check "$@"
