"""The same evidence in other wrappings: how people paste, zip, copy, export and re-save it.

A wrapping takes the files of a case (name -> bytes) and gives other files that say the same. `lossy` ones take
something away, so that less may be found, never something else.
"""

from collections.abc import Mapping

from tests.wrappings.base import Files, Wrapping, write
from tests.wrappings.containers import CONTAINERS
from tests.wrappings.documents import DOCUMENTS
from tests.wrappings.tables import TABLES
from tests.wrappings.text import TEXTS
from tests.wrappings.yamls import YAMLS

WRAPPINGS: Mapping[str, Wrapping] = {w.name: w for w in (*TEXTS, *DOCUMENTS, *TABLES, *YAMLS, *CONTAINERS)}

__all__ = ["WRAPPINGS", "Files", "Wrapping", "write"]
