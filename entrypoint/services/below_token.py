"""Start TensorBoard below a secret path: below_token.py LOGDIR TOKEN_FILE [its own options]."""

import sys
from pathlib import Path

from tensorboard import default, program

logdir, token_file, *options = sys.argv[1:]
board = program.TensorBoard(default.get_plugins())
prefix = "/" + Path(token_file).read_text().strip()
flags = ["--logdir", logdir, "--host", "0.0.0.0", "--port", "6006", "--path_prefix", prefix, "--load_fast", "false"]
board.configure(["tensorboard", *flags, *options])
raise SystemExit(board.main())
