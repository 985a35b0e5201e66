#!/usr/bin/env bash
# image_tree.sh PG_CONFIG DIR: puts the extension's files into DIR as an image for an extension
# volume of CloudNativePG contains them. PostgreSQL 18 finds them there by extension_control_path
# and dynamic_library_path.
#
# image_tree.sh --check PG_CONFIG: makes such a folder, checks which files it has, and creates the
# extension from it on a temporary server
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
umask 022

make_tree() {
    local pg_config=$1 tree=$2 major
    major=$(major_of "$pg_config")
    [ "$major" -ge 18 ] || fail "PostgreSQL $major has no extension_control_path; 18 is the first that has it"
    rm -rf "$tree"
    mkdir -p "$tree"
    folder=$(mktemp -d "${TMPDIR:-/tmp}/instagram_id.XXXXXX")
    trap 'rm -rf "$folder"' EXIT
    make --no-print-directory -s install-extension PG_CONFIG="$pg_config" DESTDIR="$folder"
    install -D -m 755 "$folder$("$pg_config" --pkglibdir)/instagram_id.so" "$tree/lib/instagram_id.so"
    strip --strip-unneeded "$tree/lib/instagram_id.so"
    mkdir "$tree/share"
    cp -r "$folder$("$pg_config" --sharedir)/extension" "$tree/share/"
    install -D -m 644 LICENSE "$tree/licenses/instagram_id/copyright"
}

# The files of a tree.
expected_files="lib/instagram_id.so
licenses/instagram_id/copyright
$(cd "$ROOT/sql" && printf 'share/extension/%s\n' instagram_id--*.sql instagram_id--1.0.0-portable.sql | sort)
share/extension/instagram_id.control"

check_tree() {
    local pg_config=$1 tree answer library
    use_scratch
    tree=$SCRATCH/image
    # In a process of its own, because its folder and trap are its own.
    scripts/image_tree.sh "$pg_config" "$tree"
    [ "$(cd "$tree" && find . -type f -printf '%P\n' | sort)" = "$expected_files" ] ||
        fail "the image has other files: $(cd "$tree" && find . -type f)"
    trap 'stop_server; kill_jobs; rm -rf "$SCRATCH"' EXIT
    # Without $system, so that no other script is found. Other extensions, such as plpgsql, need
    # $libdir.
    EXTRA_CONF="extension_control_path = '$tree/share'
dynamic_library_path = '$tree/lib:\$libdir'" start_server "$pg_config"
    answer=$("$SERVER_BIN/psql" -X -A -t -q -v ON_ERROR_STOP=1 -d postgres <<-'SQL'
	\o /dev/null
	CREATE EXTENSION instagram_id;
	SELECT create_shard(5);
	CREATE TABLE insta5.photos (id bigint PRIMARY KEY DEFAULT insta5.next_id());
	INSERT INTO insta5.photos SELECT FROM generate_series(1, 1000);
	\o
	SELECT count(*), min(id_shard(id)), max(id_shard(id)), instagram_id_version() FROM insta5.photos;
	CREATE TEMP TABLE maps (line text);
	SELECT format('COPY maps FROM %L', format('/proc/%s/maps', pg_backend_pid())) \gexec
	SELECT DISTINCT regexp_replace(line, '^.* ', '') FROM maps WHERE line LIKE '%instagram_id.so';
	SQL
    )
    library=$(sed -n 2p <<<"$answer")
    [ "$(sed -n 1p <<<"$answer")" = "1000|5|5|$(version_of_extension)" ] || fail "the server answered: $answer"
    [ "$library" = "$tree/lib/instagram_id.so" ] || fail "the server has loaded $library"
    say "PostgreSQL $(major_of "$pg_config") creates the extension from the files of the image, and generates ids"
}

if [ "$1" = --check ]; then
    check_tree "$2"
else
    make_tree "$1" "$2"
    say "Put the files of the image into $2"
fi
