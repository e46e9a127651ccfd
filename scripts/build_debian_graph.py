"""Build the graph of the tutorial: packages of Debian, what they need and what they are.

    python scripts/build_debian_graph.py Packages copyrights docs/tutorial/debian.csv.gz

`Packages` is the index of a Debian release, as every mirror has it (dists/bookworm/main/
binary-amd64/Packages.xz, decompressed); `copyrights` is a folder like /usr/share/doc, with a file
`copyright` per installed package. The graph has the packages that most others depend on; licenses
only of those that are installed. People are not in it: a maintainer is listed only if it is a team.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

NUM_PACKAGES = 1500
LINKS = {"Depends": "depends_on", "Pre-Depends": "depends_on", "Recommends": "recommends"}
# Debtags that say something about many packages (https://debtags.debian.org).
TAGS = {
    "role": "has_role",
    "implemented-in": "implemented_in",
    "devel": "for_developers",
    "works-with": "works_with",
    "use": "used_for",
    "uitoolkit": "uses_toolkit",
    "field": "in_field",
    "culture": "for_culture",
}
TEAM = re.compile(
    r"\b(Team|Group|Maintainers?|Project|Force|Packaging|Committee|Perl|OpenStack)\b", re.IGNORECASE
)
# A name, and a text that goes over indented lines.
RARE = 3  # values that fewer packages have are omitted

Package = dict[str, str]
Fact = tuple[str, str, str]


def read_packages(text: str) -> dict[str, Package]:
    """Return the fields of each package by its name; the newest version is the last."""
    packages = {}
    for paragraph in text.split("\n\n"):
        fields = dict(
            re.findall(r"^([\w-]+): ?((?:.*\n?)(?:[ \t].*\n?)*)", paragraph, re.MULTILINE)
        )
        if "Package" in fields:
            packages[fields["Package"].strip()] = {k: v.strip() for k, v in fields.items()}
    return packages


def links(package: Package) -> Iterator[tuple[str, str]]:
    """Yield (relation, other package); of alternatives, the first."""
    for field, relation in LINKS.items():
        for clause in package.get(field, "").split(","):
            name = re.match(r"\s*([a-z0-9][a-z0-9+.-]+)", clause)
            if name:
                yield relation, name[1]


def properties(package: Package) -> Iterator[tuple[str, str]]:
    """Yield (relation, value): section, source, team and tags."""
    yield "in_section", f"section:{package['Section']}"
    yield "built_from", f"source:{package.get('Source', package['Package']).split()[0]}"
    maintainer = re.sub(r"\s*<.*|\"", "", package["Maintainer"]).strip()
    if TEAM.search(maintainer):
        yield "maintained_by", f"team:{maintainer.removeprefix('Debian ')}"
    for tag in re.split(r",\s*", package.get("Tag", "")):
        facet, _, value = tag.partition("::")
        if facet in TAGS and value and value != "TODO":
            yield TAGS[facet], f"{facet}:{value}"


def licenses(path: Path) -> set[str]:
    """Return the short names of licenses in a machine-readable copyright file (DEP-5)."""
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    if "copyright-format" not in text[:300]:
        return set()
    names = re.findall(r"^License: *(\S.*)$", text, re.MULTILINE)
    parts = [part for name in names for part in re.split(r",? (?:and|or|with)\b.*| ", name)]
    # Names of one person's own terms end in -PD.
    named = re.compile(r"[A-Za-z][\w.+-]*[\w+](?<!-PD)")
    return {f"license:{part}" for part in parts if named.fullmatch(part)}


def build(packages: dict[str, Package], copyrights: Path) -> list[Fact]:
    """Return the facts of the packages that most others depend on."""
    needed = Counter(name for package in packages.values() for _, name in set(links(package)))
    chosen = {name for name, _ in needed.most_common() if name in packages}
    chosen = set(sorted(chosen, key=lambda name: (-needed[name], name))[:NUM_PACKAGES])
    facts: set[Fact] = set()
    values: set[Fact] = set()
    for name in chosen:
        facts |= {(name, r, other) for r, other in links(packages[name]) if other in chosen}
        values |= {(name, r, value) for r, value in properties(packages[name])}
        values |= {(name, "has_license", v) for v in licenses(copyrights / name / "copyright")}
    facts = {fact for fact in facts if fact[0] != fact[2]}
    counts = Counter(value for _, _, value in values)
    return sorted(facts | {fact for fact in values if counts[fact[2]] >= RARE})


def main() -> None:
    """Build the graph from the files given on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("packages", type=Path)
    parser.add_argument("copyrights", type=Path)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    facts = build(read_packages(arguments.packages.read_text("utf-8")), arguments.copyrights)
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([("subject", "predicate", "object"), *facts])
    # Without name and time in the header the same facts are the same bytes.
    with arguments.out.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as file:
        file.write(text.getvalue().encode())
    print(f"{len(facts):,} facts, {len({e for h, _, t in facts for e in (h, t)}):,} entities")


if __name__ == "__main__":
    main()
