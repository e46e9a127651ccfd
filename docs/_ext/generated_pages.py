"""Write the parts of the reference that the code determines: settings, and HTTP schemas."""

from __future__ import annotations

import inspect
import json
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from sphinx.application import Sphinx

import fivestar
from fivestar.models.options import options_of
from fivestar.models.registry import MODELS
from fivestar.runs.settings import ModelSettings, TrainingSettings
from fivestar.server.app import make_app
from fivestar.server.settings import ServerSettings


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a Markdown table."""
    lines = [head, ("---",) * len(head), *rows]
    cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells) + "\n"


def code(value: object) -> str:
    """Return a value as inline code."""
    return f"`{value}`"


def kind(annotation: Any) -> str:
    """Return a type, or the choices of a literal."""
    if get_origin(annotation) is Literal:
        return ", ".join(map(code, get_args(annotation)))
    if get_origin(annotation) is tuple:
        return "list of integers"
    return code(inspect.formatannotation(annotation))


def settings_page() -> str:
    """Return the settings of training, and the options of each model."""
    parts = []
    for title, section in (("model", ModelSettings), ("training", TrainingSettings)):
        rows = [
            (
                code(name),
                kind(field.annotation),
                code(json.dumps(field.default)),
                field.description or "",
            )
            for name, field in section.model_fields.items()
        ]
        parts += [f"## [{title}]\n", table(("setting", "type", "default", "meaning"), rows)]
    parts.append("## Options of the models\n\nIn the section `[model]`, beside `name` and `dim`.\n")
    for name in MODELS:
        options = options_of(MODELS[name])
        if options:
            rows = [
                (
                    code(key),
                    ", ".join(map(code, option.choices)) or code(option.type.__name__),
                    code(json.dumps(option.default)),
                    option.description,
                )
                for key, option in options.items()
            ]
            head = ("option", "type or choices", "default", "meaning")
            parts += [f"### {name}\n", table(head, rows)]
    return "\n".join(parts)


def openapi() -> dict[str, Any]:
    """Return the OpenAPI document of a server with a small model."""
    facts = [(a, "next", b) for a in "abcd" for b in "abcd" if a != b]
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        fivestar.train(facts, dim=4, epochs=1, out=run, progress=False)
        guard = make_app(ServerSettings(runs=[run]))
        application = guard.app
        document: dict[str, Any] = application.openapi()  # type: ignore[attr-defined]
        application.state.service.close()  # type: ignore[attr-defined]
        return document


def type_of(schema: dict[str, Any]) -> str:
    """Return the type of a schema in a few words."""
    if "$ref" in schema:
        return schema["$ref"].rpartition("/")[2]
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(type_of(inner) for inner in schema[key])
    if "enum" in schema:
        return ", ".join(json.dumps(value) for value in schema["enum"])
    if "const" in schema:
        return json.dumps(schema["const"])
    if schema.get("type") == "array":
        inner = schema.get("items") or {"type": "fixed"}
        return f"array of {type_of(inner)}"
    return str(schema.get("type", "any"))


def http_page(document: dict[str, Any]) -> str:
    """Return every request with its parameters, and every schema with its fields."""
    return "\n".join(["## Requests\n", *_requests(document), "## Schemas\n", *_schemas(document)])


def link(name: str) -> str:
    """Return a link to a schema of the page; other types as they are."""
    return f"[{name}](#{name.lower()})" if name[0].isupper() else name


def _requests(document: dict[str, Any]) -> Iterator[str]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            about = operation.get("description", operation["summary"]).partition("\n\n")[0]
            yield f"### {method.upper()} {path}\n\n{about}\n"
            rows = [
                (code(p["name"]), type_of(p["schema"]), "yes" if p.get("required") else "")
                for p in operation.get("parameters", [])
            ]
            if rows:
                yield table(("parameter", "type", "required"), rows)
            body = operation.get("requestBody", {}).get("content", {})
            for content in body.values():
                yield f"Body: {link(type_of(content['schema']))}.\n"
            for media, content in operation["responses"]["200"].get("content", {}).items():
                yield f"Response: {link(type_of(content.get('schema', {})))} ({media}).\n"


def _schemas(document: dict[str, Any]) -> Iterator[str]:
    for name, schema in sorted(document["components"]["schemas"].items()):
        yield f"### {name}\n"
        if schema.get("description"):
            yield schema["description"].partition("\n\n")[0] + "\n"
        required = schema.get("required", [])
        rows = [
            (
                code(field),
                type_of(value),
                "yes" if field in required else "",
                value.get("description", ""),
            )
            for field, value in schema.get("properties", {}).items()
        ]
        if rows:
            yield table(("field", "type", "always there", "meaning"), rows)


def write_pages(app: Sphinx) -> None:
    """Write the pages before Sphinx reads the sources; unchanged ones are left alone."""
    folder = Path(app.srcdir) / "reference" / "generated"
    folder.mkdir(exist_ok=True)
    document = openapi()
    pages = {
        "settings.md": settings_page(),
        "http.md": http_page(document),
        "openapi.json": json.dumps(document, indent=1, ensure_ascii=False),
    }
    for name, text in pages.items():
        path = folder / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", write_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
