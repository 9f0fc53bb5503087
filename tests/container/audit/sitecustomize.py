"""Mounted into a container and put on PYTHONPATH: notes every connection and name look-up that Python tries."""

import sys
from pathlib import Path

LOG = Path("/workspace/attempts.txt")


def note(event: str, args: tuple[object, ...]) -> None:
    """Audit hook. Unix sockets and loopback are no connections to elsewhere."""
    if event == "socket.getaddrinfo" and args[0] not in {None, "", "localhost", "127.0.0.1"}:
        told = f"look-up {args[0]}"
    elif event == "socket.connect" and isinstance(args[1], tuple) and not str(args[1][0]).startswith("127."):
        told = f"connect {args[1]}"
    elif event == "urllib.Request":
        told = f"request {args[0]}"
    else:
        return
    with LOG.open("a") as log:
        log.write(f"{told} by {sys.argv[:3]}\n")


sys.addaudithook(note)
with (LOG.parent / "watched.txt").open("a") as watched:
    watched.write(f"watching python by {sys.orig_argv[1:4]}\n")
