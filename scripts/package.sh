#!/usr/bin/env bash
# package.sh PG_CONFIG: makes a Debian package for this PostgreSQL, in target/dist.
#
# It is named as Debian names extensions, postgresql-15-instagram-id, and depends on the libraries of the machine that
# builds it. Make it on the oldest release on which it will be installed.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
umask 022
scripts/setup.sh package
pg_config=$1
major=$(major_of "$pg_config")
version=$(version_of_extension)
name=postgresql-$major-instagram-id
file=$(debian_package "$major")

folder=$(mktemp -d "${TMPDIR:-/tmp}/instagram_id.XXXXXX")
trap 'rm -rf "$folder"' EXIT
root=$folder/root
make --no-print-directory -s install PG_CONFIG="$pg_config" DESTDIR="$root"
library=root$("$pg_config" --pkglibdir)/instagram_id.so
command=root$("$pg_config" --bindir)/instagram_id_shards
(cd "$folder" && strip --strip-unneeded "$library" "$command")

docs=$root/usr/share/doc/$name
mkdir -p "$docs"
cp -r README.md docs "$docs/"
# Files that running the examples has left there.
find "$docs" \( -name node_modules -o -name __pycache__ -o -name structure.sql \) -prune -exec rm -rf {} +
cp LICENSE "$docs/copyright"
gzip -9 -n <CHANGELOG.md >"$docs/changelog.gz"

# The packages of the shared libraries that it needs. dpkg-shlibdeps requires a debian/control.
mkdir "$folder/debian"
printf 'Source: %s\n\nPackage: %s\nArchitecture: any\n' "$name" "$name" >"$folder/debian/control"
(cd "$folder" && dpkg-shlibdeps -O "$library" "$command") >"$folder/libraries" 2>"$folder/log" ||
    fail "dpkg-shlibdeps does not know the libraries of $library and $command: $(cat "$folder/log")"
libraries=$(sed -n 's/^shlibs:Depends=//p' "$folder/libraries")

mkdir "$root/DEBIAN"
cat >"$root/DEBIAN/control" <<CONTROL
Package: $name
Version: $version-1
Architecture: $(dpkg --print-architecture)
Maintainer: $(sed -n 's/.*"maintainer": \[ "\(.*\)" \].*/\1/p' META.json)
Section: database
Priority: optional
Installed-Size: $(du -sk --exclude=DEBIAN "$root" | cut -f 1)
Depends: postgresql-$major, $libraries
Description: sharded, time-sortable 64-bit ids for PostgreSQL $major
 Ids of 41 bits of milliseconds, 13 bits of logical shard and 10 bits of
 sequence, after Instagram's published design, made by a column's default and
 decoded by SQL. They are unique and strictly increasing through load, crashes
 and clocks that jump.
 .
 After an upgrade of this package run, in each database that uses it:
 ALTER EXTENSION instagram_id UPDATE.
CONTROL
mkdir -p target/dist
dpkg-deb --build --root-owner-group "$root" "$file" >/dev/null
say "Made $file"
