"""The description of the API: every route has one, and the document is whole."""

from __future__ import annotations

import json
import re

from docs.generate import ROOT, route_table
from tests.web.broker_fixture import BrokerFixture, play

from grassq.web.openapi.document import plain_path


def test_every_route_says_what_it_does_takes_and_answers() -> None:
    for route in route_table():
        where = f"{route.method} {route.path}"
        assert route.about is not None, f"{where} has no description: about=Description(...)"
        assert re.fullmatch(r"[A-Z`].*[^.]", route.about.summary), (
            f"{where}: a summary is a sentence without a full stop"
        )
        names = [each.name for each in route.about.query]
        assert len(set(names)) == len(names), f"{where} describes a parameter twice"
        assert all(each.meaning for each in route.about.query), where
        assert route.about.answer is not None or route.about.form in ("bytes", "file", "websocket", "text"), where


def test_the_broker_serves_the_document_that_the_reference_has_to_anybody() -> None:
    async def test(fixture: BrokerFixture) -> None:
        kept = json.loads((ROOT / "docs" / "reference" / "openapi.json").read_text())
        for answer in [
            await fixture.ask("GET", "/openapi.json"),
            await fixture.ask("GET", "/openapi.json", local=True),
        ]:
            assert answer.status == 200 and answer.headers["content-type"].startswith("application/json")
            assert answer.json == kept
        assert "grass-version" not in (await fixture.ask("GET", "/openapi.json")).headers
        served = {(route.method, plain_path(route.path)) for route in fixture.api.routes()}
        assert served == {(method.upper(), path) for path, methods in kept["paths"].items() for method in methods}

    play(test)


def test_the_types_of_the_web_page_are_made_of_the_document() -> None:
    api = json.loads((ROOT / "docs" / "reference" / "openapi.json").read_text())
    types = (ROOT / "webui" / "src" / "api" / "schema.d.ts").read_text()
    inside = types.split("export interface components {")[1].split("export interface operations {")
    schemas = re.findall(r"^ {8}(\w+): ", inside[0].split("    responses: {")[0], re.MULTILINE)
    operations = re.findall(r"^ {4}(\w+): \{", inside[1], re.MULTILINE)
    fresh = "`npm run types` in webui writes them anew"
    assert sorted(schemas) == sorted(api["components"]["schemas"]), fresh
    named = [each["operationId"] for methods in api["paths"].values() for each in methods.values()]
    assert sorted(operations) == sorted(named), fresh
    for name, schema in api["components"]["schemas"].items():
        part = inside[0].split(f"        {name}: ")[1].split("\n        }")[0]
        for field in schema.get("properties", {}):
            assert re.search(rf"\b{re.escape(field)}\??:", part), f"{name}.{field}: {fresh}"


def test_the_web_page_asks_for_nothing_that_the_document_does_not_have() -> None:
    api = json.loads((ROOT / "docs" / "reference" / "openapi.json").read_text())
    known = [re.sub(r"\{\w+\}", "x", path) for path in api["paths"]]
    unknown: dict[str, str] = {}
    for file in (ROOT / "webui" / "src").rglob("*.ts*"):
        for path in [] if file.name == "schema.d.ts" else re.findall(r"[\"`](/v1/[^\"`?\s]+)", file.read_text()):
            pattern = "[^/]+".join(map(re.escape, re.split(r"\$\{[^}]*\}", path)))
            if not any(re.fullmatch(pattern, each) for each in known):
                unknown[path] = str(file.relative_to(ROOT))
    assert unknown == {}
