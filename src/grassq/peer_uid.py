"""The user at the other end of a TCP connection on loopback, as the kernel tells.

Every user of a machine can connect to its loopback addresses. The kernel knows whose process has the other end.
"""

from __future__ import annotations

import os
import socket
import struct
from typing import Any

#: Asked where the kernel does not answer questions about one socket.
TABLES = {socket.AF_INET: "/proc/net/tcp", socket.AF_INET6: "/proc/net/tcp6"}
#: Bytes of a table that are read at most: some 200,000 connections.
TABLE_MAX = 32 << 20
ANSWER_MAX = 8192
WAIT_S = 1.0

# Of the kernel's interface `sock_diag`.
NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
NLM_F_REQUEST = 1
NLMSG_ERROR = 2
ENOENT = 2
ANY_STATE = 0xFFFFFFFF
NO_COOKIE = (0xFFFFFFFF, 0xFFFFFFFF)
_HEADER = struct.Struct("=IHHII")
#: The family, the state and more of a socket, its ports and addresses, and six numbers: the last two are uid and inode.
_SOCKET = struct.Struct("=BBBB HH16s16sIII IIIII")

#: An address and a port, as the socket module has them.
Endpoint = tuple[Any, ...]


def uid_of_peer(here: Endpoint, there: Endpoint) -> int | None:
    """Return the user of the process at `there` that is connected to `here`; None if the kernel tells of none.

    A process that has closed its end is not told of; one that has only ended its sending is.
    """
    try:
        return _ask(here, there)
    except (OSError, struct.error):
        return _read(here, there)


def is_own(here: Endpoint, there: Endpoint) -> bool:
    """Tell whether a process of this user, or of root, has the other end of a connection between these addresses.

    For a process that has closed its end the answer is no. Where the kernel shows no connections at all, not even this
    end, the answer is yes: this is for doors that have another lock too.
    """
    uid = uid_of_peer(here, there)
    return uid in (0, os.geteuid()) if uid is not None else uid_of_peer(there, here) is None


def _ask(here: Endpoint, there: Endpoint) -> int | None:
    """Ask about the one socket; raise OSError if the kernel does not answer such questions."""
    family = socket.AF_INET6 if ":" in str(there[0]) else socket.AF_INET
    source, target = (socket.inet_pton(family, _plain(end)).ljust(16, b"\0") for end in (there, here))
    ports = struct.pack(">HH", there[1], here[1])
    wanted = struct.pack("=BBBBI", family, socket.IPPROTO_TCP, 0, 0, ANY_STATE) + ports + source + target
    wanted += struct.pack("=III", 0, *NO_COOKIE)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as kernel:
        kernel.settimeout(WAIT_S)
        kernel.send(_HEADER.pack(_HEADER.size + len(wanted), SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, 1, 0) + wanted)
        answer = kernel.recv(ANSWER_MAX)
    _, kind, _, _, _ = _HEADER.unpack_from(answer)
    if kind == NLMSG_ERROR:
        (error,) = struct.unpack_from("=i", answer, _HEADER.size)
        if -error == ENOENT:
            return None
        raise OSError(-error, os.strerror(-error))
    found = _SOCKET.unpack_from(answer, _HEADER.size)
    # Without an inode no process has the socket any more: then the uid is 0 or an old one.
    return int(found[-2]) if found[-1] else None


def _read(here: Endpoint, there: Endpoint) -> int | None:
    """Look the connection up in the tables of all connections, which takes milliseconds where there are many."""
    for family, table in TABLES.items():
        try:
            own, other = _written(family, there), _written(family, here)
            with open(table, encoding="ascii", errors="replace") as file:  # noqa: PTH123
                lines = file.read(TABLE_MAX).splitlines()[1:]
        except (OSError, ValueError):
            continue
        for line in lines:
            fields = line.split()
            if len(fields) > 9 and fields[1:3] == [own, other] and fields[9] != "0":
                return int(fields[7]) if fields[7].isdigit() else None
    return None


def _plain(end: Endpoint) -> str:
    return str(end[0]).partition("%")[0]


def _written(family: int, where: Endpoint) -> str:
    """Return an address as a table has it: words of 32 bits in the order of this machine, then the port.

    An IPv4 address is in the table of IPv6, too, if a socket of IPv6 is connected to it.
    """
    address = _plain(where)
    if family == socket.AF_INET6 and ":" not in address:
        address = f"::ffff:{address}"
    raw = socket.inet_pton(family, address.removeprefix("::ffff:") if family == socket.AF_INET else address)
    words = struct.unpack(f"={len(raw) // 4}I", raw)
    return "".join(f"{word:08X}" for word in words) + f":{where[1]:04X}"
