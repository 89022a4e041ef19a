"""Certificates: every kind people have, and what is wrong with the others, in words."""

from __future__ import annotations

import hashlib
import ipaddress
import os
import socket
import ssl
import stat
import subprocess
import threading
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from grassq.errors import BadInput, Refused
from grassq.pins import key_pin
from grassq.web.listen import certificate
from grassq.web.listen.tcp import Identity

NOW = 1_700_000_000.0
DAY = 86400.0


def openssl(where: Path, line: str) -> None:
    """One line of openssl, run in a directory."""
    done = subprocess.run(["openssl", *line.split()], cwd=where, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the README's two openssl lines make, with the questions answered; and variations of it."""
    where = tmp_path_factory.mktemp("certs")
    openssl(
        where, "req -x509 -newkey rsa:4096 -keyout myKey.pem -out cert.pem -days 365 -nodes -subj /CN=my.server.com"
    )
    openssl(where, "pkcs12 -export -out empty.p12 -inkey myKey.pem -in cert.pem -passout pass:")
    openssl(where, "pkcs12 -export -out keyStore.p12 -inkey myKey.pem -in cert.pem -passout pass:secret")
    openssl(where, "pkcs12 -export -out nomac.p12 -nomac -inkey myKey.pem -in cert.pem -passout pass:secret")
    openssl(where, "pkcs12 -export -out nokey.p12 -nokeys -in cert.pem -passout pass:secret")
    openssl(where, "rsa -aes128 -in myKey.pem -out locked.pem -passout pass:secret")
    whole = (where / "cert.pem").read_bytes()
    (where / "both.pem").write_bytes(whole + (where / "myKey.pem").read_bytes())
    (where / "both-locked.pem").write_bytes(whole + (where / "locked.pem").read_bytes())
    openssl(where, "genrsa -out other.pem 2048")
    (where / "mixed.pem").write_bytes(whole + (where / "other.pem").read_bytes())
    for file in where.iterdir():
        file.chmod(0o600)
    return where


def fingerprint(recipe: Path) -> bytes:
    key = x509.load_pem_x509_certificate((recipe / "cert.pem").read_bytes()).public_key()
    return hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).digest()


@pytest.mark.parametrize(
    ("file", "password"),
    [
        ("empty.p12", None),
        ("empty.p12", b""),
        ("keyStore.p12", b"secret"),
        ("both.pem", None),
        ("both.pem", b"not needed"),
        ("both-locked.pem", b"secret"),
    ],
)
def test_the_readmes_certificate_loads_as_pkcs12_or_pem(recipe: Path, file: str, password: bytes | None) -> None:
    identity = certificate.load(recipe / file, password)
    assert identity.fingerprint == fingerprint(recipe)
    assert identity.names == ("my.server.com",)
    warned = any("no password" in note for note in identity.notes)
    assert warned == (file == "empty.p12" or password == b"not needed")


@pytest.mark.parametrize(
    ("file", "password", "words"),
    [
        ("keyStore.p12", None, "--cert-pass-file FILE"),
        ("keyStore.p12", b"wrong", "password of .* is wrong"),
        ("empty.p12", b"wrong", "password of .* is wrong"),
        ("nomac.p12", b"wrong", "password of .* is wrong"),
        ("nomac.p12", None, "--cert-pass-file FILE"),
        ("nokey.p12", b"secret", "no private key"),
        ("both-locked.pem", None, "--cert-pass-file FILE"),
        ("both-locked.pem", b"wrong", "password is wrong"),
        ("cert.pem", None, "no private key"),
        ("myKey.pem", None, "no certificate"),
        ("mixed.pem", None, "does not belong"),
        ("nosuch.p12", None, "cannot be read"),
    ],
)
def test_what_is_wrong_with_a_certificate_is_said_in_words(
    recipe: Path, file: str, password: bytes | None, words: str
) -> None:
    with pytest.raises(BadInput, match=words) as caught:
        certificate.load(recipe / file, password)
    assert "\n" not in str(caught.value) and "secret" not in str(caught.value)


@pytest.mark.parametrize("damage", ["empty", "text", "cut", "flipped", "large", "der length"])
def test_a_damaged_file_is_refused_in_words(recipe: Path, tmp_path: Path, damage: str) -> None:
    whole = (recipe / "keyStore.p12").read_bytes()
    middle = len(whole) // 2
    data = {
        "empty": b"",
        "text": b"hello",
        "cut": whole[:-100],
        "flipped": whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :],
        "large": b"\x30" * (certificate.FILE_MAX + 1),
        "der length": b"\x30\x88" + b"\xff" * 20,
    }[damage]
    path = tmp_path / "x.p12"
    path.write_bytes(data)
    with pytest.raises(BadInput) as caught:
        certificate.load(path, b"secret")
    assert "\n" not in str(caught.value)


