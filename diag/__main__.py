"""`python -m diag` is the `diag` command."""

from diag.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
