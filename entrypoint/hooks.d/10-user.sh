# Give the running UID a home and a name: git, ssh and getpass fail on one without. Sourced by entrypoint.sh.
# shellcheck shell=bash

# A read-only container whose home is no tmpfs: what programs keep there goes with the container.
if [ ! -w "$HOME" ] && mkdir -p /tmp/home 2>/dev/null; then export HOME=/tmp/home; fi
if ! getent passwd "$(id -u)" >/dev/null; then
    { mkdir -p /tmp/extrausers &&
        printf 'yolo%s:x:%s:%s::%s:/bin/bash\n' "$(id -u)" "$(id -u)" "$(id -g)" "$HOME" >>/tmp/extrausers/passwd; } 2>/dev/null ||
        log_warn "UID $(id -u) stays without a name: /tmp can't be written (a read-only container wants --tmpfs /tmp)"
fi
USER=$(id -un 2>/dev/null || id -u)
export USER LOGNAME=$USER
