"""This very Grass as a wheel, to be installed on another machine in the same version."""

from __future__ import annotations

import importlib.metadata
import io
import stat
import zipfile
from pathlib import Path

import grassq
from grassq.errors import Refused

_SCRIPT = "#!python\nimport sys\n\nfrom grassq.cli.fast import main\n\nsys.exit(main(sys.argv[1:]))\n"
_WHEEL = "Wheel-Version: 1.0\nGenerator: grassq\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def own_wheel() -> tuple[str, bytes]:
    """Return the name and the content of a wheel with the modules that run now, and what they require."""
    try:
        metadata = importlib.metadata.distribution("grassq").read_text("METADATA")
    except importlib.metadata.PackageNotFoundError:
        metadata = None
    if metadata is None:
        raise Refused("this Grass was not installed, so it does not know what it requires; `pip install` it first")
    version = grassq.__version__
    about = f"grassq-{version}.dist-info"
    folder = Path(grassq.__file__).parent
    files = {
        f"grassq/{path.relative_to(folder)}": path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    files |= {f"grassq-{version}.data/scripts/{name}": _SCRIPT.encode() for name in ("grass", "grassq")}
    files |= {f"{about}/METADATA": metadata.encode(), f"{about}/WHEEL": _WHEEL.encode()}
    files[f"{about}/RECORD"] = "".join(f"{name},,\n" for name in (*files, f"{about}/RECORD")).encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            member = zipfile.ZipInfo(name)
            member.compress_type = zipfile.ZIP_DEFLATED
            member.external_attr = (stat.S_IFREG | (0o755 if "/scripts/" in name else 0o644)) << 16
            archive.writestr(member, content)
    return f"grassq-{version}-py3-none-any.whl", buffer.getvalue()
