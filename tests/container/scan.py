"""Run in another container of the network: scan.py HOST; which ports answer, and what they show without a token.

Prints one JSON object: {port: {page: [status, location]}} for HTTP, {port: banner} for a server that speaks first.
"""

import http.client
import json
import socket
import struct
import sys

TWO_SECONDS = struct.pack("ll", 2, 0)
PAGES = (
    "/",
    "/api/contents",
    "/api/contents/.token",
    "/api/kernels",
    "/api/terminals",
    "/api/status",
    "/api/me",
    "/files/.token",
    "/lab",
    "/lab/api/settings",
    "/tree",
    "/metrics",
    "/tensorboard/",
    "/tensorboard/data/environment",
    "/proxy/6006/",
    "/proxy/absolute/6006/",
    "/proxy/127.0.0.1:22/",
    "/data/environment",
    "/data/logdir",
    "/data/runs",
    "/server-proxy/servers-info",
    "/terminals/websocket/1",
    "/lsp/status",
)


def opens(host: str, port: int) -> bool:
    """Does anybody accept a connection?"""
    with socket.socket() as sock:
        # A blocking connect with a limit of the kernel's: one call a port, so that all 65535 take seconds.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, TWO_SECONDS)
        return sock.connect_ex((host, port)) == 0


def banner(host: str, port: int) -> str:
    """What a server says by itself within a second."""
    with socket.create_connection((host, port), timeout=5) as sock:
        sock.settimeout(1)
        try:
            return sock.recv(64).decode(errors="replace").strip()
        except TimeoutError:
            return ""


def pages(host: str, port: int) -> dict[str, list[object]]:
    """Status and Location of each page."""
    told: dict[str, list[object]] = {}
    for page in PAGES:
        connection = http.client.HTTPConnection(host, port, timeout=30)
        try:
            connection.request("GET", page)
            answer = connection.getresponse()
            told[page] = [answer.status, (answer.getheader("Location") or "").partition("?")[0]]
        except http.client.HTTPException as error:
            told[page] = [0, str(error)]
        finally:
            connection.close()
    return told


host = socket.gethostbyname(sys.argv[1])
found: dict[str, object] = {}
for port in range(1, 65536):
    if opens(host, port):
        found[str(port)] = banner(host, port) or pages(host, port)
print(json.dumps(found))
