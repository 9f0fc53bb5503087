#!/usr/bin/env bash
# SSH on port 2222 for one user, the one this container runs as; with a key, never with a password. No root needed.
set -euo pipefail
# shellcheck source=entrypoint/lib.sh
source "$(dirname "$0")/../lib.sh"

name_output ssh
state=/tmp/ssh
(umask 077 && mkdir -p "$state")

[ "$(id -u)" != 0 ] || die "SSH does not run as root here; use --user UID:GID with a UID of 500 or more"
user=$(id -un 2>/dev/null) || die "UID $(id -u) has no name, and SSH needs one; use a UID of 500 or more"

has_ssh_keys || die "no public key for SSH: set SSH_AUTHORIZED_KEYS=\"\$(cat ~/.ssh/id_ed25519.pub)\"," \
    "or put keys into .ssh/authorized_keys of the workspace"
if ssh_keys | grep -q 'PRIVATE KEY'; then die "that is a private key; SSH wants the public one, the file that ends in .pub"; fi
(umask 077 && ssh_keys >"$state/authorized_keys")
ssh-keygen -lf "$state/authorized_keys" >"$state/fingerprints" 2>&1 ||
    die "no line of SSH_AUTHORIZED_KEYS or .ssh/authorized_keys is a public key (ssh-ed25519 AAAA... NAME)"

# The host key is made once and kept in the workspace: the address stays the one that known_hosts remembers.
if [ ! -s "$ssh_folder/host_ed25519" ]; then
    (umask 077 && mkdir -p "$ssh_folder" && ssh-keygen -q -t ed25519 -N '' -C yolo-diag -f "$ssh_folder/host_ed25519") ||
        die "cannot write $ssh_folder/host_ed25519"
fi
# A copy with the rights that sshd insists on, also where the workspace's file system keeps none (SMB, some FUSE).
(umask 077 && cat "$ssh_folder/host_ed25519" >"$state/host_ed25519")

# sshd hands nothing of its own environment to a session, so PATH and the rest are named here. One line: sshd reads the
# first SetEnv only. Not the token, not what belongs to a session, nothing with a line break or a quote.
session_env() {
    local name value
    while IFS='=' read -r -d '' name value; do
        case $name in
            TOKEN_FILE | JUPYTER_* | SSH_* | PUBLIC_KEY | LAB* | SUPERVISOR_* | HOME | USER | LOGNAME | SHELL | PWD | OLDPWD | SHLVL | _ | TERM | HOSTNAME) ;;
            *) if [[ $name =~ ^[A-Za-z_][A-Za-z0-9_]*$ && $value != *[$'\n"\\']* ]]; then printf ' "%s=%s"' "$name" "$value"; fi ;;
        esac
    done < <(env -0)
}

(umask 077 && cat >"$state/sshd_config") <<CONFIG
Port 2222
HostKey $state/host_ed25519
AuthorizedKeysFile $state/authorized_keys
PidFile none
AllowUsers $user
AuthenticationMethods publickey
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin no
PermitEmptyPasswords no
UsePAM no
# The keys lie below /tmp, which is anybody's in form; everybody in this container is one user.
StrictModes no
AllowAgentForwarding no
X11Forwarding no
AllowTcpForwarding local
AllowStreamLocalForwarding no
GatewayPorts no
PermitTunnel no
PermitUserEnvironment no
PermitUserRC no
MaxAuthTries 3
LoginGraceTime 20
ClientAliveInterval 30
PrintMotd no
LogLevel INFO
Subsystem sftp internal-sftp
SetEnv$(session_env)
CONFIG
/usr/sbin/sshd -t -f "$state/sshd_config" || die "sshd refuses its settings; the line above says which"

log_info "SSH: ssh -p ${SSH_PORT:-2222} $user@${BIND_ADDR:-127.0.0.1} (as compose publishes it)," \
    "$(ssh-keygen -lf "$ssh_folder/host_ed25519.pub" | cut -d' ' -f2)"
# The health check knocks every few seconds from inside; its lines would hide all others.
exec /usr/sbin/sshd -D -e -f "$state/sshd_config" "$@" 2> >(exec grep --line-buffered -vE '127\.0\.0\.1 port|kex_exchange_identification' >&2)
