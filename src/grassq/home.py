"""The directory of a user's state, and what the environment says about it.

Every command loads it, so it imports `os` only.
"""

# pathlib would cost 13 ms, more than the rest of an enqueue.
# ruff: noqa: PTH100, PTH101, PTH102, PTH103, PTH109, PTH110, PTH112, PTH116, PTH120, PTH208

from __future__ import annotations

import os
import stat
import sys

from grassq.errors import BadInput, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

SOCKET_NAME = "grass.sock"
LOG_NAME = "daemon.log"
#: The folder with the content of what jobs are sent, by its hash.
BLOBS_NAME = "blobs"
#: Holds the address that `grass use` chose.
BROKER_NAME = "broker"
#: Holds the addresses of the broker that this machine works for; exists while the home has no queue of its own.
JOINED_NAME = "joined"
BROKER_LIMIT = 4096
#: In place of an address: this machine's own queue, or the broker's if the machine is only a worker.
LOCAL = "local"
#: The file of a working tree that names its project, how many directories up it is looked for, and its most bytes.
TREE_FILE = "grass.toml"
TREE_DEPTH, TREE_FILE_MAX = 64, 64 << 10
MOUNTINFO = "/proc/self/mountinfo"
#: Bytes of the mount table read at most; machines with thousands of container mounts stay below.
MOUNTINFO_LIMIT = 16 << 20

#: SQLite's WAL and flock are unsafe or slow on these.
# fmt: off
NETWORK_FILE_SYSTEMS = frozenset({
    "9p", "acfs", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "gfs", "gfs2", "glusterfs", "gpfs", "lustre",
    "ncp", "ncpfs", "nfs", "nfs3", "nfs4", "ocfs2", "openafs", "orangefs", "panfs", "prl_fs", "pvfs2", "quobyte",
    "smb2", "smb3", "smbfs", "vboxsf", "vmhgfs", "wekafs", "fuse.beegfs", "fuse.ceph", "fuse.ceph-fuse",
    "fuse.cephfs", "fuse.davfs", "fuse.dfuse", "fuse.gcsfuse", "fuse.glusterfs", "fuse.goofys", "fuse.juicefs",
    "fuse.lizardfs", "fuse.mfs", "fuse.moosefs", "fuse.quobyte", "fuse.rclone", "fuse.s3fs", "fuse.smbnetfs",
    "fuse.sshfs", "fuse.vmhgfs-fuse",
})
# fmt: on


def find(environ: Mapping[str, str], *, mountinfo: str = MOUNTINFO) -> str:
    """Return the directory of this user's queue: $GRASS_HOME, else the XDG state directory, else a local stand-in."""
    explicit = environ.get("GRASS_HOME", "")
    path = _absolute(explicit) if explicit else _default(environ)
    # A socket is made only in a directory that passed the check below, so most calls read no mount table.
    if os.path.exists(path + "/" + SOCKET_NAME):
        return path
    kind = file_system(path, mountinfo=mountinfo)
    if kind not in NETWORK_FILE_SYSTEMS:
        return path
    if explicit:
        raise Refused(
            f"GRASS_HOME={path} is on a network file system ({kind}), where the store could be damaged;"
            " set it to a directory on a local disk"
        )
    return stand_in()


def current() -> str:
    """Return the home that this process's environment names."""
    return find(os.environ)


def is_usual(home: str) -> bool:
    """Tell whether a home is the one of a user that chose none."""
    return home in (_default(os.environ), stand_in())


def is_guessed() -> bool:
    """Tell whether the environment names no home, so that the password database does."""
    names = os.environ.get("XDG_STATE_HOME", ""), os.environ.get("HOME", "")
    return not os.environ.get("GRASS_HOME") and not any(name.startswith("/") for name in names)


def broker(home: str, typed: str | None = None) -> str | None:
    """Return the broker a command goes to: as typed, else $GRASS_BROKER, else what `grass use` chose, else `local`.

    `local` is None, the daemon of this home; on a machine that is only a worker it is the broker the machine works for.
    """
    text = typed if typed is not None else os.environ.get("GRASS_BROKER") or _line_of(home, BROKER_NAME) or LOCAL
    return (joined(home) or None) if text == LOCAL else text


def broker_named_by(home: str) -> str:
    """Return why `broker` gives its answer when nothing is typed; "" for the daemon of this home."""
    for text, named_by in (
        (os.environ.get("GRASS_BROKER"), "GRASS_BROKER"),
        (_line_of(home, BROKER_NAME), "`grass use`"),
    ):
        if text and text != LOCAL:
            return named_by
    return "this machine is a worker of it" if joined(home) else ""


def joined(home: str) -> str:
    """Return the addresses of the broker that this machine works for; "" for a home with a queue of its own."""
    return _line_of(home, JOINED_NAME)


