"""Every error that diag raises on purpose, and the exit code that it ends with.

    DiagError                 1   a check, a stage or the training failed
    +-- InputError            2   the user gave something that can't be used: argument, path, file
        +-- ConfigError       2   a configuration file or a threshold name is wrong

Anything else that reaches the command line is our own fault and ends with 3 (`EXIT_INTERNAL`).
"""

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERNAL = 3


class DiagError(Exception):
    """Something failed that the user can act on; the message says what, where, and what next."""

    exit_code = EXIT_FAILED


class InputError(DiagError):
    """The user's argument, path or file can't be used."""

    exit_code = EXIT_USAGE


class ConfigError(InputError):
    """A configuration file or a threshold name is wrong."""
