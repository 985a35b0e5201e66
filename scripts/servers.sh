#!/usr/bin/env bash
# Prints the pg_config of each PostgreSQL that is set up in the cache, by major, 15 and later; or
# those in SERVERS, if that is set.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
shopt -s nullglob
if [ -n "${SERVERS:-}" ]; then
    printf '%s\n' $SERVERS
    exit
fi
for pg_config in "$CACHE"/pg[0-9]*/usr/lib/postgresql/*/bin/pg_config "$CACHE"/wheel/*/pginstall*/bin/pg_config; do
    major=$(major_of "$pg_config")
    if [ "$major" -ge 15 ]; then echo "$major $pg_config"; fi
done | sort -n -u -k 1,1 | cut -d ' ' -f 2-
