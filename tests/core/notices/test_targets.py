"""What --notify and the settings may name, and what of it is shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grassq.core.notices.targets import Target, host_of, masked, read_target, stored_target
from grassq.errors import BadInput

SECRET = "s3cr3t"


@pytest.mark.parametrize(
    ("typed", "target"),
    [
        ("desktop", Target("desktop", "desktop")),
        ("mail -s done me < /dev/null", Target("command", "mail -s done me < /dev/null")),
        ("http://box:8080/x", Target("url", "http://box:8080/x")),
        ("https://hooks.slack.com/services/T/B/x", Target("url", "https://hooks.slack.com/services/T/B/x", "slack")),
        ("https://discord.com/api/webhooks/1/x", Target("url", "https://discord.com/api/webhooks/1/x", "discord")),
        ("https://ntfy.sh/topic", Target("url", "https://ntfy.sh/topic", "ntfy")),
        ("https://chat.example/hook#slack", Target("url", "https://chat.example/hook", "slack")),
        ("https://ntfy.sh/topic#json", Target("url", "https://ntfy.sh/topic", "json")),
        ("tgram://token/chat", Target("apprise", "tgram://token/chat")),
        (" desktop ", Target("desktop", "desktop")),
        ("http://[::1]:80/x", Target("url", "http://[::1]:80/x")),
        ("http://bücher.example./x", Target("url", "http://bücher.example./x")),
        ("http://my_box/x", Target("url", "http://my_box/x")),
    ],
)
def test_a_target_is_read_by_its_form(typed: str, target: Target) -> None:
    assert read_target(typed) == target


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("", "a command, a URL or desktop"),
        ("x" * 2001, "at most 2,000 characters"),
        ("https://", "names no host"),
        ("https://box:99999/s3cr3t", "names no host"),
        ("http://a..b/s3cr3t", "names a host that cannot be"),
        ("http://.example/s3cr3t", "names a host that cannot be"),
        (f"http://{'a' * 64}.example/s3cr3t", "names a host that cannot be"),
        (f"http://{'ä' * 64}.example/s3cr3t", "names a host that cannot be"),
        ("https://box/a b", "has a blank"),
        ("https://box/a#yaml", "the forms are #json"),
        ("mailto:me@example.org", "mailto://"),
        ("a\0b", "a command, a URL or desktop"),
    ],
)
def test_what_names_no_target_is_refused_in_one_line_without_its_secrets(typed: str, words: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_target(typed)
    assert words in str(caught.value) and "\n" not in str(caught.value) and SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        (f"https://user:{SECRET}@box:8443/hook/{SECRET}?key={SECRET}", "https://box:8443/..."),
        (f"tgram://{SECRET}/chat", "tgram://..."),
        (f"curl -H 'Authorization: {SECRET}' box", "curl ..."),
        ("./tell.sh", "./tell.sh"),
        ("desktop", "desktop"),
    ],
)
def test_no_secret_of_a_target_is_shown(typed: str, shown: str) -> None:
    assert masked(read_target(typed)) == shown


@given(st.text(max_size=60) | st.from_regex(r"https?://[^\s]{0,40}", fullmatch=True))
def test_any_text_is_a_target_or_refused_and_can_be_shown(text: str) -> None:
    try:
        target = read_target(text)
    except BadInput as error:
        assert "\n" not in str(error) or "\n" in text
        return
    assert masked(target)
    assert target.kind != "url" or host_of(target)


def test_a_stored_target_is_read_though_its_host_is_refused_now() -> None:
    assert masked(stored_target(f"http://a..b/{SECRET}")) == "http://a..b/..."
    with pytest.raises(BadInput):
        stored_target("https://")
