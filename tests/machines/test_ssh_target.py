"""Where a machine is, as people type it: nothing that ssh could read in another way."""

from __future__ import annotations

import pytest

from grassq.errors import BadInput
from grassq.machines.ssh.options import master_argv, person_argv
from grassq.machines.ssh.target import SshTarget, addresses, parse_target


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("gpu1", SshTarget("gpu1")),
        (" gpu1 ", SshTarget("gpu1")),
        ("ann@gpu1", SshTarget("gpu1", "ann")),
        ("ann@gpu1.lab.example:2222", SshTarget("gpu1.lab.example", "ann", 2222)),
        ("ssh://gpu1", SshTarget("gpu1")),
        ("ssh://ann@gpu1:22/", SshTarget("gpu1", "ann", 22)),
        ("10.0.0.7:22", SshTarget("10.0.0.7", None, 22)),
        ("::1", SshTarget("::1")),
        ("ann@fe80::1%eth0", SshTarget("fe80::1%eth0", "ann")),
        ("[::1]", SshTarget("::1")),
        ("ann@[2001:db8::1]:2222", SshTarget("2001:db8::1", "ann", 2222)),
        ("ssh://ann@[::1]:22", SshTarget("::1", "ann", 22)),
        # The last @ ends the user, as for ssh itself: sites have such user names.
        ("ann@corp.example@gpu1", SshTarget("gpu1", "ann@corp.example")),
    ],
)
def test_what_people_type_is_read(text: str, target: SshTarget) -> None:
    assert parse_target(text) == target
    assert parse_target(target.shown) == target


@pytest.mark.parametrize(
    "text",
    [
        *("", "   ", "@", "ann@", "@gpu1", "ssh://", "ssh://ann@", "ann@@", ":22", "ann@:22"),
        *("-oProxyCommand=x", "ann@-oProxyCommand=x", "-oProxyCommand=x@gpu1", "ssh://-oProxyCommand=x", "--"),
        *("[-oProxyCommand=x]", "ssh://[-oProxyCommand=x::]:22", "ann@-", "-ann@gpu1"),
        *("a b", "a\tb", "a\nb", "a\x00b", "a\x1b[2Jb", "a\u202eb", "ann smith@gpu1"),
        *(f"gpu{char}1" for char in "'`\"$\\;&<>|(){},*?![]^#/="),
        *(f"an{char}n@gpu1" for char in "'`\"$\\;&<>|(){},*?![]^#/=%:"),
        *(
            "gpu1:",
            "gpu1:ssh",
            "gpu1:0",
            "gpu1:65536",
            "gpu1:-1",
            "gpu1:22:",
            "gpu1:٢٢",
            "gpu1:/tmp",
            "ssh://gpu1/path",
        ),
        *("[gpu1]", "[gpu1]:22", "[::1", "[::1]22", "[::1]:", "::1]:22", "[]"),
        *("a" * 254, f"{'u' * 256}@gpu1", "ssh://ann:secret@gpu1", "http://gpu1"),
    ],
)
def test_what_ssh_could_read_in_another_way_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(BadInput) as refused:
        parse_target(text)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 400


def test_a_target_that_was_not_typed_is_checked_alike() -> None:
    for host, user, port in (
        ("-x", None, None),
        ("h", "-x", None),
        ("h", None, 0),
        ("h", None, 65536),
        ("", None, None),
    ):
        with pytest.raises(BadInput):
            SshTarget(host, user, port)


TARGET = SshTarget("gpu1", "ann", 2222, "~/keys/100%")


@pytest.mark.parametrize(
    "words",
    [
        master_argv("ssh", TARGET, "/run/s", agent="/run/agent", new_key=False),
        person_argv("ssh", TARGET, None, ("nvidia-smi", "-L")),
    ],
    ids=["master", "person"],
)
def test_every_command_line_ends_the_options_before_the_host(words: list[str]) -> None:
    host = words.index("gpu1")
    assert words[host - 1] == "--"
    assert words[host + 1 :] in ([], ["nvidia-smi", "-L"])
    assert words[words.index("-l") + 1] == "ann"
    assert words[words.index("-p") + 1] == "2222"
    key = words[words.index("-i") + 1]
    assert key.startswith("/") and key.endswith("/keys/100%%")
    assert "IdentitiesOnly=yes" in words


def test_a_new_host_key_is_accepted_only_where_it_was_asked_for() -> None:
    strict = master_argv("ssh", TARGET, "/run/s", agent=None, new_key=False)
    accepting = master_argv("ssh", TARGET, "/run/s", agent=None, new_key=True)
    assert "StrictHostKeyChecking=yes" in strict
    assert "StrictHostKeyChecking=accept-new" in accepting
    assert not any("StrictHostKeyChecking=no" in word for word in (*strict, *accepting))


FOUND = {"user": "ann", "hostname": "10.0.0.7", "port": "2222"}


@pytest.mark.parametrize(
    ("host", "settings", "found"),
    [
        ("gpu1", FOUND, {"ann@gpu1:2222", "ann@10.0.0.7:2222"}),
        ("10.0.0.7", FOUND, {"ann@10.0.0.7:2222"}),
        ("GPU1", {**FOUND, "hostname": "gpu1"}, {"ann@gpu1:2222"}),
        ("::1", {**FOUND, "hostname": "::1"}, {"ann@[::1]:2222"}),
        ("gpu1", {**FOUND, "proxyjump": "bastion"}, {"ann@gpu1:2222"}),
        ("gpu1", {**FOUND, "proxycommand": "nc %h %p"}, {"ann@gpu1:2222"}),
        ("gpu1", {**FOUND, "proxyjump": "none"}, {"ann@gpu1:2222", "ann@10.0.0.7:2222"}),
        ("gpu1", {}, set()),
    ],
)
def test_addresses_are_where_ssh_finds_a_machine(host: str, settings: dict[str, str], found: set[str]) -> None:
    # Behind a jump host, the same address may be another machine of another network.
    assert set(addresses(SshTarget(host), settings)) == found
