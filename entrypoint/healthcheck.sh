#!/usr/bin/env bash
# Does the service answer, does the training get on? Any other command is healthy as long as it runs.
set -euo pipefail
# shellcheck source=entrypoint/lib.sh
source "$(dirname "$0")/lib.sh"

# Ask for a page without curl: bash opens the connection itself.
answers() {
    exec 3<>"/dev/tcp/127.0.0.1/$1"
    printf 'GET %s HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n' "$2" >&3
    grep -q -m 1 '^HTTP/[0-9.]* 200' <&3
}

# Every batch writes a line into its run's train.log. Before the first one, and for short commands, there is no news.
gets_on() {
    local log stalled
    # The watchdog beside the training (diag/counters) knows phases and step lengths; the file is there while it hangs.
    stalled=$(find "$WORKSPACE/runs" -mindepth 3 -maxdepth 3 -path '*/trace/stalled' -newer /tmp/started -print -quit 2>/dev/null || true)
    if [ -n "$stalled" ]; then
        echo "hangs: $(cat "$stalled")"
        return 1
    fi
    log=$(find "$WORKSPACE/runs" -maxdepth 2 -name train.log -newer /tmp/started -print -quit 2>/dev/null || true)
    if [ -z "$log" ] || [ -n "$(find "$log" -mmin "-${STALL_MINUTES:-15}")" ]; then return; fi
    echo "no batch for ${STALL_MINUTES:-15} minutes: $log"
    return 1
}

# PID 1 is tini; its arguments name what runs here.
case $(tr '\0' ' ' </proc/1/cmdline) in
    *entrypoint.sh\ train*) gets_on ;;
    *entrypoint.sh\ jupyter*) answers 8888 /api ;;
    *entrypoint.sh\ tensorboard*) answers 6006 "/$(cat "$token_file")/" ;;
esac
