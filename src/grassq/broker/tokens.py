"""Which clients and workers may connect over the network: codes, and the tokens that codes are exchanged for."""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from grassq import pins
from grassq.broker.batch import Batch
from grassq.core.job_options import NEUTRAL_PRIORITY
from grassq.core.names import shown
from grassq.errors import BadInput, NotFound, Refused
from grassq.store.base import PAGE_OF_OWNER, Scope, Token, TokenUsage

#: The name of the two codes a broker prints when it starts: one for a worker, one for a person.
START_UP = "start-up"
TOKENS_MAX = 10_000
NAME_MAX = 64
#: How long the session of a browser lasts that is not used, and how old a session is renewed when it is used.
SESSION_S = 30 * 86400.0
RENEW_S = 86400.0
#: The sessions of one token that the store keeps, those that have ended too: a token takes no place of other tokens.
SESSIONS_PER_TOKEN_MAX = 500
#: How far a clock may be set back before the codes that were made until then are void.
CLOCK_SLACK_S = 300.0
#: What a job takes for each job that it waits for: a row, its places in the indexes, and memory of the broker.
EDGE_BYTES = 200

#: Workers have the names of their hosts, which may begin with a digit.
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,63}", re.ASCII)

Kind = Literal["worker", "login"]


class TokenLimits(Struct, frozen=True):
    """What one token may have in the store at a time, and the highest priority it may give to a job."""

    jobs: int = 100_000
    bytes: int = 256 << 20
    priority: int = NEUTRAL_PRIORITY

    def check_priority(self, priority: int) -> None:
        """Raise Refused for a priority that the token may not give."""
        if priority > self.priority:
            raise Refused(
                f"your token may give priorities up to {self.priority}, not {priority}; "
                "`grass token create --priority-max N` at the broker makes a token that may give more"
            )


class Bearer(Struct, frozen=True):
    """The token that answers for new jobs, and its limits. The owner has no token, and an admin has no limits."""

    token: str | None = None
    limits: TokenLimits | None = None


OWNER = Bearer()


class Redemption(Struct, frozen=True, kw_only=True):
    """A code as presented, and the digest of the new secret that its bearer made."""

    code: str
    #: SHA-256 of the code's secret as presented.
    shown: bytes
    #: SHA-256 of the new secret, which the broker never sees.
    digest: bytes
    kind: Kind
    name: str
    #: The id of the new token, unless this request is a repetition.
    new_id: str
    #: Tokens that the bearer has already, each with the proof of it; bound to the code and to this broker's pin.
    holds: dict[str, str] = {}
    pin: bytes = b""


class Redeemed(Struct, frozen=True):
    """What a code was exchanged for."""

    token: Token
    #: An older login of the same client, which the new one replaces.
    ended: list[Token] = []
    #: By token: the proof that this broker knows it, so that its holder recognises the broker by another key.
    proofs: dict[str, str] = {}


def tokens(batch: Batch) -> dict[str, Token]:
    """Return every token and code by id, with the changes of this batch."""
    return {token.id: token for token in batch.store.tokens()} | batch.changes.tokens


