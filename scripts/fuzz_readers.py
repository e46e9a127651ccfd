"""Fuzz all readers: none may crash, hang, or lose a statement silently.

With atheris installed the fuzzer is guided by coverage, else mutations are random. Inputs that make
a reader fail are saved in the folder --findings.

    python scripts/fuzz_readers.py --seconds 60
    python scripts/fuzz_readers.py --seconds 60 --only nt ttl --engine random
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType

import pyarrow as pa
import pyarrow.parquet as pq

from fivestar.errors import FivestarError, GraphWarning
from fivestar.graph.readers import streams
from fivestar.graph.reading import read_graph

RDFS = b"http://www.w3.org/2000/01/rdf-schema#"
NT = (
    b"<http://x/a> <http://x/r> <http://x/b> .\n"
    b"<http://x/a> <" + RDFS + b'label> "A \\"quoted\\" \\u00e9"@en-GB .\n'
    b"_:n <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://x/T> .\n"
    b'# a comment\n\n<http://x/a> <http://x/s> "5"^^<http://x/integer> .\r\n'
    b"_:n <http://x/r> <urn:fivestar:entity:New%20York> .\n"
)
TTL = (
    b"@prefix : <http://x/> . @base <http://y/> .\n:a :r :b , [ :s ( 1 2.5 true ) ] ;\n  a :T .\n"
    b'<c> :r """long\n"text"""@en , \'x\'^^:t . _:n :r :a .\n'
)
RDF_XML = (
    b'<?xml version="1.0"?><!DOCTYPE rdf:RDF [<!ENTITY x "http://x/">]>\n'
    b'<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="http://x/">'
    b'<rdf:Description rdf:about="&x;a"><e:r rdf:resource="http://x/b"/><e:s>text</e:s>'
    b'<e:t rdf:parseType="Collection"><e:T/></e:t></rdf:Description></rdf:RDF>'
)
JSON_LD = (
    b'{"@context": {"r": {"@id": "http://x/r", "@type": "@id"}, "@vocab": "http://v/"}, "@graph": ['
    b'{"@id": "http://x/a", "r": ["http://x/b", "_:n"], "@type": "T", "name": {"@value": "n"}},'
    b'{"@id": "_:n", "list": {"@list": [1, null, {"@id": "http://x/c"}]}}]}'
)
SRJ = (
    b'{"head": {"vars": ["s", "p", "o"]}, "results": {"bindings": [{"s": {"type": "uri", "value": '
    b'"http://x/a"}, "p": {"type": "uri", "value": "http://x/r"}, "o": {"type": "bnode", "value": '
    b'"n"}}, {"s": {"type": "bnode", "value": "n"}, "p": {"type": "uri", "value": "http://x/r"}, '
    b'"o": {"type": "literal", "value": "v", "xml:lang": "en"}}]}}'
)
SRX = (
    b'<?xml version="1.0"?><sparql xmlns="http://www.w3.org/2005/sparql-results#"><head>'
    b'<variable name="s"/><variable name="p"/><variable name="o"/></head><results><result>'
    b'<binding name="s"><uri>http://x/a</uri></binding><binding name="p"><uri>http://x/r</uri>'
    b'</binding><binding name="o"><literal xml:lang="en">v</literal></binding></result><result>'
    b'<binding name="s"><uri>http://x/a</uri></binding><binding name="p"><uri>http://x/r</uri>'
    b'</binding><binding name="o"><bnode>n</bnode></binding></result></results></sparql>'
)
TABLE = pa.table(
    {
        "head": ["a", "b", "c"],
        "relation": pa.array(["r", "r", "s"]).dictionary_encode(),
        "tail": [1, 2, 3],
        "split": ["train", "dev", "test"],
    }
)
TOKENS = (
    *(b"<", b">", b"<<(", b")>>", b'"', b"'''", b"\\", b"\\u0041", b"_:n", b"@en", b"^^", b" .\n"),
    *(b"{", b"}", b"[", b"]", b"\0", b"\xff", b"\xef\xbb\xbf", b"\r", b"\n", b"\t", b" ", b"# x\n"),
    *(b"<http://x/a>", b"@prefix", b"@base", b"&x;", b"<!ENTITY y '&x;'>", b"-->", b"null", b"1e9"),
    *(b'"@id":', b'"@context":', b'"@graph":', b"<urn:fivestar:split:valid>", b"PAR1", b"99999999"),
)
# Small blocks, so that small files have several.
BLOCK_BYTES = 2_048
OPENKE_MARK = b"\n====\n"


