# Shared by the scripts: where things are, how to get uv, which stack fits this machine. Sourced, not run.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=${VENV:-$root/.venv}
stacks=$root/configs/stacks

say() { printf '%s\n' "$*" >&2; }
die() { say "error: $*"; exit 2; }

# Build .venv-test from its lock unless it is up to date. The test tools see the stack but live beside it, so that .venv
# stays exactly its lock.
testenv=$root/.venv-test
build_test_env() {
    local stamp uv site
    stamp=$(cat "$stacks/test.lock" "$venv/diag-stack" | sha256sum | cut -d' ' -f1)
    if [ "$(cat "$testenv/stamp" 2>/dev/null)" = "$stamp" ]; then return; fi
    uv=$(find_uv)
    say "test: building .venv-test from configs/stacks/test.lock ..."
    rm -rf "$testenv"
    "$uv" venv -q --python 3.11 "$testenv"
    "$uv" pip sync -q --python "$testenv" --require-hashes "$stacks/test.lock"
    site=$("$testenv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    printf '%s\n' "$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" "$root" \
        >"$site/stack.pth"
    printf '%s\n' "$stamp" >"$testenv/stamp"
}

# Print the path of uv: the user's own, else one fetched with pip by its hash into .cache/uv.
find_uv() {
    if command -v uv; then return; fi
    local own=$root/.cache/uv
    if [ ! -x "$own/bin/uv" ]; then
        python3 -m pip --version >/dev/null 2>&1 ||
            die "neither uv nor pip found; install one of them (Debian: apt-get install python3-pip) and run this again"
        say "setup: fetching uv with pip ..."
        python3 -m pip install -qq --disable-pip-version-check --no-warn-script-location --require-hashes \
            --target "$own" -r "$stacks/uv.lock" >&2 || die "pip could not fetch uv; is the package index reachable?"
    fi
    printf '%s\n' "$own/bin/uv"
}

# Print the stack that this machine's NVIDIA driver can run: cu13 needs driver 580, cu12 needs 525; without a GPU cu13.
# Sources: CUDA minor-version compatibility table, docs.nvidia.com/deploy/cuda-compatibility.
detect_stack() {
    local driver
    driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -n 1 || true)
    case ${driver%%.*} in
        '' | *[!0-9]*) echo cu13 ;;
        *) if [ "${driver%%.*}" -ge 580 ]; then echo cu13; else echo cu12; fi ;;
    esac
}

# Print the stack to use: argument, $STACK, the one that .venv holds, the one that fits the driver.
choose_stack() {
    local chosen=${1:-${STACK:-}}
    if [ -z "$chosen" ] && [ -f "$venv/diag-stack" ]; then read -r chosen _ <"$venv/diag-stack"; fi
    if [ -z "$chosen" ]; then chosen=$(detect_stack); fi
    [ -f "$stacks/$chosen.lock" ] ||
        die "unknown stack '$chosen'; there are: $(cd "$stacks" && echo cu*.lock | sed 's/\.lock//g')"
    printf '%s\n' "$chosen"
}

# --- Docker -------------------------------------------------------------------------------------------------------

# End with one clear line unless a Docker engine with Compose answers.
need_docker() {
    local answer
    command -v docker >/dev/null ||
        die "Docker is not installed (https://docs.docker.com/engine/install); without it: scripts/train"
    docker compose version >/dev/null 2>&1 ||
        die "Docker has no Compose plugin; install docker-compose-plugin (Debian 13: docker-compose); without it: scripts/train"
    if answer=$(docker version --format '{{.Server.Version}}' 2>&1); then return; fi
    case $answer in
        *"permission denied"*) die "you may not talk to Docker: sudo usermod -aG docker $(id -un), then log in again" ;;
        *) die "the Docker engine does not run: sudo systemctl start docker (Docker Desktop: start it)" ;;
    esac
}

# Print the value of $1 in .env, else $2.
env_value() {
    local line
    line=$(grep -m 1 "^$1=" "$root/.env" 2>/dev/null || true)
    if [ -n "$line" ]; then printf '%s\n' "${line#*=}"; else printf '%s\n' "${2:-}"; fi
}

# Write $1=$2 into .env unless it is there; show what stands there and, in $3, why.
env_default() {
    local have
    if grep -q "^$1=" "$root/.env"; then
        have=$(env_value "$1")
        if [ "$have" = "$2" ]; then say "  $1=$have"; else say "  $1=$have   (kept; this machine would get $2)"; fi
    else
        printf '%s=%s\n' "$1" "$2" >>"$root/.env"
        say "  $1=$2${3:+   $3}"
    fi
}