def digest_of(secret: str) -> bytes:
    """Return what the store keeps of a secret."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()


def names(batch: Batch) -> dict[str, str]:
    """Return the name of each token, by its id."""
    return {token.id: token.name for token in batch.store.tokens()}


def is_live(token: Token, now: float) -> bool:
    """Tell whether a token or code is still valid."""
    return token.ended is None and (token.expires is None or now < token.expires) and not _is_from_future(token, now)


def _is_from_future(token: Token, now: float) -> bool:
    """Tell whether a code was made while the clock was ahead: it would live until the clock is there again."""
    return token.is_code and token.created > now + CLOCK_SLACK_S


def create(batch: Batch, code: Token) -> Token:
    """Store a new code; the same code again changes nothing."""
    known = tokens(batch)
    if (before := known.get(code.id)) is not None:
        if before.digest != code.digest:
            raise Refused("another code has the same id by chance; try again")
        return before
    # The limit does not hold for the start-up code: a broker that starts often must not be kept from starting.
    if len(known) >= TOKENS_MAX and code.name != START_UP:
        raise Refused(f"there are {TOKENS_MAX:,} tokens and codes already; `grass token` lists them")
    if code.name == START_UP:
        # Only the codes on the screen count; the start-up codes of earlier starts are void.
        for old in known.values():
            if old.is_code and old.name == START_UP and old.scope == code.scope and old.ended is None:
                batch.changes.tokens[old.id] = replace(old, ended=batch.now)
    batch.changes.tokens[code.id] = code
    return code


def redeem(batch: Batch, asked: Redemption) -> Redeemed:
    """Exchange a code for a token, once; the same exchange again returns the same token.

    A machine that is a worker already stays this worker, with the token it has. A login ends the client's older login;
    the jobs of that login go on.
    """
    known = tokens(batch)
    held = [known[id_] for id_, given in asked.holds.items() if id_ in known and _is_held(known[id_], asked, given)]
    token = _exchange(batch, known, held, asked)
    ended = []
    for old in held:
        if asked.kind == "login" and old.scope != "worker" and old.id != token.id and old.ended is None:
            ended.append(replace(old, ended=batch.now, became=token.id))
            batch.changes.tokens[old.id] = ended[-1]
    return Redeemed(token, ended, {old.id: pins.proof(old.digest, "broker", asked.code, asked.pin) for old in held})


def _is_held(token: Token, asked: Redemption, given: str) -> bool:
    expected = pins.proof(token.digest, "client", asked.code, asked.pin)
    return not token.is_code and given.isascii() and hmac.compare_digest(given, expected)


def _exchange(batch: Batch, known: dict[str, Token], held: list[Token], asked: Redemption) -> Token:
    code = known.get(asked.code)
    digest = code.digest if code is not None and code.is_code else b"\0" * 32
    if not hmac.compare_digest(digest, asked.shown) or code is None or not code.is_code:
        raise Refused("this broker does not know that code; copy it whole, or ask for a new one (`grass token create`)")
    if code.ended is not None:
        return _again(known, code, held, asked)
    if _is_from_future(code, batch.now):
        raise Refused("this code was made while the broker's clock was ahead; ask for a new one (`grass token create`)")
    if not is_live(code, batch.now):
        raise Refused("this code has expired; ask for a new one (`grass token create`)")
    scope = _scope(code, asked.kind)
    for old in held:
        if scope == old.scope == "worker" and is_live(old, batch.now):
            batch.changes.tokens[code.id] = replace(code, ended=batch.now, became=old.id)
            return old
    if asked.new_id in known:
        raise Refused("another token has the same id by chance; try again")
    wanted = asked.name if code.name in ("", START_UP) else code.name
    token = Token(
        id=asked.new_id,
        digest=asked.digest,
        scope=scope,
        name=_unique(batch, known, check_holder_name(wanted)) if scope == "worker" else check_holder_name(wanted),
        created=batch.now,
        queues=None if scope == "worker" else code.queues,
        bare=scope != "worker" and code.bare,
        priority_max=code.priority_max,
    )
    batch.changes.tokens[token.id] = token
    batch.changes.tokens[code.id] = replace(code, ended=batch.now, became=token.id)
    return token


def _again(known: dict[str, Token], code: Token, held: list[Token], asked: Redemption) -> Token:
    token = known.get(code.became or "")
    same = token is not None and (token in held or hmac.compare_digest(token.digest, asked.digest))
    if not same or token is None or token.ended is not None or (token.scope == "worker") != (asked.kind == "worker"):
        raise Refused(
            "this code was used already or revoked; if you did not use it, tell the broker's owner: `grass token` lists"
            " the token that was made with it"
        )
    return token


def _scope(code: Token, kind: Kind) -> Scope:
    if kind == "worker":
        if code.scope != "worker":
            raise Refused("this code is for a person, not for a worker; `grass login` takes it")
        return "worker"
    if code.scope == "worker":
        raise Refused("this code is for a worker, not for a person; `grass join` takes it")
    return code.scope


def usage_of(batch: Batch, token: str) -> TokenUsage:
    """Return what a token uses of its limits: its unfinished jobs, and the ends of other jobs that they wait for."""
    used = batch.usage(token)
    return TokenUsage(used.jobs, used.bytes + EDGE_BYTES * batch.board.dependencies.edges_of(token))


def take_up(batch: Batch, bearer: Bearer, jobs: int, size: int, edges: int = 0) -> None:
    """Count new jobs for a token; raise Refused if the token has ended, or if the jobs are beyond its limits.

    `edges` says how many ends of other jobs the new jobs wait for; each counts as EDGE_BYTES until it has come.
    """
    if bearer.token is None:
        return
    if bearer.token in batch.board.ended_tokens:
        raise Refused("your token was revoked; ask the broker's owner for a new code")
    stored, used = batch.usage(bearer.token), usage_of(batch, bearer.token)
    total = TokenUsage(stored.jobs + jobs, stored.bytes + size)
    if bearer.limits is not None and total.jobs > bearer.limits.jobs:
        raise Refused(
            f"your token may have {bearer.limits.jobs:,} unfinished jobs, has {used.jobs:,}, and this would add "
            f"{jobs:,}; wait until some have ended, or ask the broker's owner (setting token_jobs)"
        )
    size += EDGE_BYTES * edges
    if bearer.limits is not None and used.bytes + size > bearer.limits.bytes:
        raise Refused(
            f"the unfinished jobs of your token may take {_mib(bearer.limits.bytes)}, take {_mib(used.bytes)}, and "
            f"this would add {_mib(size)}; wait until some have ended, or ask the broker's owner (setting token_mib)"
        )
    batch.used[bearer.token] = total


def _mib(size: int) -> str:
    return f"{size / (1 << 20):,.1f} MiB"


def check_holder_name(text: str) -> str:
    """Return the name if a worker or a person may have it; else raise BadInput."""
    if _NAME.fullmatch(text) is None:
        raise BadInput(
            f"{shown(text)} cannot be a name: a letter or digit, then letters, digits or '_.-', at most {NAME_MAX}"
        )
    return text


def _unique(batch: Batch, known: dict[str, Token], wanted: str) -> str:
    """Return the name, or the name with a number: the names of two workers differ, also without regard to case."""
    machines = (
        *batch.board.workers,
        *batch.worker_records,
        *batch.changes.workers,
        *batch.changes.worker_records,
    )
    taken = {name.casefold() for name in machines}
    # The name of a code that was not redeemed is free: the worker that redeems the code gets it.
    tokens_of_workers = (each for each in known.values() if each.scope == "worker" and not each.is_code)
    taken |= {token.name.casefold() for token in tokens_of_workers if token.ended is None}
    if wanted.casefold() not in taken:
        return wanted
    numbered = (f"{wanted[: NAME_MAX - len(str(n)) - 1]}-{n}" for n in range(2, len(taken) + 3))
    return next(name for name in numbered if name.casefold() not in taken)


def revoke(batch: Batch, which: str) -> Token:
    """End a token or a code, by its id or by its name; a token that has ended stays ended."""
    known = tokens(batch)
    token = known.get(which)
    if token is None:
        named = [each for each in known.values() if each.name == which and is_live(each, batch.now)]
        if not named:
            raise NotFound(f"there is no token {shown(which)}; `grass token` lists them")
        if len(named) > 1:
            ids = ", ".join(each.id for each in named[:5])
            raise Refused(f"{len(named)} tokens are called {shown(which)}; say which one by its id: {ids}")
        token = named[0]
    if token.is_code and token.became is not None:
        raise Refused(f"this code was exchanged for token {token.became}; `grass token revoke {token.became}` ends it")
    if token.ended is None or token.became is not None:
        token = batch.changes.tokens[token.id] = replace(token, ended=token.ended or batch.now, became=None)
    if not token.is_code:
        # From this commit on no job starts for which the token answers, whether the job is held already or not.
        batch.board.ended_tokens.add(token.id)
    return token


def give_up(batch: Batch, id_: str) -> Token:
    """End a token at the wish of its holder, whose jobs go on; `became` tells it from a revoked token."""
    token = tokens(batch)[id_]
    if token.ended is None:
        token = batch.changes.tokens[id_] = replace(token, ended=batch.now, became=id_)
    return token


def open_session(batch: Batch, session: Token) -> Token:
    """Store the session of a browser; raise Refused if the token that it acts for has ended, or for too many tokens."""
    known = tokens(batch)
    if session.id in known:
        raise Refused("another token has the same id by chance; try again")
    if len(known) >= TOKENS_MAX:
        raise Refused(f"there are {TOKENS_MAX:,} tokens and codes already; `grass token` lists them")
    of_same = sum(each.page_of == session.page_of for each in known.values())
    if session.page_of != PAGE_OF_OWNER and of_same >= SESSIONS_PER_TOKEN_MAX:
        raise Refused(
            f"{of_same} pages were opened with this token in the last weeks; use one of them, or log out of some and "
            "open a new one in a week"
        )
    parent = known.get(session.page_of or "")
    if session.page_of != PAGE_OF_OWNER and (parent is None or not is_live(parent, batch.now)):
        raise Refused("the token that this page was opened with has ended; `grass web` opens a new one")
    session = replace(session, created=batch.now, expires=batch.now + SESSION_S)
    batch.changes.tokens[session.id] = session
    return session


def renew_session(batch: Batch, id_: str) -> Token:
    """Let a session that is used last longer; leave one that has ended as it is."""
    session = tokens(batch)[id_]
    if is_live(session, batch.now):
        session = batch.changes.tokens[id_] = replace(session, expires=batch.now + SESSION_S)
    return session


def end_sessions(batch: Batch, page_of: str | None) -> list[Token]:
    """End the sessions of browsers that act for one token, or all; their jobs go on."""
    live = [each for each in tokens(batch).values() if each.page_of is not None and is_live(each, batch.now)]
    return [give_up(batch, each.id) for each in live if page_of in (None, each.page_of)]


def is_revoked(token: Token) -> bool:
    """Tell whether a token was revoked: not exchanged for another, and not given up by its holder."""
    return token.ended is not None and token.became is None


def end_worker(batch: Batch, worker: str) -> list[Token]:
    """End every token of a worker; return those that end in this batch."""
    for token in of_worker(batch, worker):
        if token.ended is None:
            batch.changes.tokens[token.id] = replace(token, ended=batch.now)
    return [token for token in of_worker(batch, worker) if token.id in batch.changes.tokens]


def of_worker(batch: Batch, worker: str) -> list[Token]:
    """Return every token a worker of this name has or had."""
    found = tokens(batch).values()
    return [token for token in found if token.scope == "worker" and token.name == worker and not token.is_code]
