"""The OpenAPI document: every route of a table, and the types of what it takes and answers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import get_args

from grassq.web.access.auth import Need, Route
from grassq.web.access.description import Description, Group, Parameter
from grassq.web.openapi.types import Schema, schemas_of
from grassq.web.responses import ErrorDocument

#: The version of the API, which is in every path; the answers name the release in the header `Grass-Version`.
API_VERSION = "1"
MEDIA = {
    "json": "application/json",
    "json lines": "application/x-ndjson",
    "text": "text/plain",
    "bytes": "application/octet-stream",
    "file": "*/*",
}
#: The parts of paths that change: their schema and their meaning.
PATH_PARTS: dict[str, tuple[Schema, str]] = {
    "id": ({"type": "integer", "minimum": 1}, "The id of a job"),
    "queue": ({"type": "string"}, "The name of a queue"),
    "name": ({"type": "string"}, "A name"),
    "page": ({"type": "string"}, "A place of the page, such as `jobs`"),
    "rest": ({"type": "string"}, "What the page itself reads"),
}
NEEDS: dict[Need, str] = {
    "page": "Anybody; also by a link on another web site.",
    "open": "Anybody.",
    "read": "The owner, or a token or session with the scope read, submit or admin.",
    "submit": "The owner, or a token or session with the scope submit or admin.",
    "admin": "The owner, or a token or session with the scope admin.",
    "worker": "A token with the scope worker.",
    "home": "The owner, or the owner's own page on this machine.",
    "local": "The owner, on the unix socket only.",
}
#: The refusals that every route has, with what each means.
REFUSALS = {
    400: "The request cannot be understood: a wrong parameter, body or selector",
    401: "There is no valid token: it is missing, unknown, revoked or expired",
    403: "The caller may not do this: the scope of its token does not suffice, or another web site sent the request",
    404: "There is no such job, queue, worker, token or route",
    405: "The route has another method",
    408: "The body came too slowly",
    409: "What was asked for is not possible now; the message says why",
    413: "The body is too large",
    415: "The body is encoded; it has to be sent as it is",
    421: "The broker does not have this host name",
    429: "The token has too many requests or connections open",
    503: "The store or a worker cannot be reached; `Retry-After` says when to ask again",
}
_VARIABLE = re.compile(r"\{(\w+)(?::((?:[^{}]|\{[^{}]*\})*))?\}")


def openapi_document(routes: Iterable[Route]) -> Schema:
    """Return the OpenAPI document of the described routes."""
    described = [(route, route.about) for route in routes if route.about is not None]
    kinds: list[object] = [ErrorDocument]
    for _, about in described:
        kinds += [each for each in (about.answer, about.body) if each is not None]
        kinds += [each.kind for each in about.query]
    plain, named = schemas_of(kinds)
    schemas = {repr(kind): schema for kind, schema in zip(kinds, plain, strict=True)}
    paths: dict[str, Schema] = {}
    for route, about in described:
        methods = paths.setdefault(plain_path(route.path), {})
        methods[route.method.lower()] = _operation(route, about, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Grass",
            "version": API_VERSION,
            "description": "The HTTP API of a Grass broker, made of its table of routes.",
        },
        "tags": [{"name": group} for group in get_args(Group)],
        "paths": paths,
        "components": {
            "schemas": named,
            "responses": {"Refusal": _refusal(schemas)},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "ID.SECRET of `grass login`"},
                "session": {"type": "apiKey", "in": "cookie", "name": "grass", "description": "Of `grass web`"},
            },
        },
    }


def plain_path(path: str) -> str:
    """Return the path of a route without the patterns of its parts."""
    return _VARIABLE.sub(r"{\1}", path)


def operation_id(route: Route) -> str:
    """Return a name for a route: getJobsIdLog."""
    words = re.findall(r"[a-zA-Z0-9]+", plain_path(route.path).removeprefix("/v1"))
    return route.method.lower() + "".join(word[0].upper() + word[1:] for word in words)


def _operation(route: Route, about: Description, schemas: dict[str, Schema]) -> Schema:
    operation: Schema = {
        "operationId": operation_id(route),
        "tags": [about.group],
        "summary": about.summary,
        "description": NEEDS[route.need],
        "x-need": route.need,
        "parameters": [
            *(_path_part(name, pattern) for name, pattern in _VARIABLE.findall(route.path)),
            *(_parameter(each, schemas[repr(each.kind)]) for each in about.query),
        ],
    }
    if route.need in ("open", "local"):
        operation["security"] = []
    elif route.need == "home":
        operation["security"] = [{"session": []}]
    else:
        operation["security"] = [{"token": []}] if route.need == "worker" else [{"token": []}, {"session": []}]
    if about.body is not None and about.form != "websocket":
        operation["requestBody"] = {
            "required": True,
            "content": {MEDIA["json"]: {"schema": schemas[repr(about.body)]}},
        }
    refusal = {"$ref": "#/components/responses/Refusal"}
    operation["responses"] = {**_answer(about, schemas), "4XX": refusal, "503": refusal}
    return operation


def _answer(about: Description, schemas: dict[str, Schema]) -> Schema:
    schema = None if about.answer is None else schemas[repr(about.answer)]
    if about.form == "websocket":
        frames = {"x-frames": schema, "x-sent": None if about.body is None else schemas[repr(about.body)]}
        return {"101": {"description": "A WebSocket", **{key: each for key, each in frames.items() if each}}}
    text = "Lines of JSON, each of this type" if about.form == "json lines" else "The answer"
    content = {"schema": schema} if schema is not None else {}
    return {"200": {"description": text, "content": {MEDIA[about.form]: content}}}


def _parameter(each: Parameter, schema: Schema) -> Schema:
    found = {"name": each.name, "in": "query", "required": each.is_required, "description": each.meaning}
    if schema.get("type") == "boolean":
        schema = {"enum": ["0", "1"]}
    if isinstance(each.default, str | float | int):
        schema = {**schema, "default": each.default}
    return {**found, "schema": schema}


def _path_part(name: str, pattern: str) -> Schema:
    schema, meaning = PATH_PARTS[name]
    if pattern and schema["type"] == "string":
        schema = {**schema, "pattern": f"^({pattern})$"}
    return {"name": name, "in": "path", "required": True, "description": meaning, "schema": schema}


def _refusal(schemas: dict[str, Schema]) -> Schema:
    known = "; ".join(f"{status}: {meaning}" for status, meaning in REFUSALS.items())
    content = {MEDIA["json"]: {"schema": schemas[repr(ErrorDocument)]}}
    return {
        "description": f"A refusal in one sentence, which is also in the header `Grass-Error`. {known}.",
        "content": content,
    }
