#!/usr/bin/env bash
# Everything in one container, for platforms that run just one: Jupyter, TensorBoard behind it, SSH if there is a key.
#   lab                until it is stopped
#   lab train [ARGS]   beside a training; ends with it, and with its exit code. KEEP_LAB=1: stays after it
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=entrypoint/lib.sh
source "$here/../lib.sh"

case ${1:-} in '' | train) ;; *) die "lab: unknown argument '$1'; there is: lab, lab train key=value ..." ;; esac
ensure_token
export LAB=1 LAB_SSH=false
if has_ssh_keys; then LAB_SSH=true; else log_info "lab: no SSH, since no public key is there (SSH_AUTHORIZED_KEYS)"; fi
supervise=(supervisord -n -c /app/entrypoint/lab/supervisord.conf)
if [ $# -eq 0 ]; then exec "${supervise[@]}"; fi

"${supervise[@]}" &
services=$!
env -u LAB -u LAB_SSH "$here/../commands/train.sh" "${@:2}" &
training=$!
# A stop ends the training at a batch boundary first; the services go after it. A signal ends `wait` early, with a code of
# its own; the process's comes from the next one.
current=$training
trap 'again=1; kill -TERM "$current" 2>/dev/null' TERM
trap 'again=1; kill -INT "$current" 2>/dev/null' INT
finish() {
    local code=0
    again=1
    while [ -n "$again" ]; do
        again='' code=0
        wait "$current" || code=$?
    done
    return "$code"
}
code=0
finish || code=$?
log_info "lab: the training ended with exit code $code"
current=$services
if is_on KEEP_LAB && [ "$code" != 143 ] && [ "$code" != 130 ]; then
    log_info "lab: Jupyter stays until this container is stopped (KEEP_LAB)"
else
    kill -TERM "$services" 2>/dev/null || true
fi
finish || true
exit "$code"
