"""Jupyter's own settings in the image: TensorBoard at /tensorboard/, behind Jupyter's token (jupyter-server-proxy).

In `lab` the supervisor runs TensorBoard on port 6006; elsewhere the proxy starts one at the first visit.
"""

import os
import sys
from pathlib import Path

c = get_config()  # type: ignore[name-defined]  # noqa: F821  given by Jupyter

HERE = Path(__file__).resolve().parent
TOKEN_FILE = os.environ["JUPYTER_TOKEN_FILE"]
RUNS = str(Path(os.environ["WORKSPACE"]) / "runs")


def below_token(path: str) -> str:
    """Where TensorBoard serves what the browser asks of /tensorboard/PATH."""
    return "/" + Path(TOKEN_FILE).read_text().strip() + path


start = [sys.executable, str(HERE / "below_token.py"), RUNS, TOKEN_FILE, "--host", "127.0.0.1", "--port", "{port}"]
c.ServerProxy.servers = {
    "tensorboard": {
        **({"port": 6006, "command": []} if os.environ.get("LAB") else {"command": start}),
        "timeout": 60,  # TensorBoard's first start reads from a cold disk; the default of 5 s is too short
        "absolute_url": False,
        "mappath": below_token,
        "launcher_entry": {"title": "TensorBoard"},
        "new_browser_tab": True,
    }
}