def _parquet() -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(TABLE, sink)
    return bytes(sink.getvalue())


def _arrow() -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, TABLE.schema) as writer:
        writer.write_table(TABLE)
    return bytes(sink.getvalue())


SEEDS: dict[str, bytes] = {
    "tsv": b"head\trelation\ttail\na\tr\tb\nb\tr\tc\n",
    "csv": b'"a, b",r,"say ""hi"""\nb,r,c\n',
    "nt": NT,
    "nq": NT.replace(b"<http://x/b> .", b"<http://x/b> <http://x/g> ."),
    "ttl": TTL,
    "trig": TTL + b":g { :a :r :c } GRAPH <urn:fivestar:split:valid> { :a :r :d . }\n",
    "rdf": RDF_XML,
    "jsonld": JSON_LD,
    "srj": SRJ,
    "srx": SRX,
    "parquet": _parquet(),
    "arrow": _arrow(),
    "nt.gz": gzip.compress(NT, mtime=0),
    "openke": OPENKE_MARK.join([b"3\na\t0\nb\t1\nc\t2\n", b"1\nr\t0\n", b"2\n0 1 0\n1 2 0\n"]),
    "labels": b"a\tAnne\nb\tBert\n",
}


class LostStatement(Exception):  # noqa: N818
    """The counts of a report do not add up."""


def check(kind: str, content: bytes, folder: Path) -> str:
    """Read a file with several options; return "read" or "refused" for the default options."""
    source = _write_source(kind, content, folder)
    outcome = "read"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphWarning)
        for options in (
            {},
            {"on_bad_line": "skip", "literals": "keep", "types": "triples"},
            {"on_bad_line": "skip", "graphs": ["default"]},
        ):
            try:
                graph = read_graph(source, **options)  # type: ignore[arg-type]
            except FivestarError:
                outcome = outcome if options else "refused"
                continue
            _check_counts(graph)
    return outcome


def _write_source(kind: str, content: bytes, folder: Path) -> Path:
    if kind == "openke":
        parts = [*content.split(OPENKE_MARK), b"", b"", b""][:3]
        for name, part in zip(("entity2id", "relation2id", "train2id"), parts, strict=True):
            (folder / f"{name}.txt").write_bytes(part)
        return folder
    if kind == "labels":
        (folder / "train.tsv").write_bytes(b"a\tr\tb\n")
        (folder / "entity_labels.tsv").write_bytes(content)
        (folder / "entity_types.tsv").write_bytes(content)
        return folder
    path = folder / f"graph.{kind}"
    path.write_bytes(content)
    return path


def _check_counts(graph: object) -> None:
    for report in graph.report.splits.values():  # type: ignore[attr-defined]
        counted = report.headers + report.blanks + report.bad_lines + report.triples
        counted += report.duplicates + report.literals + report.labels + report.types
        if report.lines != counted + report.other_graphs:
            raise LostStatement(f"{report}")


def mutated(seeds: list[bytes], rng: random.Random) -> bytes:
    """Return a seed with random mutations."""
    content = bytearray(rng.choice(seeds))
    for _ in range(rng.choice((0, 1, 1, 2, 3, 5, 9))):
        start = rng.randrange(len(content) + 1)
        end = min(len(content), start + rng.choice((1, 1, 2, 5, 20, 100)))
        match rng.randrange(7):
            case 0:
                content[start:end] = rng.choice(TOKENS)
            case 1:
                content[start:start] = rng.choice(TOKENS)
            case 2:
                del content[start:end]
            case 3:
                content[start:start] = content[start:end] * rng.choice((1, 2, 9, 300))
            case 4:
                content[start:end] = rng.randbytes(end - start)
            case 5:
                other = rng.choice(seeds)
                content[start:] = other[rng.randrange(len(other) + 1) :]
            case _:
                del content[start:]
    return bytes(content)


def fuzz_at_random(kind: str, seconds: float, seed: int, note: Path) -> tuple[int, int]:
    """Fuzz at random; return the number of inputs, and of those that were read."""
    rng = random.Random(seed)  # noqa: S311
    seeds = [SEEDS[kind], *(rng.sample(list(SEEDS.values()), 2))]
    seeds += [SEEDS[kind]] * 6  # mostly of its own format
    tried = read = 0
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() < end:
            content = mutated(seeds, rng)
            note.write_bytes(content)
            read += check(kind, content, Path(folder)) == "read"
            tried += 1
    return tried, read


