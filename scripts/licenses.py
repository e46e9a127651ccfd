"""Check the licenses of all packages that fivestar can import, and list them in THIRD_PARTY.md.

python scripts/licenses.py           # fails if a license is not allowed
python scripts/licenses.py --write   # writes the list
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "THIRD_PARTY.md"
BEGIN, END = "<!-- licenses: written by scripts/licenses.py -->\n", "<!-- end of licenses -->\n"
# Permissive ones, and MPL-2.0, which covers its own files only.
ALLOWED = frozenset(
    {
        *("0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD", "BSD-2-Clause"),
        *("BSD-3-Clause", "BSL-1.0", "CC0-1.0", "ISC", "MIT", "MIT-0", "MIT-CMU", "MPL-2.0"),
        *("PSF-2.0", "Unlicense", "Zlib"),
    }
)
# What packages without a license expression write, and the SPDX identifier for it.
OTHER_NAMES = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Python Software Foundation License": "PSF-2.0",
}
# Extras that are for development, or that name other extras.
NOT_AT_RUN_TIME = ("dev", "all", "demo-data", "docs")


def runtime_requirements() -> list[Requirement]:
    """Return the dependencies of the package and of its extras for users."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [*project["dependencies"]]
    for extra, more in project["optional-dependencies"].items():
        if extra not in NOT_AT_RUN_TIME:
            lines += more
    return [Requirement(line) for line in lines]


def installed_packages(requirements: Iterable[Requirement]) -> dict[str, str]:
    """Return the license of each installed package that these require, directly or not.

    Raises:
        SystemExit: A required package is not installed.
    """
    found: dict[str, str] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = [(each, "") for each in requirements]
    while waiting:
        requirement, extra = waiting.pop()
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        key = (canonicalize_name(requirement.name), frozenset(requirement.extras))
        if key in seen:
            continue
        seen.add(key)
        try:
            package = distribution(requirement.name)
        except PackageNotFoundError:
            raise SystemExit(
                f"{requirement.name} is not installed: make test installs it"
            ) from None
        found[key[0]] = license_of(package.metadata)
        for line in package.requires or ():
            waiting += [(Requirement(line), each) for each in ("", *requirement.extras)]
    return dict(sorted(found.items()))


def license_of(metadata: Mapping[str, str]) -> str:
    """Return the license that the metadata of a package state, as an SPDX expression if possible.

    >>> license_of({"License": "MIT License"})
    'MIT'
    """
    if expression := metadata.get("License-Expression"):
        return expression
    text = (metadata.get("License") or "").strip()
    stated = OTHER_NAMES.get(text, text)
    if is_allowed(stated):
        return stated
    lines = metadata.get_all("Classifier") if hasattr(metadata, "get_all") else None
    names = [line.split(" :: ")[-1] for line in lines or () if line.startswith("License :: ")]
    if names:
        return " AND ".join(OTHER_NAMES.get(name, name) for name in names)
    return stated.partition("\n")[0] or "unknown"


def is_allowed(expression: str) -> bool:
    """Return whether all parts of an expression are allowed, or one of several to choose from.

    >>> is_allowed("MIT AND (GPL-3.0-only OR BSD-3-Clause)"), is_allowed("MIT AND GPL-3.0-only")
    (True, False)
    """
    return all(
        any(choice.strip(" ()") in ALLOWED for choice in re.split(r"\bOR\b", part))
        for part in re.split(r"\bAND\b", expression)
    )


def listing(packages: Mapping[str, str]) -> str:
    """Return the packages by license, in Markdown."""
    names = defaultdict(list)
    for name, text in packages.items():
        names[text].append(name)
    rows = [f"| {text} | {', '.join(names[text])} |" for text in sorted(names, key=str.lower)]
    return "\n".join(["| license | packages |", "|---|---|", *rows]) + "\n"


def listed(page: str) -> dict[str, str]:
    """Return the packages of the list in a page, with their licenses."""
    text = page.partition(BEGIN)[2].partition(END)[0]
    rows = re.findall(r"^\| (?!license)([^|]+) \| ([^|]+) \|$", text, re.MULTILINE)
    return {name: stated for stated, names in rows for name in names.split(", ")}


def problems(packages: Mapping[str, str], direct: Iterable[Requirement], page: str) -> list[str]:
    """Return what is wrong: licenses that are not allowed, requirements that are not listed.

    What requirements require in turn may change any day, so that the list may lack some of it.
    """
    refused = [f"{name}: {text}" for name, text in packages.items() if not is_allowed(text)]
    missing = {canonicalize_name(each.name) for each in direct} - set(listed(page))
    return [f"not an allowed license: {each}" for each in refused] + [
        f"{PAGE.name} does not list {name}; run: python scripts/licenses.py --write"
        for name in sorted(missing)
    ]


def main() -> None:
    """Check the licenses, or write the list."""
    direct = runtime_requirements()
    packages = installed_packages(direct)
    page = PAGE.read_text(encoding="utf-8")
    if "--write" in sys.argv[1:]:
        before, _, rest = page.partition(BEGIN)
        page = before + BEGIN + listing(packages) + END + rest.partition(END)[2]
        PAGE.write_text(page, encoding="utf-8")
    found = problems(packages, direct, page)
    for each in found:
        print(each, file=sys.stderr)
    print(f"{len(packages)} packages, {len(found)} problems with licenses")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
