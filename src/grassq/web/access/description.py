"""What a route says of itself, of which the OpenAPI document and the page about the API are made."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

#: The chapters of the page about the API, in its order.
Group = Literal[
    "jobs",
    "submissions",
    "logs",
    "changes",
    "forecasts",
    "queues and workers",
    "machines",
    "tokens",
    "web page",
    "daemon",
]
#: How an answer is written; a `file` has the type of its name. The lines of `json lines` and the frames of `websocket`
#: have one type each.
Form = Literal["json", "json lines", "text", "bytes", "file", "websocket"]


class Parameter(Struct, frozen=True):
    """One parameter of a query."""

    name: str
    meaning: str
    #: The type of its value: str, int, float, bool (1 is true), a Literal, or a list for one that may be repeated.
    kind: object = str
    #: What counts without it, in words or as the value itself; None: nothing.
    default: str | float | None = None
    is_required: bool = False


class Description(Struct, frozen=True):
    """What a route does, what it takes and what it answers."""

    group: Group
    #: One sentence without a full stop.
    summary: str
    #: The type of the answer: a TypedDict or a Struct; None if it has none, such as the bytes of a log.
    answer: object = None
    form: Form = "json"
    query: tuple[Parameter, ...] = ()
    #: The type of the body, or of what a client sends over a WebSocket.
    body: object = None


#: The selectors of a query: the same words as on the command line.
SELECTORS = Parameter(
    "selector", "An id, `3-7`, `@`, `all`, a state, a queue or a name; more of them add up", list[str]
)
ONE_SELECTOR = Parameter(SELECTORS.name, SELECTORS.meaning, list[str], is_required=True)
LOOK = Parameter("look", "Tell what the ends of the logs of the first jobs say", bool)
