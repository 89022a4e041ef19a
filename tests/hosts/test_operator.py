"""What an operator meets in the first minutes and in the years after, typed as the printed words say."""

from __future__ import annotations

from tests.hosts.site import Site

from grassq.core.syntax import join_codes


def test_each_printed_code_does_what_is_printed_beside_it(site: Site) -> None:
    broker = site.broker()
    for_worker, for_person = broker.first_codes()
    worker, person = site.machine("node"), site.machine("laptop")
    worker.ok("join", for_worker, "--name", "node")
    person.ok("login", for_person, "--name", "ann")
    assert [str(each) for each in join_codes.decode(for_person).addresses] == [f"{broker.host.address}:7500"]
