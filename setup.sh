#!/bin/sh
# Make a virtual environment and install Grass into it: ./setup.sh FOLDER WHAT
set -eu
folder=$1
what=$2
python=${PYTHON:-python3}

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "grass: $python is older than 3.11; install Python 3.11 or say PYTHON=/path/to/one" >&2
    exit 1
fi
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    # Debian and Ubuntu ship venv as a package of its own.
    package=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "grass: $python has no venv; run: sudo apt-get install $package" >&2
        exit 1
    fi
    echo "installing $package, which this machine lacks"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq && apt-get install -qq -y "$package" >/dev/null
fi
"$folder/bin/python" -m pip --version >/dev/null 2>&1 || "$python" -m venv --clear "$folder"
echo "setting up $folder with $what (about half a minute)"
if ! "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --editable "$what"; then
    echo "grass: the set-up needs a package index once; see pip's words above" >&2
    exit 1
fi
if [ ! -e src/grassq/web/static/index.html ]; then
    echo "grass: this install has no web page: install Node.js 20 or newer (npm), then run this again; all commands work without it"
fi
