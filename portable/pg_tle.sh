#!/usr/bin/env bash
# Prints the portable edition as a Trusted Language Extension for pg_tle: a call of
# pgtle.install_extension(), after which CREATE EXTENSION instagram_id_portable creates schema ids.
# pg_tle refuses the name of an extension that has a file on disk.
#
#   pg_tle.sh              for a database without it
#   pg_tle.sh FROM TO      the update from one version to another: a call of pgtle.install_update_path()
set -euo pipefail
cd "$(dirname "$0")"
version=$(sed -n "s/.*RETURN '\(.*\)-portable'::text;/\1/p" instagram_id.sql)
if [ $# = 2 ]; then
    echo "SELECT pgtle.install_update_path('instagram_id_portable', '$1', '$2',"
else
    echo "SELECT pgtle.install_extension('instagram_id_portable', '$version', 'sharded, time-sortable 64-bit ids',"
fi
# The transaction is that of CREATE EXTENSION.
echo '$instagram_id$'
sed '/^BEGIN;$/d; /^COMMIT;$/d' instagram_id.sql
echo '$instagram_id$);'
