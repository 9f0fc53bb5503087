#!/usr/bin/env bash
# Do the services answer, does the training get on? Any other command is healthy as long as it runs.
set -euo pipefail
# shellcheck source=entrypoint/lib.sh
source "$(dirname "$0")/lib.sh"

# Ask for a page without curl: bash opens the connection itself. $1 names the service, $2 the port, $3 the page.
answers() {
    if ! { exec 3<>"/dev/tcp/127.0.0.1/$2"; } 2>/dev/null; then
        echo "$1 does not answer on port $2"
        return 1
    fi
    printf 'GET %s HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n' "$3" >&3
    grep -q -m 1 '^HTTP/[0-9.]* 200' <&3 || { echo "$1 answers on port $2, but not with its page"; return 1; }
}

jupyter() { answers Jupyter 8888 /api; }
tensorboard() { answers TensorBoard 6006 "/$(cat "$token_file")/"; }

# sshd names itself at once.
ssh_server() {
    local banner=''
    if { exec 3<>/dev/tcp/127.0.0.1/2222; } 2>/dev/null && read -r -t 3 banner <&3 && [[ $banner == SSH-2.0-* ]]; then return; fi
    echo "sshd does not answer on port 2222"
    return 1
}

# The training of this container: does it get on, and are its counters alive? Before the first batch, and for short
# commands, there is no news.
gets_on() {
    local log run stalled where
    # The watchdog beside the training (diag/counters) knows phases and step lengths; the file is there while it hangs.
    stalled=$(find "$WORKSPACE/runs" -mindepth 3 -maxdepth 3 -path '*/trace/stalled' -newer /tmp/started -print -quit 2>/dev/null || true)
    if [ -n "$stalled" ]; then
        echo "hangs: $(cat "$stalled")"
        return 1
    fi
    # Every batch writes a line into its run's train.log.
    log=$(find "$WORKSPACE/runs" -maxdepth 2 -name train.log -newer /tmp/started -print -quit 2>/dev/null || true)
    if [ -z "$log" ]; then return; fi
    run=$(dirname "$log")
    where=$(tail -n 1 "$log" | grep -oE 'epoch [0-9]+/[0-9]+ batch [0-9]+/[0-9]+' || true)
    if [ -z "$(find "$log" -mmin "-${STALL_MINUTES:-15}")" ]; then
        echo "no batch for ${STALL_MINUTES:-15} minutes: $log"
        return 1
    fi
    # The counters write each second, and a last `end` when the training is over. Without them nobody sees a hang.
    local counters=$run/trace/counters.jsonl
    if [ -f "$counters" ] && [ -z "$(find "$counters" -newermt "-${COUNTERS_SECONDS:-60} seconds")" ] &&
        ! tail -n 1 "$counters" | grep -q '"m": *"end"' && trains "$run"; then
        echo "the counters process is gone: no line in $counters for ${COUNTERS_SECONDS:-60} s; training goes on, unwatched"
        return 1
    fi
    echo "${where:-trains}, $(($(date +%s) - $(stat -c %Y "$log"))) s ago"
}

# True while run $1 trains: its process, which the counters name, is alive.
trains() {
    local pid
    pid=$(grep -m 1 -oE '"trainer": *[0-9]+' "$1/trace/counters.jsonl" | grep -oE '[0-9]+' || true)
    [ -n "$pid" ] && [ -d "/proc/$pid" ]
}

# PID 1 is tini; its arguments name what runs here.
case $(tr '\0' ' ' </proc/1/cmdline) in
    *entrypoint.sh\ train*) gets_on ;;
    *entrypoint.sh\ jupyter*) jupyter ;;
    *entrypoint.sh\ tensorboard*) tensorboard ;;
    *entrypoint.sh\ ssh*) ssh_server ;;
    *entrypoint.sh\ lab*)
        bad=0
        jupyter || bad=1
        tensorboard || bad=1
        if has_ssh_keys; then ssh_server || bad=1; fi
        gets_on || bad=1
        exit "$bad"
        ;;
esac
