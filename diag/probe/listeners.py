"""Who listens in this network namespace? Declared services may; what lets others in without asking is a finding."""

import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from diag.errors import InputError
from diag.model.check import Check, Status, worst

LISTEN = "0A"
"""TCP_LISTEN in /proc/net/tcp (include/net/tcp_states.h)."""


@dataclass(frozen=True)
class Service:
    """A port that the image knows: what guards it, and a word of the command line of who may hold it."""

    name: str
    guard: str
    command: str


SERVICES = {
    8888: Service("Jupyter", "token", "jupyter"),
    6006: Service("TensorBoard", "below the token", "below_token.py"),
    2222: Service("SSH", "public key", "sshd"),
}


UNGUARDED = re.compile(
    r"http\.server|SimpleHTTPServer|\btensorboard\b|\bmlflow\b|\bvisdom\b|\bfiftyone\b|\baim up\b|\bray::"
    r"|dashboard/dashboard\.py|\bdask-scheduler\b|\bstreamlit\b|\bgradio\b|\bredis-server\b|\bmongod\b|\bdockerd\b.*tcp://"
    r"|\bjupyter\b.*(?:token|password)=(?:''|\"\"|\s|$)"
)
"""Command lines of programs beside trainings that let in everybody who reaches them, unless told otherwise."""
UNGUARDED_PORTS = {
    2375: "Docker without TLS",
    5000: "MLflow",
    5151: "FiftyOne",
    6379: "Redis",
    7860: "Gradio",
    8000: "Python's http.server",
    8097: "Visdom",
    8265: "Ray's dashboard",
    8501: "Streamlit",
    8787: "Dask's dashboard",
    27017: "MongoDB",
    43800: "Aim",
}
"""The ports that they listen on unless told otherwise."""


@dataclass(frozen=True)
class Listener:
    """One listening TCP socket. `command` is empty when its process is somebody else's or in another container."""

    address: str
    port: int
    command: str = ""

    @property
    def loopback(self) -> bool:
        """True if only this network namespace reaches it."""
        address = ipaddress.ip_address(self.address)
        mapped = getattr(address, "ipv4_mapped", None)
        return (mapped or address).is_loopback

    def __str__(self) -> str:
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{host}:{self.port} ({self.command or 'a process that is not visible here'})"


def parse(table: str) -> tuple[tuple[str, int, int], ...]:
    """(address, port, inode) of the listening sockets in a /proc/net/tcp or tcp6; other lines are left out."""
    found = []
    for line in table.splitlines()[1:]:
        fields = line.split()
        if len(fields) < 10 or fields[3] != LISTEN:
            continue
        address, port = fields[1].split(":")
        raw = bytes.fromhex(address)  # 32-bit words, each in the order of the machine: little-endian on x86 and ARM
        words = b"".join(raw[i : i + 4][::-1] for i in range(0, len(raw), 4))
        found.append((str(ipaddress.ip_address(words)), int(port, 16), int(fields[9])))
    return tuple(found)


def read(proc: Path = Path("/proc")) -> tuple[Listener, ...]:
    """All listening TCP sockets of this network namespace with their command lines, sorted by port.

    Raises OSError when the kernel's table can't be read.
    """
    sockets = parse((proc / "net/tcp").read_text(encoding="ascii"))
    if (proc / "net/tcp6").exists():
        sockets += parse((proc / "net/tcp6").read_text(encoding="ascii"))
    owners = _owners(proc, {inode for _, _, inode in sockets})
    return tuple(sorted((Listener(a, p, owners.get(i, "")) for a, p, i in sockets), key=lambda x: (x.port, x.address)))


def _owners(proc: Path, inodes: set[int]) -> dict[int, str]:
    """Inode -> command line, as far as this user may look."""
    owners: dict[int, str] = {}
    wanted = {f"socket:[{inode}]": inode for inode in inodes}
    for process in proc.iterdir():
        if not process.name.isdigit():
            continue
        try:
            links = [link for fd in (process / "fd").iterdir() if (link := _link(fd)) in wanted]
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue  # ended meanwhile, or somebody else's
        owners |= {wanted[link]: command for link in links}
    return owners


