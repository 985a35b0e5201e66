#!/usr/bin/env bash
# Puts photos into the shard of their user, wherever that is, and reads them back by their ids.
#
#   route.sh MAP USER TITLE...      MAP is the map's database: "host=a.example.net dbname=map"
#
# With psql. It asks the map each time. For each photo it prints its id, the server's name, the user and the title.
set -euo pipefail

SHARDS=2000  # all logical shards, a number that was chosen once
PATIENCE=5   # seconds in which a shard that is moving should have arrived
PAUSE=0.02   # seconds from try to try

errors=$(mktemp)
trap 'rm -f "$errors"' EXIT

# ask CONNINFO SQL [NAME=VALUE...]: what psql answers, without an ornament. Returns 2 where the connection is lost.
ask() {
    local conninfo=$1 sql=$2
    shift 2
    psql -X -q -A -t -F ' ' -v ON_ERROR_STOP=1 -v VERBOSITY=verbose "${@/#/--set=}" "$conninfo" <<<"$sql" 2>"$errors"
}

# on_shard SHARD SQL [NAME=VALUE...]: the same where the shard is. If it moves away, once more where it is then.
on_shard() {
    local shard=$1 deadline=$((SECONDS + PATIENCE)) status place conninfo
    shift
    while true; do
        status=0
        place=$(ask "$map" "SELECT server, conninfo FROM shard_map.shards JOIN shard_map.servers USING (server)
                            WHERE shard = $shard") || status=$?
        if [ "$status" = 0 ]; then
            [ -n "$place" ] || { echo "shard $shard is not in the map" >&2; exit 1; }
            read -r server conninfo <<<"$place"
            answer=$(ask "$conninfo" "$@") || status=$?
        fi
        if [ "$status" = 0 ]; then return; fi
        # It moves, or has moved, where the server says 25006.
        if { [ "$status" != 2 ] && ! grep -q ' 25006: ' "$errors"; } || [ "$SECONDS" -gt "$deadline" ]; then
            cat "$errors" >&2
            exit "$status"
        fi
        sleep "$PAUSE"
    done
}

map=$1 user=$2
shift 2
for title in "$@"; do
    shard=$((user % SHARDS)) # shard_for(user, 2000)
    # The id comes first. With it the insert may be tried again, even if a lost connection hides that it was done.
    on_shard "$shard" "SELECT next_id($shard)"
    id=$answer
    on_shard "$shard" "INSERT INTO insta$shard.photos (id, user_id, title) VALUES ($id, $user, :'title')
                       ON CONFLICT (id) DO NOTHING" title="$title"
    shard=$((id >> 10 & 8191)) # id_shard(id)
    on_shard "$shard" "SELECT user_id, title FROM insta$shard.photos WHERE id = $id"
    echo "$id $server $answer"
done
