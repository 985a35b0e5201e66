#!/usr/bin/env bash
# Inserts photos into the shard of their user, and reads them back by their ids.
#
#   route.sh MAP USER TITLE...      MAP is the map's database: "host=a.example.net dbname=map"
#
# Uses psql, and reads the map for each query. For each photo it prints the id, the server, the user and the title.
set -euo pipefail

SHARDS=2000  # number of logical shards; never changes
PATIENCE=5   # seconds to wait for a shard that is being moved
PAUSE=0.02   # seconds between attempts

errors=$(mktemp)
trap 'rm -f "$errors"' EXIT

# ask CONNINFO SQL [NAME=VALUE...]: prints the rows, unaligned. Returns 2 if the connection is lost.
ask() {
    local conninfo=$1 sql=$2
    shift 2
    psql -X -q -A -t -F ' ' -v ON_ERROR_STOP=1 -v VERBOSITY=verbose "${@/#/--set=}" "$conninfo" <<<"$sql" 2>"$errors"
}

# on_shard SHARD SQL [NAME=VALUE...]: the same on the shard's server. If the shard has moved, retries on its new server.
# The variable "lost" is true if a connection was lost: then an earlier attempt may have been committed.
on_shard() {
    local shard=$1 deadline=$((SECONDS + PATIENCE)) lost=false status place conninfo
    shift
    while true; do
        status=0
        place=$(ask "$map" "SELECT server, conninfo FROM shard_map.shards JOIN shard_map.servers USING (server)
                            WHERE shard = $shard") || status=$?
        if [ "$status" = 0 ]; then
            [ -n "$place" ] || { echo "shard $shard is not in the map" >&2; exit 1; }
            read -r server conninfo <<<"$place"
            answer=$(ask "$conninfo" "$@" "lost=$lost") || status=$?
        fi
        if [ "$status" = 0 ]; then return; fi
        # 25006 means that the shard is being moved or has moved.
        if { [ "$status" != 2 ] && ! grep -q ' 25006: ' "$errors"; } || [ "$SECONDS" -gt "$deadline" ]; then
            cat "$errors" >&2
            exit "$status"
        fi
        if [ "$status" = 2 ]; then lost=true; fi
        sleep "$PAUSE"
    done
}

map=$1 user=$2
shift 2
for title in "$@"; do
    shard=$((user % SHARDS)) # shard_for(user, 2000)
    # Generates the id first: then the insert can be retried, even if it was committed already.
    on_shard "$shard" "SELECT next_id($shard)"
    id=$answer
    # Another row with this id is an error (23505), except the row of an earlier attempt.
    insert="INSERT INTO insta$shard.photos (id, user_id, title) SELECT $id, $user, :'title'"
    on_shard "$shard" "\\if :lost
                           $insert ON CONFLICT (id) DO NOTHING;
                           $insert WHERE NOT EXISTS (SELECT FROM insta$shard.photos
                                                     WHERE id = $id AND user_id = $user AND title = :'title');
                       \\else
                           $insert;
                       \\endif" title="$title"
    shard=$((id >> 10 & 8191)) # id_shard(id)
    on_shard "$shard" "SELECT user_id, title FROM insta$shard.photos WHERE id = $id"
    echo "$id $server $answer"
done