def fuzz_by_coverage(kind: str, seconds: float, seed: int, note: Path) -> None:
    """Fuzz with atheris, which ends the process at the end or at a failure."""
    import atheris  # noqa: PLC0415

    folder = Path(tempfile.mkdtemp())
    corpus = folder / "corpus"
    corpus.mkdir()
    (corpus / "seed").write_bytes(SEEDS[kind])
    dictionary = folder / "dictionary"
    dictionary.write_text(
        "".join('"' + "".join(f"\\x{b:02x}" for b in token) + '"\n' for token in TOKENS)
    )

    def run(content: bytes) -> None:
        note.write_bytes(content)
        check(kind, content, folder)

    options = [f"-max_total_time={int(seconds)}", f"-seed={seed + 1}", f"-dict={dictionary}"]
    options += ["-timeout=20", "-rss_limit_mb=3000", "-print_final_stats=1", "-max_len=20000"]
    for function in _our_functions():
        atheris.instrument_func(function)
    atheris.Setup([sys.argv[0], *options, str(corpus)], run)
    atheris.Fuzz()


def _our_functions() -> Iterator[FunctionType]:
    """Yield all functions and methods of fivestar.graph."""
    for name, module in list(sys.modules.items()):
        if name.startswith("fivestar.graph"):
            for value in vars(module).values():
                members = vars(value).values() if isinstance(value, type) else (value,)
                for member in members:
                    if isinstance(member, FunctionType) and member.__module__ == name:
                        yield member


def run_all(kinds: list[str], seconds: float, engine: str, seed: int, findings: Path) -> int:
    """Fuzz each reader in a process of its own, so that crashes are detected and isolated."""
    findings.mkdir(parents=True, exist_ok=True)
    num_failures = total = 0
    for kind in kinds:
        note = findings / f"last-{kind}"
        command = [sys.executable, __file__, "--worker", kind, "--seconds", str(seconds)]
        command += ["--seed", str(seed), "--engine", engine, "--findings", str(note)]
        try:
            done = subprocess.run(  # noqa: S603
                command, capture_output=True, text=True, timeout=seconds + 120, check=False
            )
            failed, output = done.returncode != 0, done.stderr
            tried, details = _summary(done.stdout, done.stderr)
        except subprocess.TimeoutExpired:
            failed, output, tried, details = True, "hangs", 0, ""
        total += tried
        if failed:
            num_failures += 1
            saved = findings / f"{kind}-{seed}-{time.time_ns()}"
            if note.exists():
                note.rename(saved)
            print(f"{kind}: FAILED, see {saved}\n{output[-3000:]}")
        else:
            note.unlink(missing_ok=True)
            print(f"{kind}: {tried:,} inputs{details}", flush=True)
    print(f"{total:,} inputs, {num_failures} findings")
    return num_failures


def _summary(stdout: str, stderr: str) -> tuple[int, str]:
    for line in stderr.splitlines():
        if line.startswith("stat::number_of_executed_units:"):
            return int(line.split()[-1]), " (by coverage)"
    try:
        tried, read = json.loads(stdout)
    except ValueError:
        return 0, ""
    return tried, f", {read:,} of them read without an error"


def _engine(name: str) -> str:
    if name != "auto":
        return name
    try:
        import atheris  # noqa: F401, PLC0415
    except ImportError:
        return "random"
    return "coverage"


def main() -> None:
    """Run the fuzzer from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20, help="Seconds per reader.")
    parser.add_argument("--only", nargs="+", choices=list(SEEDS), default=list(SEEDS))
    parser.add_argument("--engine", choices=["auto", "coverage", "random"], default="auto")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--findings", type=Path, default=Path("fuzz-findings"))
    parser.add_argument("--worker", choices=list(SEEDS), help=argparse.SUPPRESS)
    given = parser.parse_args()
    streams.BLOCK_BYTES = BLOCK_BYTES
    engine = _engine(given.engine)
    if given.worker is None:
        sys.exit(bool(run_all(given.only, given.seconds, engine, given.seed, given.findings)))
    run: dict[str, Callable[[str, float, int, Path], object]] = {
        "coverage": fuzz_by_coverage,
        "random": fuzz_at_random,
    }
    print(json.dumps(run[engine](given.worker, given.seconds, given.seed, given.findings)))


if __name__ == "__main__":
    main()
