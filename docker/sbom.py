"""Writes the software bill of materials of the image, as CycloneDX JSON: ``make sbom``.

It is made of what is pinned, ``pyproject.toml`` and ``requirements/runtime.lock``, so that the same
commit gives the same bytes. The Debian packages of the base image are not pinned there: with
``--debian`` they are read from a list of the built image, else the bill says that they are missing.
"""

import argparse
import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.markers import Marker
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
IMAGE = {
    "implementation_name": "cpython",
    "implementation_version": "3.12.0",
    "os_name": "posix",
    "platform_machine": "x86_64",
    "platform_python_implementation": "CPython",
    "platform_release": "",
    "platform_system": "Linux",
    "platform_version": "",
    "python_full_version": "3.12.0",
    "python_version": "3.12",
    "sys_platform": "linux",
}
"""The image, as markers of the lock file see it: not the machine that writes the bill."""

DEBIAN_FORMAT = r"${Package}\t${Version}\t${Architecture}\n"
"""What ``dpkg-query --show --showformat`` has to print for ``--debian``."""

_PREFIX = "mcp-tools-proxy:"
_MISSING = (
    "Python packages only: the Debian packages and the Python of the base image are not in it, for "
    "nothing pins them; list those of the built image with dpkg-query: make sbom DEBIAN=<list>"
)
_WHOLE = "Python packages, and the Debian packages of the built image"
_HASHES = (
    "those of every file of a release that may be installed; the file that was installed has one"
)

_PIN = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;\\]+)(?:\s*;\s*([^\\]+))?")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


class UnreadableList(ValueError):
    """A lock file or a list of packages is of no known form; one line."""


@dataclass(frozen=True, slots=True)
class Pin:
    """A release that the lock file pins; ``hashes`` are the SHA-256 of its files."""

    name: str
    version: str
    hashes: tuple[str, ...]


def read_lock(text: str) -> Iterator[Pin]:
    """Yield what a lock file pins for the image: Linux, and its Python. Raises UnreadableList."""
    for block in re.split(r"\n(?=\S)", text.strip()):
        found = _PIN.match(block)
        hashes = tuple(_HASH.findall(block))
        if found is None or not hashes:
            raise UnreadableList(f"the lock file has a line without a pin and hashes: {block!r}")
        name, version, marker = found.groups()
        if marker is None or Marker(marker.strip()).evaluate(IMAGE):
            yield Pin(name, version, hashes)


def read_debian(text: str) -> Iterator[Component]:
    """Yield the packages of a list that dpkg-query printed. Raises UnreadableList."""
    for line in text.splitlines():
        match line.split("\t"):
            case [name, version, architecture] if name and version:
                url = PackageURL("deb", "debian", name, version, {"arch": architecture})
                yield Component(
                    name=name, version=version, type=ComponentType.LIBRARY, purl=url,
                    bom_ref=url.to_string(),
                )  # fmt: skip
            case _:
                raise UnreadableList(f"a line of the Debian packages is not as expected: {line!r}")


def build_bom(project: dict[str, str], lock: str, debian: str | None) -> Bom:
    """Build the bill: the project, which depends on each package. Raises UnreadableList."""
    root = Component(
        name=project["name"],
        version=project["version"],
        description=project["description"],
        type=ComponentType.CONTAINER,
        licenses=[DisjunctiveLicense(id=project["license"])],
        bom_ref=project["name"],
    )
    packages = [*map(_component, read_lock(lock)), *read_debian(debian or "")]
    bom = Bom(components=packages)
    bom.metadata.component = root
    bom.metadata.properties = _properties(
        contents=_MISSING if debian is None else _WHOLE, hashes=_HASHES
    )
    bom.register_dependency(root, packages)
    # that of this run and a random one: the same commit has to give the same bytes
    bom.metadata.timestamp = None  # type: ignore[assignment]  # left out, as the schema permits
    bom.serial_number = None  # type: ignore[assignment]  # the same
    return bom


def _component(pin: Pin) -> Component:
    url = PackageURL("pypi", name=canonicalize_name(pin.name), version=pin.version)
    return Component(
        name=pin.name,
        version=pin.version,
        type=ComponentType.LIBRARY,
        purl=url,
        bom_ref=url.to_string(),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=it) for it in pin.hashes],
    )


def _properties(**texts: str) -> Iterable[Property]:
    return [Property(name=_PREFIX + name, value=text) for name, text in texts.items()]


def write_sbom(target: Path, debian: Path | None) -> None:
    """Write the bill of this commit. Raises UnreadableList, OSError."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    bom = build_bom(
        project,
        (ROOT / "requirements/runtime.lock").read_text(encoding="utf-8"),
        None if debian is None else debian.read_text(encoding="utf-8"),
    )
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(JsonV1Dot6(bom).output_as_string(indent=2) + "\n", encoding="utf-8")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", type=Path)
    parser.add_argument("--debian", type=Path, help=f"printed by dpkg-query: {DEBIAN_FORMAT}")
    options = parser.parse_args()
    try:
        write_sbom(options.target, options.debian)
    except (OSError, UnreadableList) as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
