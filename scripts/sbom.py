"""CycloneDX 1.6 JSON of a lock and a dpkg list: sbom.py STACK LOCK DEBIAN. Valid, or it is not printed."""

import hashlib
import os
import sys
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from cyclonedx.model import Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

from diag import __version__
from diag.probe.stack import read_lock


def python_components(lock: str) -> Iterable[Component]:
    """One component for each package that the lock installs."""
    for name, version in sorted(read_lock(lock).items()):
        purl = PackageURL("pypi", name=name, version=version)
        yield Component(name=name, version=version, type=ComponentType.LIBRARY, purl=purl, bom_ref=str(purl))


def debian_components(listing: str) -> Iterable[Component]:
    """One component for each line `name version architecture`. Raises ValueError for any other line."""
    for line in sorted(filter(None, listing.splitlines())):
        name, version, arch = line.split()
        qualifiers = {"arch": arch, "distro": "debian-12"}
        purl = PackageURL("deb", namespace="debian", name=name, version=version, qualifiers=qualifiers)
        yield Component(name=name, version=version, type=ComponentType.LIBRARY, purl=purl, bom_ref=str(purl))


def bill(stack: str, lock: str, listing: str) -> str:
    """The document. The same input gives the same serial number; SOURCE_DATE_EPOCH also fixes the time stamp."""
    digest = hashlib.sha256(lock.encode()).hexdigest()
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    bom = Bom(
        components=[*python_components(lock), *debian_components(listing)],
        serial_number=uuid.uuid5(uuid.NAMESPACE_OID, f"{stack}\n{digest}\n{listing}"),
    )
    bom.metadata.timestamp = datetime.fromtimestamp(int(epoch), UTC) if epoch else datetime.now(UTC)
    bom.metadata.component = Component(
        name="yolo-diag",
        version=f"{__version__}+{stack}",
        type=ComponentType.CONTAINER,
        bom_ref="yolo-diag",
        properties=[Property(name="diag:stack", value=stack), Property(name="diag:lock.sha256", value=digest)],
    )
    bom.register_dependency(bom.metadata.component, bom.components)
    text = JsonV1Dot6(bom).output_as_string(indent=1)
    fault = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if fault:
        raise SystemExit(f"sbom: the document does not fit the schema: {fault}")
    return text


if __name__ == "__main__":
    print(
        bill(sys.argv[1], Path(sys.argv[2]).read_text(encoding="utf-8"), Path(sys.argv[3]).read_text(encoding="utf-8"))
    )