def test_a_file_others_may_read_is_named(recipe: Path, tmp_path: Path) -> None:
    path = tmp_path / "open.pem"
    path.write_bytes((recipe / "both.pem").read_bytes())
    path.chmod(0o644)
    assert any("chmod 600" in note for note in certificate.load(path).notes)


def shown_by(identity: Identity, client: ssl.SSLContext, host: str) -> bytes:
    """What a client sees of a server with this identity; its own checks may refuse."""
    ours, theirs = socket.socketpair()

    def serve() -> None:
        try:
            with identity.context.wrap_socket(ours, server_side=True) as wrapped:
                wrapped.recv(1)
        except OSError:
            ours.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with client.wrap_socket(theirs, server_hostname=host) as wrapped:
            return wrapped.getpeercert(binary_form=True) or b""
    finally:
        theirs.close()
        thread.join()


def test_a_certificate_of_an_authority_is_verified_by_those_who_trust_it(tmp_path: Path) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("broker.example", "10.1.2.3")
    path = tmp_path / "issued.pem"
    path.write_bytes(issued.private_key_and_cert_chain_pem.bytes())
    path.chmod(0o600)
    identity = certificate.load(path)
    assert {"broker.example", "10.1.2.3"} <= set(identity.names)
    client = ssl.create_default_context()
    authority.configure_trust(client)
    assert key_pin(shown_by(identity, client, "broker.example")) == identity.fingerprint
    with pytest.raises(ssl.SSLCertVerificationError):
        shown_by(identity, client, "other.example")


def test_the_homes_own_certificate_is_made_once_and_for_the_owner_alone(tmp_path: Path) -> None:
    first = certificate.own(str(tmp_path), ["box", "10.0.0.1", "fd00::1", "0.0.0.0", "::"], NOW)
    again = certificate.own(str(tmp_path), ["another"], NOW)
    assert first.fingerprint == again.fingerprint
    path = tmp_path / certificate.FILE_NAME
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in tmp_path.iterdir()] == [certificate.FILE_NAME]
    assert {"localhost", socket.gethostname().lower(), "box", "10.0.0.1", "fd00::1"} == set(first.names)
    made = x509.load_pem_x509_certificate(path.read_bytes())
    others = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert ipaddress.ip_address("10.0.0.1") in others.get_values_for_type(x509.IPAddress)
    assert first.until - NOW > 3650 * DAY - 2 * DAY
    client = ssl.create_default_context(cafile=str(path))
    assert key_pin(shown_by(first, client, "box")) == first.fingerprint


def test_the_homes_own_certificate_is_renewed_before_it_expires_with_the_same_key(tmp_path: Path) -> None:
    first = certificate.own(str(tmp_path), ["box"], NOW)
    late = first.until - 29 * DAY
    renewed = certificate.own(str(tmp_path), ["box"], late)
    assert renewed.fingerprint == first.fingerprint
    assert renewed.until - late > 3650 * DAY - 2 * DAY
    assert renewed.expiry(late) is None


def test_an_own_certificate_others_may_read_is_refused(tmp_path: Path) -> None:
    certificate.own(str(tmp_path), ["box"], NOW)
    (tmp_path / certificate.FILE_NAME).chmod(0o640)
    with pytest.raises(Refused, match="chmod 600"):
        certificate.own(str(tmp_path), ["box"], NOW)


def test_the_key_never_lies_in_a_file_that_is_left(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[object] = []
    real = os.open

    def noticed(path: object, *more: object, **named: object) -> int:
        made.append(path)
        return real(path, *more, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", noticed)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    certificate.load(recipe / "both-locked.pem", b"secret")
    assert not made and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("days", "words"),
    [(-1, "expired on"), (0.5, "expires on"), (29, "expires on"), (31, None), (4000, "not valid yet")],
)
def test_the_end_of_a_certificate_is_told_thirty_days_ahead(tmp_path: Path, days: float, words: str | None) -> None:
    identity = certificate.own(str(tmp_path), ["box"], NOW)
    said = identity.expiry(identity.until - days * DAY)
    assert said is None if words is None else said is not None and words in said


def test_an_expired_certificate_still_serves_those_who_pinned_it(tmp_path: Path) -> None:
    identity = certificate.own(str(tmp_path), ["box"], NOW - 20 * 365 * DAY)
    client = ssl.create_default_context(cafile=str(tmp_path / certificate.FILE_NAME))
    with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
        shown_by(identity, client, "box")
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    assert key_pin(shown_by(identity, client, "box")) == identity.fingerprint
