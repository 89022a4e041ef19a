"""A stand-in for a broker on another machine: TLS with a certificate of its own, and the answers a test tells it."""

from __future__ import annotations

import datetime
import hashlib
import socket
import ssl
import threading
from pathlib import Path
from types import TracebackType

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.cli.fake import Handler, Request, _read

from grassq.core.syntax.addresses import Address
from grassq.core.syntax.join_codes import Code, encode
from grassq.net import broker_file

TOKEN = "0a1b2c3d." + "s" * 43
STORE_ID = "f" * 32


class Certificate:
    """A self-signed certificate that names no host, as the README's openssl lines make them."""

    def __init__(self, directory: Path, *, expired: bool = False) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Internet Widgits Pty Ltd")])
        until = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=-1 if expired else 1)
        made = (
            x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(until - datetime.timedelta(days=30)).not_valid_after(until)
            .sign(key, hashes.SHA256())
        )  # fmt: skip
        #: What earlier releases pinned, which is still good; and what is pinned now.
        self.fingerprint = hashlib.sha256(made.public_bytes(serialization.Encoding.DER)).digest()
        public = serialization.PublicFormat.SubjectPublicKeyInfo
        self.key_pin = hashlib.sha256(key.public_key().public_bytes(serialization.Encoding.DER, public)).digest()
        self.path = directory / f"{self.fingerprint.hex()[:8]}.pem"
        secret = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        self.path.write_bytes(secret + made.public_bytes(serialization.Encoding.PEM))


class FakeBroker:
    """Listens on a port and keeps every request it saw, and how many bytes came after the handshake."""

    def __init__(
        self,
        certificate: Certificate,
        handler: Handler,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        newest: ssl.TLSVersion = ssl.TLSVersion.MAXIMUM_SUPPORTED,
    ) -> None:
        self.requests: list[Request] = []
        self.handshakes = 0
        self._handler = handler
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        self._context.maximum_version = newest
        self._context.load_cert_chain(certificate.path)
        self._socket = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        self.port = int(self._socket.getsockname()[1])
        self.address = Address(host, self.port)
        self.heard = b""
        self._threads: list[threading.Thread] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> FakeBroker:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)
        self._socket.close()
        for thread in self._threads:
            thread.join(5)

    def _serve(self) -> None:
        while True:
            try:
                plain, _ = self._socket.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._converse, args=(plain,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _converse(self, plain: socket.socket) -> None:
        try:
            with self._context.wrap_socket(plain, server_side=True) as connection:
                self.handshakes += 1
                connection.settimeout(10)
                with connection.makefile("rb") as incoming:
                    while (request := _read(_Tap(incoming, self))) is not None:
                        self.requests.append(request)
                        answer = self._handler(request)
                        if answer is None:
                            return
                        connection.sendall(answer)
                        if b"Content-Length" not in answer.split(b"\r\n\r\n")[0]:
                            return
        except OSError:
            return
        finally:
            plain.close()


class _Tap:
    """Notes what is read on its way."""

    def __init__(self, incoming: object, broker: FakeBroker) -> None:
        self._incoming, self._broker = incoming, broker

    def readline(self) -> bytes:
        line: bytes = self._incoming.readline()  # type: ignore[attr-defined]
        self._broker.heard += line
        return line

    def read(self, length: int) -> bytes:
        part: bytes = self._incoming.read(length)  # type: ignore[attr-defined]
        self._broker.heard += part
        return part


def closed_port(host: str = "127.0.0.1") -> Address:
    """An address where nobody listens."""
    with socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET) as taken:
        return Address(host, int(taken.getsockname()[1]))


def let_in(
    home: Path,
    fingerprint: bytes,
    *addresses: Address,
    login: str | None = TOKEN,
    worker: str | None = None,
    store_id: str = STORE_ID,
) -> None:
    """Write down a broker as `grass login` and `grass join` do."""
    entry = broker_file.KnownBroker(list(addresses), fingerprint, store_id)
    entry.login = None if login is None else broker_file.Permission(login, "ann", "submit")
    entry.worker = None if worker is None else broker_file.Permission(worker, "box", "worker")
    with broker_file.changing(str(home)) as book:
        book.entries.append(entry)


def code_for(certificate: Certificate, *addresses: Address, id: str = "c0de0001", secret: str = "q" * 43) -> str:
    """A code as a broker prints it."""
    return encode(Code(list(addresses), certificate.fingerprint, id, secret))
