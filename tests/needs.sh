#!/bin/sh
# Programs that tests run for real: as root on Debian or Ubuntu, install what is missing; else say what is.
set -eu
missing=
for pair in ip:iproute2 nft:nftables openssl:openssl curl:curl setsid:util-linux; do
    program=${pair%%:*} package=${pair#*:}
    # As a service finds them: some are in sbin.
    PATH="$PATH:/usr/sbin:/sbin" command -v "$program" >/dev/null || missing="$missing $package"
done
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
