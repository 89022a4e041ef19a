"""The schemas of types: named, with the fields in the order of the source and with the comments above them."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterable, Mapping
from types import UnionType
from typing import Any, get_args, is_typeddict

import msgspec

Schema = dict[str, Any]

REFERENCE = "#/components/schemas/"
#: Names of types end so in Python, where other things have the plain name.
SUFFIX = "Document"
#: What msgspec is told of a value that may be anything; it takes no empty schema.
_ANYTHING = "x-anything"
_FIELD = re.compile(r"((?:^    #: .*\n)+)^    (\w+):", re.MULTILINE)
_BASES = re.compile(r"^class \w+\(([^)]*)\)", re.MULTILINE)


def schemas_of(kinds: Iterable[object]) -> tuple[list[Schema], dict[str, Schema]]:
    """Return the schema of each type, and the named schemas that these refer to.

    A type may be a union of such types: msgspec, which could not tell them apart, takes no union of two of them.
    """
    wanted = [_members(kind) for kind in kinds]
    members = list({repr(each): each for some in wanted for each in some}.values())
    plain, named = msgspec.json.schema_components(
        members, ref_template=REFERENCE + "{name}", schema_hook=lambda kind: {_ANYTHING: True}
    )
    classes = {kind.__name__: kind for kind in _classes(members)}
    for name, schema in named.items():
        if name in classes and "properties" in schema:
            _describe_fields(schema, classes[name])
    found = {repr(each): _clean(schema) for each, schema in zip(members, plain, strict=True)}
    schemas = [
        found[repr(some[0])] if len(some) == 1 else {"anyOf": [found[repr(each)] for each in some]} for some in wanted
    ]
    return schemas, {_short(name): _clean(schema) for name, schema in sorted(named.items())}


def _members(kind: object) -> list[object]:
    return list(get_args(kind)) if isinstance(kind, UnionType) else [kind]


def _short(name: str) -> str:
    return name.removesuffix(SUFFIX)


def _clean(schema: Any) -> Any:
    """Return a schema with the short names, and without what is only for msgspec."""
    if isinstance(schema, list):
        return [_clean(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _clean(value) for key, value in schema.items() if key != _ANYTHING}
    if isinstance(reference := found.get("$ref"), str):
        found["$ref"] = REFERENCE + _short(reference.removeprefix(REFERENCE))
    if isinstance(title := found.get("title"), str):
        found["title"] = _short(title)
    return found


def _describe_fields(schema: Schema, kind: type) -> None:
    """Put the fields of a class into the order of its source, each with the comment above it."""
    comments, properties = comments_of(kind), schema["properties"]
    ordered = [name for name in getattr(kind, "__annotations__", {}) if name in properties]
    schema["properties"] = {name: properties[name] for name in dict.fromkeys([*ordered, *properties])}
    for name, words in comments.items():
        if name in properties:
            properties[name].setdefault("description", words)
    if "required" in schema:
        schema["required"] = [name for name in schema["properties"] if name in schema["required"]]


def comments_of(kind: type) -> dict[str, str]:
    """Return the comment above each field of a class and of its bases; none if there is no source."""
    source = _source(kind)
    found: dict[str, str] = {}
    for base in _bases(kind, source):
        if base.__module__.startswith("grassq."):
            found |= comments_of(base)
    for comment, name in _FIELD.findall(source):
        found[name] = " ".join(line.strip().removeprefix("#:").strip() for line in comment.splitlines())
    return found


def _source(kind: type) -> str:
    """Return the source of a class at the top of its module; "" if there is none.

    `inspect.getsource` parses the whole module again for every class, which takes seconds for all of them.
    """
    try:
        text = inspect.getsource(sys.modules[kind.__module__])
    except (OSError, TypeError):
        return ""
    found = re.search(rf"^class {kind.__name__}\b.*\n(?:(?:[ \t].*)?\n)*", text, re.MULTILINE)
    return "" if found is None else found[0]


def _bases(kind: type, source: str) -> list[type]:
    if not is_typeddict(kind):
        return list(kind.__bases__)
    # A TypedDict does not tell its bases before Python 3.12.
    module = vars(sys.modules[kind.__module__])
    names = [name.strip() for found in _BASES.findall(source)[:1] for name in found.split(",")]
    return [base for name in names if inspect.isclass(base := module.get(name))]


def _classes(kinds: Iterable[object]) -> set[type]:
    """Return the classes with fields that types are made of."""
    found: set[type] = set()
    queue: list[object] = list(msgspec.inspect.multi_type_info(kinds))
    seen: set[int] = set()
    while queue:
        info = queue.pop()
        if id(info) in seen:
            continue
        seen.add(id(info))
        if isinstance(info, msgspec.inspect.StructType | msgspec.inspect.TypedDictType):
            found.add(info.cls)
        if isinstance(info, msgspec.Struct):
            queue += [getattr(info, name) for name in info.__struct_fields__ if name != "cls"]
        elif isinstance(info, tuple | list):
            queue += info
        elif isinstance(info, Mapping):
            queue += info.values()
    return found
