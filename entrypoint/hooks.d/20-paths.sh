# Is the workspace there and ours? Better one clear line now than a traceback after minutes. Sourced by entrypoint.sh.
# shellcheck shell=bash

# OFFLINE=1 is ours; Ultralytics knows YOLO_OFFLINE.
if is_on OFFLINE; then export YOLO_OFFLINE=1; fi

workspace_problem() {
    local probe
    if [ ! -d "$WORKSPACE" ]; then
        echo "$WORKSPACE does not exist; mount a folder there: -v ./workspace:/workspace"
    elif ! probe=$(mktemp "$WORKSPACE/.writable.XXXXXX" 2>&1); then
        if awk -v path="$WORKSPACE" '$5 == path && $6 ~ /^ro(,|$)/ {found = 1} END {exit !found}' /proc/self/mountinfo; then
            echo "the workspace is mounted read-only; mount it without :ro"
        elif [ "$(stat -c %u "$WORKSPACE" 2>/dev/null)" = "$(id -u)" ] || [[ $probe == *"No space"* ]]; then
            echo "the workspace can't be written: ${probe##*: }" # a full disk, a limit of processes
        else
            echo "the workspace belongs to UID $(stat -c %u "$WORKSPACE") and this container runs as UID $(id -u);" \
                "fix it on the host: scripts/init, or sudo chown -R $(id -u):$(id -g) ${WORKSPACE_ON_HOST:-./workspace}"
        fi
    else
        rm -f "$probe"
    fi
}

problem=$(workspace_problem)
if [ -n "$problem" ]; then
    # A look at the machine needs no workspace; everything else writes into it.
    case $1 in
        check | shell) log_warn "$problem" ;;
        train | smoke | jupyter | tensorboard | ssh | lab) die "$problem" ;;
    esac
elif ! grep -q " $WORKSPACE " /proc/self/mountinfo; then
    log_warn "no folder is mounted at $WORKSPACE: what this container writes vanishes with it"
fi
unset problem
