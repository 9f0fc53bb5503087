#!/usr/bin/env bash
# Does the service answer? A command (train, check, ...) is healthy as long as it runs.
set -euo pipefail
# shellcheck source=entrypoint/lib.sh
source "$(dirname "$0")/lib.sh"

# Ask for a page without curl: bash opens the connection itself.
answers() {
    exec 3<>"/dev/tcp/127.0.0.1/$1"
    printf 'GET %s HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n' "$2" >&3
    grep -q -m 1 '^HTTP/[0-9.]* 200' <&3
}

# PID 1 is tini; its arguments name what runs here.
case $(tr '\0' ' ' </proc/1/cmdline) in
    *entrypoint.sh\ jupyter*) answers 8888 /api ;;
    *entrypoint.sh\ tensorboard*) answers 6006 "/$(cat "$token_file")/" ;;
esac