# Print `cuda` or `cpu`, and why, separated by a tab.
detect_accel() {
    local gpu
    gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1 || true)
    if [ -z "$gpu" ]; then
        printf 'cpu\tno NVIDIA driver answers on this machine (nvidia-smi)\n'
    elif command -v nvidia-container-runtime-hook >/dev/null ||
        docker info --format '{{json .}}' 2>/dev/null | grep -qE '"nvidia"|nvidia\.com/gpu'; then
        printf 'cuda\t%s\n' "$gpu"
    else
        printf 'cpu\tthere is a %s, but Docker cannot use it: %s\n' "$gpu" "$toolkit_hint"
    fi
}
toolkit_hint="install nvidia-container-toolkit, then: sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker"

# Print a size for /dev/shm: half of the memory, 1 to 16 GB. It is a limit, not a reservation.
detect_shm_size() {
    awk '/^MemTotal:/ {gb = int($2 / 2097152)} END {print (gb < 1 ? (NR ? 1 : 2) : gb > 16 ? 16 : gb) "g"}' /proc/meminfo 2>/dev/null || echo 2g
}

# Print who shall own what containers write: the caller, or behind sudo the one who called it. Root itself: 1000.
owner_ids() {
    if [ "$(id -u)" != 0 ]; then echo "$(id -u) $(id -g)"; else echo "${SUDO_UID:-1000} ${SUDO_GID:-1000}"; fi
}

# Make the image of $1's service if its lock or the code changed. Quiet and about a second when nothing did.
build_image() {
    local stack=${STACK:-$(env_value STACK cu13)} have
    LOCK_SHA256=$(sha256sum "$stacks/$stack.lock" | cut -d' ' -f1) || die "unknown STACK '$stack'; see configs/stacks"
    GIT_REVISION=$(git -C "$root" rev-parse HEAD 2>/dev/null || echo unknown)
    export LOCK_SHA256 GIT_REVISION
    have=$(docker image inspect -f '{{index .Config.Labels "diag.lock.sha256"}}' "yolo-diag:$stack" 2>/dev/null || true)
    if [ "$have" = "$LOCK_SHA256" ]; then
        docker compose build -q "$1"
    else
        say "up: building the image yolo-diag:$stack (5 GB; one to three minutes on a fast line) ..."
        docker compose build "$1"
    fi || die "the image could not be built; the lines above say why"
}

# Say what Docker's own words in file $1 mean, and what to do. Nothing if none is known.
explain_docker() {
    local port said
    said=$(grep 'Error response from daemon' "$1" || true)
    if grep -q 'could not select device driver' <<<"$said"; then
        die "Docker cannot hand out GPUs: $toolkit_hint; or train on the CPU: ACCEL=cpu scripts/up ${*:2}"
    elif grep -q 'nvidia-container-cli' <<<"$said"; then
        die "the NVIDIA driver of this host does not work ($(sed -n 's/.*nvidia-container-cli: //p' <<<"$said" | head -n 1)):" \
            "look at nvidia-smi, or train on the CPU: ACCEL=cpu scripts/up ${*:2}"
    elif grep -qE 'address already in use|port is already allocated' <<<"$said"; then
        port=$(sed -nE 's/.*[0-9.]+:([0-9]+).*(failed|in use|allocated).*/\1/p' <<<"$said" | head -n 1)
        die "port ${port:-of $2} is in use on this machine; take another:" \
            "$(port_name "$2" "$port")=$((${port:-8000} + 1)) scripts/up ${*:2}"
    fi
}

# Print the variable that names port $2 of service $1.
port_name() {
    case $1 in
        lab) if [ "$2" = "$(setting SSH_PORT 2222)" ]; then echo SSH_PORT; else echo JUPYTER_PORT; fi ;;
        *) echo "${1^^}_PORT" ;;
    esac
}

# Print what compose takes for variable $1: the environment's, else the one in .env, else $2.
setting() { printf '%s\n' "${!1:-$(env_value "$1" "$2")}"; }

# Say how service $1 is reached. The token is shown on a terminal only; a log would keep it.
show_address() {
    local host token=TOKEN file
    file=$(setting WORKSPACE ./workspace)/.token host=$(setting BIND_ADDR 127.0.0.1)
    if [ -t 2 ] && [ -r "$file" ]; then token=$(cat "$file"); fi
    case $1 in
        jupyter | lab) say "up: Jupyter answers: http://$host:$(setting JUPYTER_PORT 8888)/?token=$token" ;;
        tensorboard) say "up: TensorBoard answers: http://$host:$(setting TENSORBOARD_PORT 6006)/$token/" ;;
    esac
    if [ "$1" = lab ]; then say "up: TensorBoard: http://$host:$(setting JUPYTER_PORT 8888)/tensorboard/"; fi
    if [ "$1" = ssh ]; then say "up: SSH answers: ssh -p $(setting SSH_PORT 2222) $(login_name)@$host"; fi
    if [ "$token" = TOKEN ] && [ "$1" != ssh ]; then say "up: TOKEN is what stands in $file"; fi
}

