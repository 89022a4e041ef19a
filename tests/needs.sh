#!/bin/sh
# What tests run for real, the original of simple_gpu_scheduler among it: tests/needs.sh [ENVIRONMENT]
# As root on Debian or Ubuntu, programs that are missing are installed; else it is said which are.
set -eu
cd "$(dirname "$0")/.."
environment=${1:-.venv}
original=$environment/original
# A folder of its own: its programs have the names of ours.
if [ -x "$environment/bin/python" ] && [ ! -d "$original/simple_gpu_scheduler" ]; then
    "$environment/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: \
        --target "$original" simple-gpu-scheduler ||
        echo "grass: some tests will be skipped, for want of the original simple-gpu-scheduler" >&2
fi
missing=
for pair in chromium:chromium ip:iproute2 nft:nftables openssl:openssl curl:curl setsid:util-linux sshd:openssh-server \
    ssh:openssh-client tmux:tmux man:man-db busybox:busybox-static fish:fish zsh:zsh tcsh:tcsh rsync:rsync \
    crontab:cron mandoc:mandoc slurmctld:slurm-wlm munged:munge; do
    program=${pair%%:*} package=${pair#*:}
    # As a service finds them: some are in sbin.
    PATH="$PATH:/usr/sbin:/sbin" command -v "$program" >/dev/null || missing="$missing $package"
done
# It has no program.
[ -e /usr/share/bash-completion/bash_completion ] || missing="$missing bash-completion"
[ -n "$missing" ] || exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "installing$missing, which some tests need"
    export DEBIAN_FRONTEND=noninteractive
    # shellcheck disable=SC2086
    if apt-get update -qq && apt-get install -qq -y $missing >/dev/null; then
        exit 0
    fi
fi
echo "grass: some tests will be skipped, for want of:$missing" >&2
