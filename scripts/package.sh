#!/usr/bin/env bash
# package.sh PG_CONFIG: makes two Debian packages for this machine's release, in target/dist:
#
#   postgresql-15-instagram-id   the extension for the PostgreSQL major of PG_CONFIG, as Debian names extensions
#   instagram-id-shards          the command instagram_id_shards, which is the same for all majors
#
# Their files have Debian's paths, whatever PG_CONFIG's are. They depend on the libraries of the machine that builds
# them. Make them on the oldest release on which they will be installed.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
umask 022
scripts/setup.sh package
pg_config=$1
major=$(major_of "$pg_config")
extension=postgresql-$major-instagram-id
command=instagram-id-shards
maintainer=$(sed -n 's/.*"maintainer": \[ "\(.*\)" \].*/\1/p' META.json)
# The time of the changes, so that the same sources make the same package.
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)
fi
export SOURCE_DATE_EPOCH

folder=$(mktemp -d "${TMPDIR:-/tmp}/instagram_id.XXXXXX")
trap 'rm -rf "$folder"' EXIT
mkdir -p target/dist

# depends_on FILE: the packages of the shared libraries that a program or library needs. dpkg-shlibdeps requires a
# debian/control.
depends_on() {
    mkdir -p "$folder/debian"
    printf 'Source: instagram-id\n\nPackage: instagram-id\nArchitecture: any\n' >"$folder/debian/control"
    (cd "$folder" && dpkg-shlibdeps -O "${1#"$folder/"}") >"$folder/libraries" 2>"$folder/log" ||
        fail "dpkg-shlibdeps does not know the libraries of $1: $(cat "$folder/log")"
    sed -n 's/^shlibs:Depends=//p' "$folder/libraries"
}

# make_package NAME FIELDS: makes the package of the files below $folder/NAME, with these fields of its control file.
make_package() {
    local name=$1 root=$folder/$1 docs=$folder/$1/usr/share/doc/$1 file
    file=$(debian_package "$name")
    mkdir -p "$docs" "$root/DEBIAN"
    cp LICENSE "$docs/copyright"
    gzip -9 -n <CHANGELOG.md >"$docs/changelog.gz"
    gzip -9 -n >"$docs/changelog.Debian.gz" <<-CHANGES
	instagram-id ($(debian_version)) $(. /etc/os-release && echo "${VERSION_CODENAME:-unstable}"); urgency=medium

	  * Version $(version_of_extension); changelog.gz lists the changes.

	 -- $maintainer  $(date --utc --rfc-email --date="@$SOURCE_DATE_EPOCH")
	CHANGES
    cat >"$root/DEBIAN/control" <<-CONTROL
	Package: $name
	Source: instagram-id
	Version: $(debian_version)
	Architecture: $(dpkg --print-architecture)
	Maintainer: $maintainer
	Section: database
	Priority: optional
	Installed-Size: $(du -sk --exclude=DEBIAN "$root" | cut -f 1)
	$2
	CONTROL
    (cd "$root" && find . -type f -not -path './DEBIAN/*' -printf '%P\0' | sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
    dpkg-deb --build --root-owner-group "$root" "$file" >/dev/null
    say "Made $file"
}

# --- the extension -------------------------------------------------------------------------------------------

make --no-print-directory -s install-extension PG_CONFIG="$pg_config" DESTDIR="$folder/installed"
root=$folder/$extension
library=$root/usr/lib/postgresql/$major/lib/instagram_id.so
install -D -m 644 "$folder/installed$("$pg_config" --pkglibdir)/instagram_id.so" "$library"
strip --strip-unneeded "$library"
mkdir -p "$root/usr/share/postgresql/$major"
cp -r "$folder/installed$("$pg_config" --sharedir)/extension" "$root/usr/share/postgresql/$major/"

docs=$root/usr/share/doc/$extension
mkdir -p "$docs"
cp -r README.md SECURITY.md docs "$docs/"
if [ -d monitoring ]; then cp -r monitoring "$docs/"; fi
# Files that running the examples has left there.
find "$docs" \( -name node_modules -o -name __pycache__ -o -name structure.sql \) -prune -exec rm -rf {} +
chmod -R a-x,a+X "$docs"
# The pages also link to the sources, which are not in the package.
scripts/links.py adjust "$docs" CHANGELOG.md=changelog.gz

make_package "$extension" "Depends: postgresql-$major, $(depends_on "$library")
Recommends: $command
Description: sharded, time-sortable 64-bit ids for PostgreSQL $major
 A column's default generates ids of 41 bits of milliseconds, 13 bits of
 logical shard and 10 bits of sequence, in the format that Instagram published.
 They are unique and strictly increasing through load, crashes and clocks that
 jump, and SQL functions decode them.
 .
 After an upgrade of this package run ALTER EXTENSION instagram_id UPDATE in
 each database that uses it."

# --- the command ---------------------------------------------------------------------------------------------

root=$folder/$command
make --no-print-directory -s install-command PG_CONFIG="$pg_config" DESTDIR="$root" \
    commanddir=/usr/bin man1dir=/usr/share/man/man1
gzip -9 -n "$root"/usr/share/man/man1/*.1
program=$root/usr/bin/instagram_id_shards
strip --strip-unneeded "$program"
completions=$root/usr/share/bash-completion/completions
mkdir -p "$completions"
"$program" completions bash >"$completions/instagram_id_shards"
make_package "$command" "Depends: $(depends_on "$program")
Recommends: postgresql-client
Enhances: $extension
Description: moves shards of instagram_id between PostgreSQL servers
 The command instagram_id_shards keeps the map of which server holds which
 shard. It moves a shard to another server while clients write to it, and
 proposes moves that even out the servers.
 .
 pg_dump of the newest PostgreSQL among the servers is needed on the machine
 that runs the command."

if [ "$(readlink -f "$("$pg_config" --includedir-server)")" != "/usr/include/postgresql/$major/server" ]; then
    say "$extension is for trials: its headers are not those of postgresql-server-dev-$major"
fi