# Print the name that the image gives the user of the containers (entrypoint/hooks.d/10-user.sh).
login_name() {
    local uid
    uid=$(setting_uid)
    if [ "$uid" = 1000 ]; then echo yolo; else echo "yolo$uid"; fi
}
# bash has a read-only UID of its own, which compose does not see; .env decides.
setting_uid() { env_value UID 1000; }

# While service $1, run as container $2 (else as compose names it), starts: say so; once it answers: how to reach it.
announce() {
    local id state begun=$SECONDS next=$((SECONDS + 2)) last=''
    while sleep 1; do
        id=${2:-$(docker compose ps -q "$1" 2>/dev/null | head -n 1)}
        state=$(docker inspect -f '{{if .State.Health}}{{.State.Health.Status}}{{end}}' "${id:-none}" 2>/dev/null || true)
        case $state in
            healthy) if [ "$last" != healthy ]; then show_address "$1"; fi ;;
            unhealthy)
                if [ "$last" != unhealthy ]; then
                    say "up: $1 is unhealthy: $(docker inspect -f '{{range .State.Health.Log}}{{println .Output}}{{end}}' "$id" 2>/dev/null | grep . | tail -n 1)"
                fi
                ;;
            *)
                # A look takes longer than its second of sleep, so the seconds seen leave some out.
                if [ "$SECONDS" -ge "$next" ]; then
                    say "up: $1 is starting, $((SECONDS - begun)) s ..."
                    next=$((SECONDS + 5))
                fi
                ;;
        esac
        last=$state
    done
}

# Make the workspace $1 and its token for UID $2 and GID $3.
make_workspace() {
    mkdir -p "$1"
    if [ ! -s "$1/.token" ]; then (umask 077 && od -An -N 24 -t x1 /dev/urandom | tr -d ' \n' >"$1/.token"); fi
    if [ "$(id -u)" = 0 ]; then
        chown "$2:$3" "$1" "$1/.token"
    elif [ "$(stat -c %u "$1")" != "$2" ]; then
        die "$1 belongs to UID $(stat -c %u "$1"), containers run as UID $2; fix it: sudo chown -R $2:$3 $1"
    fi
    say "init: workspace $1, token in $1/.token"
}

# Run service $1 with the other arguments, and end with its exit code.
run_service() {
    local run stop code=0 again=1 watcher='' name="yolo-diag-$1-$$"
    log=$(mktemp)
    trap 'rm -f "$log"; if [ -n "$watcher" ]; then kill "$watcher" 2>/dev/null; fi' EXIT
    run=(run --rm --name "$name" "$@") stop=(docker stop -t 120 "$name")
    case $1:$# in
        # These stay, and `docker compose stop` finds them.
        jupyter:1 | tensorboard:1 | ssh:1 | lab:1)
            run=(up --no-log-prefix --exit-code-from "$1" "$1") stop=(docker compose stop "$1") name=''
            ;;
        jupyter:* | tensorboard:* | ssh:* | lab:*) run=(run --rm --service-ports --name "$name" "$@") ;;
    esac
    case $1 in
        jupyter | tensorboard | ssh | lab)
            announce "$1" "$name" &
            watcher=$!
            ;;
    esac
    if [ -t 0 ] && [ -t 1 ]; then
        # `run` passes the terminal on: colours, a live progress line, Ctrl-C.
        attached "${run[@]}" || code=$?
    else
        # Without a terminal a signal makes `docker compose run` leave, and the container stays: stop it ourselves.
        if [ "${run[0]}" = run ]; then run=(run -T "${run[@]:1}"); fi
        trap 'again=1; "${stop[@]}" >/dev/null 2>&1' TERM INT
        attached "${run[@]}" <&0 &
        # A signal ends `wait` early, with a code of its own; the container's comes from the next one.
        while [ -n "$again" ]; do
            again='' code=0
            wait $! || code=$?
        done
    fi
    if [ "$code" -ne 0 ]; then explain_docker "$log" "$@"; fi
    exit "$code"
}

# `docker compose` with arguments; what it says itself also goes to $log.
attached() {
    local own=()
    # In a session of its own it gets no signal that was meant for us; with a terminal it needs ours.
    if [ ! -t 0 ] || [ ! -t 1 ]; then own=(setsid --wait); fi
    { "${own[@]}" docker compose --ansi never --progress quiet "$@" 2>&1 >&3 | tee -i "$log" >&2; } 3>&1
}
