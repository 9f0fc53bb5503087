# A Docker engine of our own for the container tests: install it, start it, make the base image. Sourced by .ci/run.
# shellcheck shell=bash

# Debian bookworm has no compose plugin and an engine from 2021; trixie's packages run on bookworm's libc.
# Only trixie's runc needs a newer libc, so runc and iptables stay bookworm's.
install_docker() {
    local tool missing=()
    for tool in dockerd containerd runc iptables debootstrap gcc nsenter; do
        command -v "$tool" >/dev/null || missing+=("$tool")
    done
    docker compose version >/dev/null 2>&1 || missing+=("docker compose")
    docker buildx version >/dev/null 2>&1 || missing+=("docker buildx")
    if [ ${#missing[@]} -eq 0 ]; then return; fi
    say "installing: ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    printf 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s trixie main\n' "$(debian_mirror)" \
        >/etc/apt/sources.list.d/trixie-docker.list
    cat >/etc/apt/preferences.d/trixie-docker <<'PINS'
Package: *
Pin: release n=trixie
Pin-Priority: 100

Package: docker.io docker-cli docker-compose docker-buildx containerd
Pin: release n=trixie
Pin-Priority: 990
PINS
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends docker.io docker-cli docker-compose docker-buildx containerd \
        runc iptables debootstrap gcc libc6-dev util-linux ca-certificates >/dev/null
}

# Print this machine's own bookworm archives, "CODENAME URI" a line: release, updates, security.
debian_archives() {
    # apt knows the code names only after an update. `$(...)` are apt's fields, not ours.
    # shellcheck disable=SC2016
    local fields='$(CODENAME) $(REPO_URI)'
    apt-get indextargets --format "$fields" | grep -q '^bookworm ' || apt-get update -qq
    apt-get indextargets --format "$fields" | sed -n 's|^\(bookworm[a-z-]*\) \(.*[^/]\)/*$|\1 \2|p' | sort -u
}

# Print the one of them that holds the release.
debian_mirror() {
    local mirror
    mirror=$(debian_archives | sed -n 's/^bookworm //p')
    [ -n "$mirror" ] || die "this machine has no Debian bookworm archive among its apt sources"
    printf '%s\n' "${mirror%%$'\n'*}"
}

# Start dockerd on its own socket and folders below $1; a stub of NVIDIA's hook on its PATH makes it offer a "GPU".
start_dockerd() {
    local home=$1
    PATH=$home/hook:$PATH setsid dockerd -H "unix://$home/docker.sock" --data-root "$home/data" \
        --exec-root "$home/exec" -p "$home/dockerd.pid" >"$home/dockerd.log" 2>&1 </dev/null &
    export DOCKER_HOST=unix://$home/docker.sock DOCKER_BUILDKIT=1
    for _ in $(seq 60); do
        if docker version >/dev/null 2>&1; then return; fi
        sleep 0.5
    done
    tail -n 20 "$home/dockerd.log" >&2
    die "dockerd did not start"
}

# Stop what start_dockerd started, by its pid, and remove its folders.
stop_dockerd() {
    local home=$1 pid
    if [ -f "$home/dockerd.pid" ]; then
        timeout 120 bash -c "docker ps -aq | xargs -r docker rm -f" >/dev/null 2>&1 || true
        pid=$(cat "$home/dockerd.pid")
        kill "$pid" 2>/dev/null || true
        for _ in $(seq 60); do
            [ -d "/proc/$pid" ] || break
            sleep 0.5
        done
    fi
    findmnt -rno TARGET | { grep "^$home/" || true; } | sort -r | xargs -r umount -l
    rm -rf "$home"
}

# Make debian:bookworm-slim from the archive that apt trusts; $1 keeps the tree as a tar for the next time.
base_image() {
    local tar=$1 tree
    if ! [ -f "$tar" ]; then
        tree=$(mktemp -d /var/tmp/base.XXXXXX)
        debootstrap --variant=minbase --include=ca-certificates bookworm "$tree" "$(debian_mirror)" >"$tree.log" 2>&1 ||
            { tail -n 20 "$tree.log" >&2; die "debootstrap failed"; }
        debian_archives | sed 's/^\([^ ]*\) \(.*\)/deb \2 \1 main/' >"$tree/etc/apt/sources.list"
        # What the slim images drop too.
        rm -rf "$tree"/usr/share/{doc,man,locale,info} "$tree"/var/cache/apt/* "$tree"/var/lib/apt/lists/*
        mkdir -p "$(dirname "$tar")"
        tar -C "$tree" -c . >"$tar.part"
        mv "$tar.part" "$tar"
        rm -rf "$tree" "$tree.log"
    fi
    docker import -c 'CMD ["bash"]' "$tar" debian:bookworm-slim >/dev/null
}
