#!/bin/sh
# Stops and removes the units, with what was added to them. /opt/reproq, /etc/reproq and the database stay: they are yours to remove.
set -eu
UNITS=/etc/systemd/system

systemctl stop reproq.target 'reproq-worker@*' reproq-gateway reproq-dispatcher reproq-migrate
for unit in "$UNITS"/*.wants/reproq-worker@*.service; do
    [ ! -L "$unit" ] || systemctl disable --quiet "$(basename "$unit")"
done
systemctl disable --quiet reproq.target reproq-gateway reproq-dispatcher
for folder in "$UNITS" "$UNITS.control"; do
    rm -rf "$folder"/reproq-*.service "$folder"/reproq-*.service.d "$folder"/reproq.target
done
rm -f /usr/local/bin/reproq
systemctl daemon-reload
systemctl reset-failed 'reproq-*' 2> /dev/null || true