def _link(fd: Path) -> str:
    try:
        return str(fd.readlink())
    except OSError:
        return ""  # closed meanwhile; in our own list that of the list itself is among them


def declared_ports(environ: Mapping[str, str]) -> frozenset[int]:
    """The ports in DECLARED_PORTS, separated by commas or blanks. Raises InputError for anything else in it."""
    words = environ.get("DECLARED_PORTS", "").replace(",", " ").split()
    try:
        return frozenset(int(word) for word in words)
    except ValueError as error:
        raise InputError(
            f"DECLARED_PORTS={environ['DECLARED_PORTS']}: expected port numbers, e.g. 9000,9001"
        ) from error


def net_listeners(listeners: Sequence[Listener], declared: Iterable[int], *, container: bool) -> Check:
    """Does anything listen, beyond loopback, that lets others in and was not declared?

    Judged in a container only: there, every listener was started by its user. A program that asks nobody who they are,
    or that sits on a port of ours, fails; a port by which such programs are known warns (its process is not visible
    here: host network, another container of a pod; or it is a program of another name). Whatever else listens
    (an SSH server of the provider, the rendezvous of a distributed training) is told, and no fault.
    """
    name, expected = "net.listeners", "no open service without a guard"
    facts = {"listeners": [str(one) for one in listeners], "declared": sorted({*SERVICES, *declared})}
    if not container:
        reason = "not a container: who may listen on this machine is its owner's matter"
        return Check(name, Status.SKIP, reason=reason, facts=facts)
    reachable = [one for one in listeners if not one.loopback]
    others = [one for one in reachable if not _declared(one, frozenset(declared))]
    judged = [(status, one) for one in others if (status := _open(one)) is not None]
    if judged:
        status = worst([status for status, _ in judged])
        shown = "; ".join(str(one)[:120] for found, one in judged if found is status)
        meant = ",".join(dict.fromkeys(str(one.port) for _, one in judged))
        remedy = f"end it, bind it to 127.0.0.1, or say that it is meant: DECLARED_PORTS={meant}"
        return Check(name, status, shown[:400], expected, _reason(judged), remedy, facts=facts)
    ports = dict.fromkeys(one.port for one in reachable if one not in others)
    known = [
        f"{port} {SERVICES[port].name} ({SERVICES[port].guard})" if port in SERVICES else f"{port}" for port in ports
    ]
    if others:
        shown = "; ".join([*known, *(str(one)[:120] for one in others[:3])])
        reason = "reachable from outside, and not of this environment"
        return Check(name, Status.INFO, shown, reason=reason, facts=facts)
    value = ", ".join(known) if known else "nothing listens beyond loopback"
    return Check(name, Status.PASS, value, expected, facts=facts)


def _open(one: Listener) -> Status | None:
    """fail for a program that lets everybody in or took a port of ours, warn for a port known for such; else None."""
    if one.command and (one.port in SERVICES or UNGUARDED.search(one.command)):
        return Status.FAIL
    return Status.WARN if one.port in UNGUARDED_PORTS else None


def _reason(judged: Sequence[tuple[Status, Listener]]) -> str:
    """What is wrong with them; ports alone are named by what usually listens there."""
    ports = dict.fromkeys(one.port for status, one in judged if status is Status.WARN)
    named = ", ".join(f"{port} is usually {UNGUARDED_PORTS[port]}" for port in ports)
    open_to_all = "others on the network can reach it"
    return open_to_all if any(status is Status.FAIL for status, _ in judged) else f"{named}: {open_to_all}"


def _declared(one: Listener, declared: frozenset[int]) -> bool:
    if one.port in declared:
        return True
    service = SERVICES.get(one.port)
    return service is not None and (not one.command or service.command in one.command)
