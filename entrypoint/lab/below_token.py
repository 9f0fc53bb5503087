"""Start TensorBoard below a secret path: below_token.py LOGDIR TOKEN_FILE [TensorBoard's options]."""

import sys
from pathlib import Path

from tensorboard import default, program


class Silent(program.WerkzeugServer):
    """TensorBoard's server without its greeting, which would write the secret path into the log."""

    def print_serving_message(self) -> None:
        """Say nothing."""


logdir, token_file, *options = sys.argv[1:]
board = program.TensorBoard(default.get_plugins(), server_class=Silent)
prefix = "/" + Path(token_file).read_text().strip()
board.configure(["tensorboard", "--logdir", logdir, "--path_prefix", prefix, "--load_fast", "false", *options])
raise SystemExit(board.main())
