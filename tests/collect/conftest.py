"""The run folder of the loader's tests."""

from tests.load.conftest import run_dir

__all__ = ["run_dir"]