def certificate_password() -> str | None:
    """Return $GRASS_CERT_PASS and remove it from the environment, so that no child process inherits it."""
    return os.environ.pop("GRASS_CERT_PASS", None)


def environment() -> dict[bytes, bytes]:
    """Return a copy of this process's environment, as bytes."""
    # CPython keeps it as bytes; a copy of `os.environb` encodes every name and decodes every value twice.
    kept: dict[bytes, bytes] | None = getattr(os.environ, "_data", None)
    return dict(os.environb if kept is None else kept)


class Sender:
    """What is sent of this machine with a request: a directory, an environment and a umask."""

    __slots__ = ("cwd", "env", "umask")

    def __init__(self, cwd: bytes, env: Mapping[bytes, bytes], umask: int) -> None:
        self.cwd, self.env, self.umask = cwd, env, umask

    @classmethod
    def to(cls, broker: str | None, cwd: bytes | None = None) -> Sender:
        """Return what goes to this machine's daemon: the directory that is given, and the rest as this process has it.

        Nothing of this machine goes to a broker: a job there gets the worker's directory, environment and umask.
        """
        if broker is not None:
            return cls(b"/", {}, 0o022)
        return cls(working_directory() if cwd is None else cwd, environment(), umask())


def umask() -> int:
    """Return this process's umask."""
    threading = sys.modules.get("threading")
    if threading is not None and threading.active_count() > 1:
        # Read, not set and set back: another thread may be making files.
        parts = _read("/proc/self/status").partition(b"\nUmask:")[2].split(None, 1)
        return int(parts[0], 8) if parts else 0o077
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def working_directory() -> bytes:
    """Return the current directory; raise BadInput if it is gone or may not be entered."""
    try:
        return os.getcwdb()
    except OSError as error:
        raise BadInput(f"the current directory cannot be used ({error.strerror}); cd to another one") from error


def project() -> str:
    """Return the project that this process's environment names; "" if it names none."""
    return os.environ.get("GRASS_PROJECT", "")


def tree_project(directory: bytes | None = None) -> str:
    """Return the project that `grass.toml` of the working tree names; "" if there is none, or $GRASS_PROJECT is set.

    The nearest such file counts, from the directory up to the user's home directory or the root. The file in the home
    of Grass has settings, and a file of another user decides nothing: anyone can put one into /tmp.
    """
    if os.environ.get("GRASS_PROJECT"):
        return ""
    try:
        place = os.getcwd() if directory is None else os.fsdecode(directory)
    except OSError:
        return ""
    top = os.environ.get("HOME", "")
    for _ in range(TREE_DEPTH):
        path = place.rstrip("/") + "/" + TREE_FILE
        try:
            found = os.lstat(path)
        except OSError:
            found = None
        if found is not None and found.st_uid in (0, os.geteuid()) and place != current():
            return _tree_file_project(path)
        if place in (top, "/"):
            return ""
        place = os.path.dirname(place)
    return ""


def _tree_file_project(path: str) -> str:
    """Return the project in a `grass.toml` of a working tree; raise BadInput if the file has anything else."""
    import tomllib  # only where there is a file: it takes longer to load than all else

    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_uid not in (0, os.geteuid()):
                return ""
            raw = os.read(descriptor, TREE_FILE_MAX + 1)
        finally:
            os.close(descriptor)
        if len(raw) > TREE_FILE_MAX:
            raise BadInput(f"{path} is longer than {TREE_FILE_MAX:,} bytes; it has one key: project")
        values = tomllib.loads(raw.decode())
    except (OSError, ValueError, RecursionError) as error:
        # Also of text that is not UTF-8 or not TOML, and of a number with thousands of digits.
        raise BadInput(f"{path} cannot be read: {error}") from None
    for key in values:
        if key != "project":
            raise BadInput(f"{path} has the key {key[:80]!r}; in a working tree this file has one key: project")
    project = values.get("project", "")
    if not isinstance(project, str) or not project.isprintable():
        found = f"{project[:80]!r}" if isinstance(project, str) else type(project).__name__
        raise BadInput(f"{path}: project is a name in quotes, not {found}")
    return project


def environment_text() -> Mapping[str, str]:
    """Return this process's environment as text."""
    return os.environ


def directory_text() -> str | None:
    """Return the working directory; None if it is gone, or if its name is no text."""
    try:
        name = os.getcwd()
    except OSError:
        return None
    return name if name.isprintable() else None


def ssh_agent() -> str | None:
    """Return the socket of this user's ssh agent; a daemon in the background may know an older one only."""
    path = os.environ.get("SSH_AUTH_SOCK", "")
    return path if path.startswith("/") and path.isprintable() else None


def stand_in() -> str:
    """Return the directory used when the default directory is on a network file system."""
    return f"/var/tmp/grass-{os.getuid()}"


