#!/bin/sh
# What `python -m bench peers` and `python -m bench page` compare with, each optional: bench/needs.sh [FOLDER]
# As root on Debian or Ubuntu it installs programs; the Python ones go into an environment of their own.
set -eu
cd "$(dirname "$0")/.."
folder=${1:-.venv-peers}
python=${PYTHON:-python3}
wanting=

for pair in parallel:parallel tsp:task-spooler; do
    program=${pair%%:*} package=${pair#*:}
    if command -v "$program" >/dev/null; then
        continue
    fi
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "installing $package"
        export DEBIAN_FRONTEND=noninteractive
        # The lists of packages only where the first try finds nothing: they may be there already.
        apt-get install -qq -y "$package" >/dev/null 2>&1 ||
            { apt-get update -qq && apt-get install -qq -y "$package" >/dev/null; } || true
    fi
    command -v "$program" >/dev/null || wanting="$wanting $package"
done

if "$folder/bin/python" -m pip --version >/dev/null 2>&1 || "$python" -m venv --clear "$folder"; then
    for package in simple-gpu-scheduler hyperqueue "ray[default]" mlflow; do
        if "$folder/bin/python" -m pip show --quiet "$package" 2>/dev/null; then
            continue
        fi
        echo "installing $package into $folder"
        # By itself: one that this machine cannot have does not take the others with it. Wheels only, nothing is built.
        "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: "$package" ||
            wanting="$wanting $package"
    done
else
    wanting="$wanting simple-gpu-scheduler hyperqueue ray mlflow"
fi

[ -z "$wanting" ] || echo "grass: these peers could not be installed, their rows will say so:$wanting" >&2
