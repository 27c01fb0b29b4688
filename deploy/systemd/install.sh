#!/bin/sh
# Makes a checkout in /opt/reproq a service of this host; run it again after every upgrade. What you have written into
# /etc/reproq stays. DESTDIR=… puts units and examples below a folder of a packager's and does nothing else.
set -eu

ROOT=$(cd "$(dirname "$0")/../.." && pwd)
DESTDIR=${DESTDIR:-}
UNITS=$DESTDIR/etc/systemd/system
SETTINGS=$DESTDIR/etc/reproq
FROM=$ROOT/deploy/systemd
EXTRAS=${EXTRAS:-serve}  # what the units need beside the engine

refuse() { echo "install.sh: $1" >&2; exit 2; }

environment() {
    cd "$ROOT"
    [ -x .venv/bin/python ] || python3 -m venv .venv || refuse "no environment can be made: apt-get install python3-venv"
    .venv/bin/pip install --quiet --disable-pip-version-check --root-user-action ignore --editable ".[$EXTRAS]"
    # Units run as users that may not write here. Some packages hold files that are no Python of this version.
    .venv/bin/python -m compileall -q reproq cmd .venv/lib || true
    chown -R root:root .
    chmod -R a+rX,go-w .
    ln -sf "$ROOT/.venv/bin/reproq" /usr/local/bin/reproq
}

keep() {  # an operator's file is never written over
    [ -e "$2" ] || install -m "$3" "$1" "$2"
}

units() {
    install -d "$UNITS/reproq-worker@.service.d" "$SETTINGS"
    install -d -m 700 "$SETTINGS/credentials"
    install -m 644 "$FROM"/*.service "$FROM"/*.target "$UNITS"
    install -m 644 "$FROM"/*.example "$SETTINGS"
    keep "$FROM/limits.conf" "$UNITS/reproq-worker@.service.d/limits.conf" 644
    keep "$FROM/reproq.env.example" "$SETTINGS/reproq.env" 644
}

ticket_key() {
    key=$SETTINGS/credentials/ticket_key
    [ -e "$key" ] || (umask 077; head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n' > "$key")
}

if [ -n "$DESTDIR" ]; then
    units
    exit
fi
[ "$(id -u)" = 0 ] || refuse "run it as root"
[ "$ROOT" = /opt/reproq ] || refuse "the units expect the checkout in /opt/reproq, and this one is in $ROOT: move it there"
environment
units
ticket_key
systemctl daemon-reload
systemctl enable --quiet reproq.target
echo "Reproq $(.venv/bin/python -c 'import reproq; print(reproq.__version__)') is installed; next: docs/operate.md"