def file_system(path: str, *, mountinfo: str = MOUNTINFO) -> str:
    """Return the type of the file system that holds `path`, or will hold it; "" if it is unknown."""
    table = _read(mountinfo)
    real = os.fsencode(os.path.realpath(path))
    longest, kind = -1, b""
    for line in table.split(b"\n"):
        mount, _, rest = line.partition(b" - ")
        fields = mount.split(b" ")
        if len(fields) < 5 or not rest:
            continue
        point = _unescape(fields[4]).rstrip(b"/")
        # `>=`: of two mounts on one point the later covers the earlier.
        if len(point) >= longest and (real == point or real.startswith(point + b"/")):
            longest, kind = len(point), rest.split(b" ", 1)[0]
    return os.fsdecode(kind)


def prepare(path: str) -> bool:
    """Make the home for its owner only, and check that it can be used; return True if it was made now."""
    made = _make(path)
    try:
        status = os.lstat(path) if path == stand_in() else os.stat(path)
    except NotADirectoryError as error:
        raise BadInput(f"cannot make {path}: a part of that path is not a directory; set GRASS_HOME") from error
    except OSError as error:
        raise Refused(f"cannot use {path}: {error.strerror}; set GRASS_HOME to another directory") from error
    if not stat.S_ISDIR(status.st_mode):
        raise BadInput(f"{path} is not a directory; move it away, or set GRASS_HOME to another directory")
    if status.st_uid != os.geteuid():
        raise Refused(f"{path} belongs to uid {status.st_uid}, not to you; set GRASS_HOME to a directory of your own")
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK, effective_ids=True):
        raise Refused(f"{path} cannot be read and written by you; `chmod 700 {path}`, or set GRASS_HOME elsewhere")
    if status.st_mode & 0o077:
        _close_to_others(path, status.st_mode)
    return made


def _line_of(home: str, name: str) -> str:
    try:
        descriptor = os.open(f"{home}/{name}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        # Not read as "none": the job would go into another queue without a word.
        again = "`grass use`" if name == BROKER_NAME else "`grass restart`"
        raise Refused(f"cannot read {home}/{name}: {error.strerror}; {again} writes a new one") from error
    try:
        return os.fsdecode(os.read(descriptor, BROKER_LIMIT)).strip()
    finally:
        os.close(descriptor)


def _default(environ: Mapping[str, str]) -> str:
    # By the XDG rules a relative path is ignored.
    state = environ.get("XDG_STATE_HOME", "")
    if state.startswith("/"):
        return os.path.normpath(state) + "/grass"
    return os.path.normpath(_user_directory(environ)) + "/.local/state/grass"


def _user_directory(environ: Mapping[str, str]) -> str:
    stated = environ.get("HOME", "")
    if stated.startswith("/"):
        if not os.path.isdir(stated):
            # Never made: with a wrong HOME the user would get another queue, and root a stray directory.
            raise BadInput(f"HOME={stated} is not a directory; set HOME or GRASS_HOME")
        return stated
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        raise BadInput("cannot tell your home directory (HOME is not set); set GRASS_HOME") from None


def _absolute(path: str) -> str:
    try:
        return os.path.abspath(path)
    except OSError as error:
        raise BadInput(f"GRASS_HOME={path} is relative and the current directory is gone: {error.strerror}") from error


def _read(path: str) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    parts: list[bytes] = []
    try:
        size = 0
        while size < MOUNTINFO_LIMIT and (part := os.read(descriptor, 1 << 16)):
            parts.append(part)
            size += len(part)
    finally:
        os.close(descriptor)
    return b"".join(parts)


def _unescape(text: bytes) -> bytes:
    # The kernel writes these bytes, and no others, as a backslash and three octal digits; the backslash comes last.
    for byte in b" \t\n#\\":
        text = text.replace(b"\\%03o" % byte, bytes([byte]))
    return text


def _make(path: str) -> bool:
    if os.path.isdir(path):
        return False
    try:
        os.makedirs(os.path.dirname(path) or "/", exist_ok=True)
        os.mkdir(path, 0o700)
    except (FileExistsError, NotADirectoryError):
        # Another command made it at the same moment, or a file is in its path: the checks tell which.
        return False
    except OSError as error:
        raise Refused(f"cannot make {path}: {error.strerror}; set GRASS_HOME to a directory you can write") from error
    return True


def _close_to_others(path: str, mode: int) -> None:
    # Only an empty directory is surely for Grass alone: GRASS_HOME=/tmp typed by root must not close /tmp.
    if not os.listdir(path):
        os.chmod(path, 0o700)
    elif mode & 0o022:
        raise Refused(f"others may write in {path}; `chmod go-w {path}`, or set GRASS_HOME to another directory")
