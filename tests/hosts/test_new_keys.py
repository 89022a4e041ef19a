"""A broker with a renewed certificate or a new key: which clients and workers are let in, and which are told what."""

from __future__ import annotations

import json

import pytest
from tests.hosts.site import BROKER, Machine, Site, eventually, jobs_of, state_of

MAKE = "umask 077; openssl req -x509 {key} -out c.pem -days 9 -nodes -subj /O=lab && cat c.pem k.pem > both.pem"
NEW_KEY, SAME_KEY = "-newkey rsa:2048 -keyout k.pem", "-key k.pem"
#: From a new code until a running worker, which tries every 30 s after a refusal, has connected.
NOTICED_S = 60.0


class Place:
    """A broker with a certificate of its owner's, a worker that runs a job, and a person."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.broker = site.machine("broker")
        self.certify(NEW_KEY)
        self.serve()
        self.worker = site.worker(self.broker, "w1")
        self.worker.write("hold.sh", "until [ -e go ]; do sleep 0.05; done; exit 7\n")
        self.worker.ok("create-queue", "q", "sh", "hold.sh")
        self.person = site.person(self.broker, "ann")

    def certify(self, key: str) -> None:
        """Make the broker's certificate."""
        self.broker.bash(MAKE.format(key=key))

    def serve(self) -> None:
        """Start the broker."""
        self.broker.serve("--bind", "0.0.0.0:7500", "--no-worker", "--cert", self.broker.cwd / "both.pem")

    def replace(self, key: str) -> None:
        """Restart the broker with another certificate."""
        self.broker.stop()
        self.certify(key)
        self.serve()


def _trouble(worker: Machine) -> str:
    with worker.client() as client:
        return str(client.info()["broker"]["trouble"])


def test_a_certificate_renewed_with_the_same_key_changes_nothing(site: Site) -> None:
    place = Place(site)
    place.replace(SAME_KEY)
    place.broker.until_online("w1")
    assert "w1" in place.person.ok("show")


@pytest.mark.parametrize("named", [f"{BROKER}:7500", "1.2.3.4:7500"], ids=["a name not in the code", "an address"])
def test_a_login_with_a_new_code_repairs_every_name_of_the_broker(site: Site, named: str) -> None:
    place = Place(site)
    place.person.ok("use", named)
    place.person.ok("show")
    place.replace(NEW_KEY)
    refused = place.person.refuses(5, "show")
    assert "shows another key" in refused and "grass login" in refused
    assert any(check["status"] == "fail" and "another key" in check["found"] for check in _checks(place.person))
    place.person.ok("login", place.broker.code("--scope", "admin"))
    assert "w1" in place.person.ok("show") and "w1" in place.person.ok("show", "--broker", BROKER)
    [entry] = place.person.brokers()
    assert {f"{BROKER}:7500", "1.2.3.4:7500"} <= set(entry["addresses"])
    assert sum(bool(token["live"] and not token["is_code"]) for token in _tokens(place.broker, "admin")) == 1


def test_a_worker_joins_again_as_the_same_worker_and_its_running_daemon_goes_on(site: Site) -> None:
    place = Place(site)
    id_ = place.person.enqueue("q")
    eventually(lambda: state_of(place.person, id_) == "running", "it runs")
    place.replace(NEW_KEY)
    eventually(lambda: "grass join" in _trouble(place.worker), "the worker says what to do")
    said = place.worker.ok("join", place.broker.code("--scope", "worker", "--name", "other"))
    assert "as worker w1" in said
    (place.worker.cwd / "go").touch()
    eventually(lambda: place.broker.worker("w1").get("online"), "it is the same worker", NOTICED_S)
    assert [worker["name"] for worker in place.broker.show()["workers"]] == ["w1"]
    place.person.ok("login", place.broker.code("--scope", "admin"))
    place.person("wait", str(id_))
    [job] = jobs_of(place.person)
    assert (job["exit_code"], job["attempt"]) == (7, 1)


def test_a_wrong_key_is_final_at_once_although_another_address_is_away(site: Site) -> None:
    place = Place(site)
    place.person.ok("login", place.broker.code("--scope", "admin"))
    path = place.person.home / "brokers.json"
    known = json.loads(path.read_text())
    known["brokers"][0]["addresses"].insert(0, "1.2.3.99:7500")
    path.write_text(json.dumps(known))
    place.person.ok("show", "--broker", "1.2.3.99,1.2.3.4")
    place.replace(NEW_KEY)
    done = place.person("show", "--broker", "1.2.3.99,1.2.3.4")
    assert done.code == 5 and "asking again" not in done.err, done


def test_logout_forgets_a_broker_and_ends_the_token_there(site: Site) -> None:
    place = Place(site)
    place.person.ok("logout", BROKER)
    assert place.person.brokers() == []
    assert [token["live"] for token in _tokens(place.broker, "admin") if not token["is_code"]] == [False]
    assert "commands go to this machine's own daemon" in place.person.ok("use")
    assert "no login" in place.person.refuses(3, "logout", BROKER)


def test_logout_works_at_a_broker_that_shows_another_key(site: Site) -> None:
    place = Place(site)
    place.replace(NEW_KEY)
    done = place.person("logout", BROKER)
    assert done.code == 0 and "grass token revoke" in done.err
    assert place.person.brokers() == []


def _checks(machine: Machine) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(machine("doctor", "--json").out)["checks"]
    return found


def _tokens(broker: Machine, scope: str) -> list[dict[str, object]]:
    return [token for token in broker.json("token")["tokens"] if token["scope"] == scope]
