"""Why a login failed: what ssh says becomes one line that says what, where and what to do, and when to try again."""

from __future__ import annotations

import math
import random
import re

import pytest

from grassq.machines.ssh.backoff import AWAY_S, TURNED_AWAY_S, Backoff
from grassq.machines.ssh.failures import LoginFailed, login_failure
from grassq.machines.ssh.target import SshTarget
from grassq.machines.transport import LinkLost

TARGET = SshTarget("gpu1", "ann")
CHANGED = """\
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\r
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\r
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\r
IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!\r
The fingerprint for the ED25519 key sent by the remote host is\r
SHA256:cKq0.\r
Please contact your system administrator.\r
Add correct host key in /home/ann/.ssh/known_hosts to get rid of this message.\r
Offending ED25519 key in /home/ann/.ssh/known_hosts:17\r
  remove with:\r
  ssh-keygen -f "/home/ann/.ssh/known_hosts" -R "[gpu1]:2222"\r
Host key for [gpu1]:2222 has changed and you have requested strict checking.\r
Host key verification failed.\r
"""
PERSON, LATE, SOON = "needs a person", "turned away", "tried again soon"

#: What ssh says, what is done, and words of the message.
CASES = [
    (
        CHANGED,
        PERSON,
        "has changed.*line 17 of /home/ann/.ssh/known_hosts"
        ".*ssh-keygen -f /home/ann/.ssh/known_hosts -R '\\[gpu1\\]:2222'",
    ),
    (
        "No ED25519 host key is known for gpu1 and you have requested strict checking.\r\n"
        "Host key verification failed.\r\n",
        PERSON,
        "host key of gpu1 is not in your known_hosts.*ssh ann@gpu1, or grass machine add",
    ),
    ("Host key verification failed.", PERSON, "not accepted"),
    (
        "ann@gpu1: Permission denied (publickey,password).",
        PERSON,
        "login to ann@gpu1 is refused.*BatchMode=yes ann@gpu1 true",
    ),
    (
        'Load key "/home/ann/.ssh/id": bad permissions\r\nann@gpu1: Permission denied (publickey).\r\n',
        PERSON,
        "key /home/ann/.ssh/id could not be used: bad permissions",
    ),
    (
        "Received disconnect from 10.0.0.7 port 22:2: Too many authentication failures\r\n"
        "Disconnected from 10.0.0.7 port 22\r\n",
        PERSON,
        "too many keys",
    ),
    (
        "/home/ann/.ssh/config: line 3: Bad configuration option: hostnme\n"
        "/home/ann/.ssh/config: terminating, 1 bad configuration options",
        PERSON,
        "line 3",
    ),
    (
        "/home/ann lee/.ssh/config line 7: keyword port extra arguments at end of line\n"
        "/home/ann lee/.ssh/config: terminating, 1 bad configuration options",
        PERSON,
        "line 7: keyword port extra arguments",
    ),
    ("Bad owner or permissions on /home/ann/.ssh/config", PERSON, "cannot read its configuration"),
    ("hostname contains invalid characters", PERSON, "refuses the name"),
    (
        "Unable to negotiate with 10.0.0.7 port 22: no matching host key type found. Their offer: ssh-rsa",
        PERSON,
        "no algorithm in common.*ssh-rsa",
    ),
    ("ssh: Could not resolve hostname gpu1: Name or service not known", SOON, "by the name of ann@gpu1"),
    ("ssh: Could not resolve hostname gpu1: Temporary failure in name resolution", SOON, "network"),
    ("ssh: connect to host gpu1 port 22: Connection refused", SOON, "cannot be reached.*Connection refused"),
    ("ssh: connect to host gpu1 port 22: No route to host", SOON, "No route"),
    ("Connection timed out during banner exchange\nConnection to 10.0.0.7 port 22 timed out", SOON, "says nothing"),
    (
        "channel 0: open failed: connect failed: No route to host\nstdio forwarding failed\n"
        "kex_exchange_identification: Connection closed by remote host\nConnection closed by UNKNOWN port 65535",
        SOON,
        "jump host could not reach",
    ),
    (
        "kex_exchange_identification: Connection closed by remote host\nConnection closed by 10.0.0.7 port 22",
        LATE,
        "too many",
    ),
    (
        "kex_exchange_identification: read: Connection reset by peer\nConnection reset by 10.0.0.7 port 22",
        LATE,
        "too many",
    ),
    ("Not allowed at this time\nConnection closed by 10.0.0.7 port 22", LATE, "Not allowed at this time"),
    ("Connection closed by 10.0.0.7 port 22", LATE, "closed the connection"),
    ("something that no version said before", LATE, "something that no version said before"),
    ("", LATE, "it said nothing"),
]


@pytest.mark.parametrize(("said", "done", "words"), CASES)
def test_each_cause_is_said_in_one_line_and_tried_again_as_it_deserves(said: str, done: str, words: str) -> None:
    failure = login_failure(TARGET, said)
    assert (PERSON if failure.needs_person else LATE if failure.is_turned_away else SOON) == done

    assert re.search(words, str(failure)), str(failure)
    assert str(failure).isprintable()
    assert ".." not in str(failure)


def test_only_a_host_key_that_was_never_seen_is_one_that_a_person_may_accept() -> None:
    assert login_failure(
        TARGET, "No RSA host key is known for g and you have requested strict checking."
    ).is_unknown_key
    assert not login_failure(TARGET, CHANGED).is_unknown_key
    assert not login_failure(TARGET, "Host key verification failed.").is_unknown_key


def test_a_key_a_port_and_odd_paths_are_quoted_in_what_a_person_is_told_to_type() -> None:
    target = SshTarget("gpu1", None, 2222, "/keys/my key")
    assert "ssh -o BatchMode=yes -i '/keys/my key' -p 2222 gpu1 true" in str(login_failure(target, "x"))


def test_words_of_a_banner_are_not_taken_for_words_of_ssh() -> None:
    banner = "Welcome. Permission denied (really) to everybody else.\nsee Host key verification failed. below\n"
    failure = login_failure(TARGET, banner + "ssh: connect to host gpu1 port 22: Connection refused\n")
    assert not failure.needs_person


def test_control_characters_and_long_lines_do_not_reach_the_message() -> None:
    failure = login_failure(TARGET, "\x1b[2J\x1b]0;title\x07" + "x" * 100_000)
    assert str(failure).isprintable()
    assert len(str(failure)) < 1000


def waits(failure: LoginFailed | LinkLost) -> list[float]:
    backoff = Backoff(random.Random(1).uniform)
    return [backoff.next_s(failures, failure) for failures in range(100)]


@pytest.mark.parametrize(
    ("failure", "shortest", "longest"),
    [
        (LinkLost(0, "gone"), *AWAY_S),
        (LoginFailed("no route"), *AWAY_S),
        (LoginFailed("closed", is_turned_away=True), *TURNED_AWAY_S),
    ],
)
def test_waits_grow_to_a_bound_and_differ(failure: LoginFailed | LinkLost, shortest: float, longest: float) -> None:
    found = waits(failure)
    assert shortest <= found[0] <= 2 * shortest
    assert all(shortest <= each <= longest for each in found)
    assert found[:5] == sorted(found[:5])
    assert min(found[20:]) >= longest / 2
    assert len({round(each, 3) for each in found[20:]}) > 50


def test_what_needs_a_person_is_never_tried_again_by_itself() -> None:
    assert set(waits(LoginFailed("wrong key", needs_person=True))) == {math.inf}


def test_a_server_that_counts_tries_sees_none_within_five_seconds() -> None:
    assert TURNED_AWAY_S[0] >= 5
