"""Checks answers of a broker against its OpenAPI document, and notes which parameters handlers ask for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp import web
from aiohttp.web_request import BaseRequest
from docs.generate import ROOT

Schema = dict[str, Any]
#: What JSON calls the types of Python.
KINDS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


class ApiCheck:
    """The document in docs/reference, and which of its routes were seen to answer."""

    def __init__(self) -> None:
        self.api: Schema = json.loads((ROOT / "docs" / "reference" / "openapi.json").read_text())
        self.answered: set[tuple[str, str]] = set()

    @property
    def operations(self) -> dict[tuple[str, str], Schema]:
        """Every route by method and path."""
        return {
            (method.upper(), path): operation
            for path, methods in self.api["paths"].items()
            for method, operation in methods.items()
        }

    def template(self, method: str, path: str) -> str:
        """The described path of a request; of several, the one with the fewest variable parts."""
        path = path.partition("?")[0]
        fitting = [
            known
            for (asked, known), operation in self.operations.items()
            if asked == method and re.fullmatch(_pattern(known, operation), path)
        ]
        assert fitting, f"{method} {path} is not described"
        return min(fitting, key=lambda known: (known.count("{"), known))

    def check(self, method: str, path: str, status: int, media: str, body: bytes) -> Any:
        """Raise AssertionError unless the route may answer so; return the answer."""
        template = self.template(method, path)
        where = f"{method} {path}"
        if status >= 400:
            assert status in (503, *range(400, 500)), f"{where} answers {status}: {body[:300]!r}"
            assert media == "application/json", where
            answer = json.loads(body)
            self.conform(self.api["components"]["responses"]["Refusal"]["content"][media]["schema"], answer, where)
            return answer
        content = self.operations[method, template]["responses"][str(status)]["content"]
        media = "*/*" if "*/*" in content else media
        assert media in content, f"{where} answers {media} instead of {list(content)}"
        self.answered.add((method, template))
        if "schema" not in content[media]:
            return body
        lines = body.splitlines() if media == "application/x-ndjson" else [body]
        for line in lines:
            self.conform(content[media]["schema"], json.loads(line), where)
        return json.loads(body) if media == "application/json" else [json.loads(line) for line in lines]

    def frame(self, path: str, message: Any) -> None:
        """Check what a WebSocket sends."""
        found = self.operations["GET", path]["responses"]["101"]
        self.conform(found["x-frames"], message, path)
        self.answered.add(("GET", path))

    def conform(self, schema: Schema, value: Any, where: str) -> None:
        """Raise AssertionError unless a value has the described type; an object has no field that is not described."""
        faults = list(self._faults(schema, value, where))
        assert not faults, "\n".join(faults[:10])

    def _faults(self, schema: Schema, value: Any, where: str) -> Iterator[str]:
        if "$ref" in schema:
            schema = self.api["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        if "anyOf" in schema:
            every = [list(self._faults(each, value, where)) for each in schema["anyOf"]]
            if all(every):
                yield from min(every, key=len)
            return
        if "enum" in schema:
            if value not in schema["enum"]:
                yield f"{where} is {value!r}, none of {schema['enum']}"
            return
        kind = schema.get("type")
        if kind is not None and (not isinstance(value, KINDS[kind]) or (isinstance(value, bool) and kind != "boolean")):
            yield f"{where} is {value!r}, no {kind}"
        elif kind == "array":
            items = schema.get("prefixItems") or [schema.get("items") or {}] * len(value)
            if len(items) != len(value):
                yield f"{where} has {len(value)} parts instead of {len(items)}"
            for at, (part, each) in enumerate(zip(items, value, strict=False)):
                yield from self._faults(part, each, f"{where}[{at}]")
        elif kind == "object":
            yield from self._field_faults(schema, value, where)

    def _field_faults(self, schema: Schema, value: dict[str, Any], where: str) -> Iterator[str]:
        known = schema.get("properties", {})
        for name in schema.get("required", []):
            if name not in value:
                yield f"{where}.{name} is missing"
        for name, each in value.items():
            rest = schema.get("additionalProperties", False)
            if name in known:
                yield from self._faults(known[name], each, f"{where}.{name}")
            elif not isinstance(rest, dict):
                yield f"{where}.{name} is not described"
            else:
                yield from self._faults(rest, each, f"{where}.{name}")


def _pattern(path: str, operation: Schema) -> str:
    """The regular expression of a described path."""
    parts = {each["name"]: each["schema"] for each in operation["parameters"] if each["in"] == "path"}
    patterns = {name: schema.get("pattern", "[^/]+").strip("^$") for name, schema in parts.items()}
    return "".join(patterns.get(word, re.escape(word)) for word in re.split(r"\{(\w+)\}", path))


class AskedNames:
    """The names that each route asks of queries; by method and path."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: dict[tuple[str, str], set[str]] = {}
        notes = self

        def query(request: web.Request) -> Any:
            resource = request.match_info.route.resource
            path = "" if resource is None else resource.canonical
            return _NotedQuery(request.rel_url.query, notes.names.setdefault((request.method, path), set()))

        monkeypatch.setattr(BaseRequest, "query", property(query))


class _NotedQuery:
    """A query that notes what is asked of it."""

    def __init__(self, query: Any, names: set[str]) -> None:
        self._query, self._names = query, names

    def get(self, name: str, default: Any = None) -> Any:
        self._names.add(name)
        return self._query.get(name, default)

    def getall(self, name: str, default: Any = None) -> Any:
        self._names.add(name)
        return self._query.getall(name, default)

    def __getitem__(self, name: str) -> Any:
        self._names.add(name)
        return self._query[name]

    def __contains__(self, name: str) -> bool:
        self._names.add(name)
        return name in self._query

    def __iter__(self) -> Iterator[str]:
        return iter(self._query)

    def __len__(self) -> int:
        return len(self._query)
