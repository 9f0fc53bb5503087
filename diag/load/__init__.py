"""Files of a run -> Evidence. Whatever cannot be read is listed in `skipped_files`, never raised."""

from diag.load.run import load_run, load_runs

__all__ = ["load_run", "load_runs"]
