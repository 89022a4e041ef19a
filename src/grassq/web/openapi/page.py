"""The page about the HTTP API, written from the OpenAPI document."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import get_args

from grassq.web.access.description import Group
from grassq.web.openapi.document import NEEDS, REFUSALS
from grassq.web.openapi.types import REFERENCE, Schema


def http_page(introduction: str, document: str) -> str:
    """Return the page: how to ask, every route in its group, and every type."""
    api: Schema = json.loads(document)
    parts = [introduction, "## Refusals", _refusals(), "## Needs", _needs()]
    for group in get_args(Group):
        asked = [each for each in _operations(api) if each[2]["tags"] == [group]]
        if asked:
            parts += [f"## {group.capitalize()}", _routes_table(asked)]
            parts += [_route(*each) for each in asked]
    parts.append("## Types")
    parts += [_type(name, schema) for name, schema in api["components"]["schemas"].items()]
    return "\n\n".join(parts) + "\n"


def _operations(api: Schema) -> Iterator[tuple[str, str, Schema]]:
    for path, methods in api["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def _refusals() -> str:
    rows = [f"| {status} | {_cell(meaning)} |" for status, meaning in REFUSALS.items()]
    return "\n".join(["| status | meaning |", "|---|---|", *rows])


def _needs() -> str:
    rows = [f"| {need} | {_cell(words)} |" for need, words in NEEDS.items()]
    return "\n".join(["| need | who may |", "|---|---|", *rows])


def _routes_table(asked: list[tuple[str, str, Schema]]) -> str:
    rows = [
        f"| [{method} {path}](#{_anchor(f'{method} {path}')}) | {each['x-need']} | {_cell(each['summary'])} |"
        for method, path, each in asked
    ]
    return "\n".join(["| route | need | what it does |", "|---|---|---|", *rows])


def _route(method: str, path: str, operation: Schema) -> str:
    lines = [f"### {method} {path}", f"{operation['summary']}. {operation['description']}"]
    if operation["parameters"]:
        rows = [_parameter(each) for each in operation["parameters"]]
        lines.append("\n".join(["| parameter | type | default | meaning |", "|---|---|---|---|", *rows]))
    if "requestBody" in operation:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        lines.append(f"Body: {_kind(schema)}.")
    lines.append(_answer(operation["responses"]))
    return "\n\n".join(lines)


def _parameter(each: Schema) -> str:
    default = "required" if each["required"] else f"`{each['schema'].get('default', '')}`".replace("``", "")
    return f"| `{each['name']}` | {_kind(each['schema'])} | {_cell(default)} | {_cell(each['description'])} |"


def _answer(responses: Schema) -> str:
    if "101" in responses:
        found = responses["101"]
        frames = f" Frames: {_kind(found['x-frames'])}." if "x-frames" in found else ""
        sent = f" The client sends: {_kind(found['x-sent'])}." if "x-sent" in found else ""
        return f"Answer: a WebSocket.{frames}{sent}"
    [(media, content)] = responses["200"]["content"].items()
    if "schema" not in content:
        return f"Answer: `{media}`."
    each = "lines of JSON, each of them " if media == "application/x-ndjson" else ""
    return f"Answer: {each}{_kind(content['schema'])}."


def _type(name: str, schema: Schema) -> str:
    lines = [f"### {name}"]
    if "description" in schema:
        lines.append(schema["description"])
    if "enum" in schema:
        lines.append("One of " + ", ".join(f"`{each}`" for each in schema["enum"]) + ".")
    elif "anyOf" in schema:
        lines.append(f"{_kind(schema)}.")
    if schema.get("properties"):
        required = schema.get("required", [])
        rows = [
            f"| `{field}` | {_kind(each)} | {'' if field in required else _default(each)} | "
            f"{_cell(each.get('description', ''))} |"
            for field, each in schema["properties"].items()
        ]
        lines.append("\n".join(["| field | type | may be missing | meaning |", "|---|---|---|---|", *rows]))
    return "\n\n".join(lines)


def _default(schema: Schema) -> str:
    return _cell(f"yes: `{json.dumps(schema['default'])}`") if "default" in schema else "yes"


def _kind(schema: Schema) -> str:
    """Return a type in words, with links to named types."""
    if "$ref" in schema:
        name = str(schema["$ref"]).removeprefix(REFERENCE)
        return f"[{name}](#{_anchor(name)})"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(_kind, schema["anyOf"])))
    if "enum" in schema:
        return " or ".join(f"`{each}`" for each in schema["enum"])
    match schema.get("type"):
        case "array" if "prefixItems" in schema:
            return f"list of ({', '.join(map(_kind, schema['prefixItems']))})"
        case "array":
            return f"list of {_kind(schema['items'])}" if schema.get("items") else "list"
        case "object" if isinstance(schema.get("additionalProperties"), dict):
            return f"{_kind(schema['additionalProperties'])} by name"
        case str(kind):
            return kind
    return "anything"


def _anchor(heading: str) -> str:
    kept = "".join(c for c in heading.lower() if c.isalnum() or c in " -_")
    return kept.replace(" ", "-")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
