#!/usr/bin/env bash
# Run the hooks, then become one command or service.
#   entrypoint.sh NAME [ARGUMENTS]    NAME is a file in commands/ or services/; anything else runs as it is
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=entrypoint/lib.sh
source "$here/lib.sh"

[ $# -gt 0 ] || set -- shell
for hook in "$here"/hooks.d/*.sh; do
    # shellcheck source=/dev/null
    source "$hook"
done

for kind in commands services; do
    script=$here/$kind/$1.sh
    if [ -x "$script" ]; then exec "$script" "${@:2}"; fi
done
exec "$@"
