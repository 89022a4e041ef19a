"""Settings: what a file may say, and what a mistake in it is answered with."""

from __future__ import annotations

from pathlib import Path

import pytest

from grassq import settings
from grassq.errors import BadInput


def load(tmp_path: Path, text: str, **environ: str) -> settings.Settings:
    (tmp_path / settings.FILE_NAME).write_text(text)
    return settings.load(str(tmp_path), environ, {})


def test_rules_of_notices_are_tables_of_the_file(tmp_path: Path) -> None:
    text = '[[notify]]\non = ["failed"]\nto = "desktop"\n[[notify]]\non = ["sweep"]\nto = "x"\nname = "fit*"\n'
    first, second = load(tmp_path, text, GRASS_NOTIFY="ignored").notify
    assert (first.on, first.to, first.queue) == (("failed",), "desktop", None)
    assert second.name == "fit*"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("patience = 3", "has 'patience', not a setting; did you mean patience_s?"),
        ("colour = 3", "`grass config show` lists the settings"),
        ('[notify]\non = ["failed"]', "notify"),
        ('[[notify]]\non = ["fail"]\nto = "desktop"', "did you mean failed?"),
        ('[[notify]]\non = ["failed"]\nto = "https://"', "names no host"),
        ('[[notify]]\non = ["failed"]\nto = "desktop"\n' * 33, "32 is the most"),
        ("lease_s = 1", "lease_s must be at least 20"),
        ("store = [", "cannot be read"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_file(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput) as caught:
        load(tmp_path, text)
    assert words in str(caught.value) and "\n" not in str(caught.value)
    assert settings.FILE_NAME in str(caught.value)


def test_each_setting_knows_where_it_comes_from(tmp_path: Path) -> None:
    text = '# mine\npasses = 7\n"patience_s" = 60\nhosts = """\npasses = 9\n"""\n\n'
    text += '[[notify]]\non = ["failed"]\nto = "x y"\n'
    (tmp_path / settings.FILE_NAME).write_text(text)
    environ = {"GRASS_PATIENCE_S": "30", "GRASS_CAPACITY": "{cpu: 1}"}
    values, origins = settings.trace(str(tmp_path), environ, {"capacity": "{cpu: 2}", "store": None})
    file = tmp_path / settings.FILE_NAME
    assert (values.passes, origins["passes"]) == (7, settings.Origin("file", f"{file}:2"))
    assert (values.patience_s, origins["patience_s"]) == (30.0, settings.Origin("environment", "GRASS_PATIENCE_S"))
    assert (values.capacity, origins["capacity"]) == ("{cpu: 2}", settings.Origin("flag", "--capacity"))
    assert origins["notify"] == settings.Origin("file", f"{file}:8")
    assert origins["store"] == origins["ssh"] == settings.Origin("default")
    assert origins.keys() == set(settings.Settings.__struct_fields__)
