"""The broker's certificate: read from PKCS#12 or PEM, or made once and kept in the home."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import os
import socket
import ssl
import stat
from collections.abc import Iterable
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes, PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12
from cryptography.hazmat.primitives.serialization import load_pem_private_key as load_key
from cryptography.x509.oid import NameOID

from grassq import atomic_files
from grassq.errors import BadInput, GrassError, Refused
from grassq.pins import key_pin
from grassq.web.listen.tcp import WARN_DAYS, Identity, is_wildcard

FILE_NAME = "tls.pem"
#: The first byte of every PKCS#12 file.
DER_SEQUENCE = b"\x30"
FILE_MAX = 1 << 20
OWN_DAYS = 3653
#: The most characters of a common name.
COMMON_NAME_MAX = 64
PEM_MARK = b"-----BEGIN "

Loaded = tuple[PrivateKeyTypes, list[x509.Certificate], list[str]]


def load(path: str | Path, password: bytes | None = None) -> Identity:
    """Read a certificate and its key from PKCS#12 or PEM; raise BadInput if they cannot be used."""
    data = _read(Path(path))
    key, chain, notes = (_from_pem if PEM_MARK in data else _from_pkcs12)(str(path), data, password)
    if key.public_key() != chain[0].public_key():
        raise BadInput(f"in {path} the key does not belong to the certificate")
    if stat.S_IMODE(Path(path).stat().st_mode) & 0o077:
        notes.append(f"others may read {path}, which holds a private key; `chmod 600` it")
    return _identity(str(path), key, chain, notes)


def own(home: str, hosts: Iterable[str], now: float) -> Identity:
    """Return the home's own certificate for this machine and these hosts: made once, and renewed with the same key."""
    path = Path(home) / FILE_NAME
    named = [host for host in hosts if not is_wildcard(host)]
    if not path.exists():
        _make(path, ec.generate_private_key(ec.SECP256R1()), named, now)
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise Refused(f"others may read {path}, which holds a private key; `chmod 600 {path}`")
    found = load(path)
    if found.until - now > WARN_DAYS * 86400:
        return found
    key, _, _ = _from_pem(str(path), _read(path), None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        return found  # the owner has put another certificate there
    _make(path, key, named, now)
    return load(path)


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(FILE_MAX + 1)
    except OSError as error:
        raise BadInput(f"the certificate {path} cannot be read: {error.strerror}") from None
    if len(data) > FILE_MAX:
        raise BadInput(f"{path} is not a certificate: it is larger than {FILE_MAX:,} bytes")
    return data


def _from_pem(path: str, data: bytes, password: bytes | None) -> Loaded:
    notes = []
    if b"PRIVATE KEY-----" not in data:
        raise BadInput(f"{path} holds no private key; put certificate and key into one file")
    try:
        chain = x509.load_pem_x509_certificates(data)
    except ValueError:
        raise BadInput(f"{path} holds no certificate that can be read; put certificate and key into one file") from None
    encrypted = b"ENCRYPTED" in data
    if encrypted and password is None:
        raise BadInput(f"the key in {path} has a password; give it with --cert-pass-file FILE")
    if password and not encrypted:
        notes.append(f"the key in {path} has no password; the one given is not used")
    try:
        key = load_key(data, password if encrypted else None)
    except (ValueError, TypeError):
        why = "the password is wrong, or the key is damaged" if encrypted else "it is damaged or of an unknown kind"
        raise BadInput(f"the key in {path} cannot be read: {why}") from None
    return key, chain, notes


def _from_pkcs12(path: str, data: bytes, password: bytes | None) -> Loaded:
    if not data.startswith(DER_SEQUENCE):
        raise BadInput(f"{path} is neither PKCS#12 nor PEM")
    try:
        bag = pkcs12.load_pkcs12(data, password)
    except ValueError:
        if password is None:
            raise BadInput(f"{path} has a password; give it with --cert-pass-file FILE") from None
        raise BadInput(f"the password of {path} is wrong (or the file is damaged)") from None
    if bag.key is None:
        raise BadInput(f"{path} holds no private key; export it with `-inkey KEY`")
    if bag.cert is None:
        raise BadInput(f"{path} holds no certificate that belongs to its key")
    chain = [bag.cert.certificate, *(extra.certificate for extra in bag.additional_certs)]
    no_password = f"the certificate file {path} has no password: every user that can read it has the key"
    return bag.key, chain, [] if password else [no_password]


def _identity(path: str, key: PrivateKeyTypes, chain: list[x509.Certificate], notes: list[str]) -> Identity:
    pem = b"".join(each.public_bytes(Encoding.PEM) for each in chain)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    try:
        _load_chain(context, pem + key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    except (ssl.SSLError, ValueError) as error:
        raise BadInput(f"TLS cannot use {path}: {error}") from None
    first = chain[0]
    return Identity(
        context,
        key_pin(first.public_bytes(Encoding.DER)),
        names_of(first),
        first.not_valid_before_utc.timestamp(),
        first.not_valid_after_utc.timestamp(),
        notes,
    )


def _load_chain(context: ssl.SSLContext, pem: bytes) -> None:
    """Load a key from memory: the ssl module reads files only, and no other process can open this one."""
    fd = os.memfd_create("grass-tls", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(fd), "wb") as file:
            file.write(pem)
        context.load_cert_chain(f"/proc/self/fd/{fd}")
    finally:
        os.close(fd)


def names_of(certificate: x509.Certificate) -> tuple[str, ...]:
    """Return the names and addresses a certificate was made for."""
    names = [str(name.value) for name in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    with contextlib.suppress(x509.ExtensionNotFound, ValueError):
        others = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        names += others.get_values_for_type(x509.DNSName)
        names += [str(address) for address in others.get_values_for_type(x509.IPAddress)]
    return tuple(dict.fromkeys(name.lower() for name in names))


def _make(path: Path, key: ec.EllipticCurvePrivateKey, hosts: Iterable[str], now: float) -> None:
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    names = list(dict.fromkeys([socket.gethostname() or "localhost", "localhost", *hosts]))
    pem += _self_signed(key, names, now).public_bytes(Encoding.PEM)
    try:
        atomic_files.write_aside(str(path.parent), path.name, pem, sync=True)
    except OSError as error:
        raise Refused(f"{path} cannot be written: {error.strerror}") from None


def _self_signed(key: CertificateIssuerPrivateKeyTypes, hosts: list[str], now: float) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0][:COMMON_NAME_MAX])])
    begin = datetime.datetime.fromtimestamp(now, datetime.UTC) - datetime.timedelta(days=1)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + datetime.timedelta(days=OWN_DAYS))
        .add_extension(x509.SubjectAlternativeName([_general_name(host) for host in hosts]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    )
    return builder.sign(key, hashes.SHA256())


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        return x509.DNSName(host)
    except ValueError:
        raise GrassError(
            f"the name {host!r} of this machine cannot be in a certificate; give a certificate with --cert"
        ) from None
