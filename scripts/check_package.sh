#!/usr/bin/env bash
# check_package.sh --here PG_CONFIG: makes the Debian packages for this PostgreSQL, and checks their files
# check_package.sh [MAJOR...]: also tests the packages of these majors, by default of 15:
#
#   15   on Debian 12, which must be this machine's
#   17   on Debian 13, in a folder that debian_folder.sh sets up
#
# lintian must find nothing, and each link of the pages must lead to a file of the package. Then the packages are
# installed on a bare Debian, where the regression and isolation tests run, and removed. That Debian is in a temporary
# folder with its own processes and mounts, and is removed afterwards.
#
# If a major cannot be tested here, it prints that, adds it to the file in NOT_TESTED, and goes on.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
umask 022

# make_here PG_CONFIG: makes the packages on this Debian, and checks their files. Writes their names into
# target/dist/checked.MAJOR.
make_here() {
    local major file files
    major=$(major_of "$1")
    files=("$(debian_package "postgresql-$major-instagram-id")" "$(debian_package instagram-id-shards)")
    scripts/setup.sh lintian
    rm -f "${files[@]}" "target/dist/checked.$major"
    make --no-print-directory package PG_CONFIG="$1"
    # The packages are not for Debian's archive, whose bugs they could close.
    lintian --allow-root --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs "${files[@]}"
    say "lintian finds nothing"
    folder=$(mktemp -d "${TMPDIR:-/tmp}/instagram_id.XXXXXX")
    trap 'rm -rf "$folder"' EXIT
    for file in "${files[@]}"; do dpkg-deb --extract "$file" "$folder"; done
    scripts/links.py check "$folder/usr/share/doc/postgresql-$major-instagram-id"
    printf '%s\n' "${files[@]}" >"target/dist/checked.$major"
}

if [ "${1:-}" = --here ]; then
    make_here "$2"
    exit
fi

# A running command ignores interrupts, so wait for its end before the folder is removed.
root=
remove_root() { if [ -n "$root" ]; then as_root rm -rf --one-file-system "$root"; fi; }
trap 'wait; remove_root' EXIT
trap 'exit 1' HUP INT TERM

skip() { not_tested "the Debian package for PostgreSQL $major" "$*"; }

# check SUITE MAJOR FOLDER: installs the packages of this major, which are in this folder, on a bare Debian.
check() {
    local suite=$1 major=$2 packages=$3 base=$CACHE/$1.tar file debian
    root=$(as_root mktemp -d "${TMPDIR:-/tmp}/instagram_id.XXXXXX")
    if [ ! -f "$base" ]; then
        bare_debian "$suite" "$root/debian"
        as_root tar -C "$root" -cf - debian >"$base.new"
        mv "$base.new" "$base"
    else
        as_root tar -C "$root" -xf "$base"
    fi
    debian=$root/debian
    as_root mkdir "$debian/check" "$debian/packages"
    while read -r file; do
        as_root cp "$packages/$(basename "$file")" "$debian/packages/"
    done <"$packages/checked.$major"
    as_root cp -L /etc/resolv.conf "$debian/etc/resolv.conf" # the current one
    as_root cp -r Makefile Cargo.toml instagram_id.control tests "$debian/check/"
    as_root tee "$debian/root/check.sh" >/dev/null <<-SH
	set -eu
	major=$major
	version=$(version_of_extension)
	SH
    as_root tee -a "$debian/root/check.sh" >/dev/null <<'SH'
export DEBIAN_FRONTEND=noninteractive LANG=C.UTF-8
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d # no server is started by its installation
chmod +x /usr/sbin/policy-rc.d
# A mirror that no longer follows Debian's is good enough. Signatures are still checked.
echo 'Acquire::Check-Valid-Until "false";' >/etc/apt/apt.conf.d/99mirror
apt-get update
apt-get install -y --no-install-recommends /packages/*.deb make man-db
echo "listen_addresses = ''" >>/etc/postgresql/$major/main/postgresql.conf
pg_ctlcluster $major main start
chown -R postgres /check
cd /check
status=0
runuser -u postgres -- make installcheck PG_CONFIG=/usr/lib/postgresql/$major/bin/pg_config || status=$?
cat target/*/regression.diffs 2>/dev/null || true
# The Makefile skips isolation tests that cannot run here.
[ -d target/isolation/results ] || status=1
pg_ctlcluster $major main stop
# An ordinary user finds the command and its manual page.
useradd --create-home --shell /bin/sh ordinary
su - ordinary -c 'instagram_id_shards --version' | grep -qx "instagram_id_shards $version" ||
    { echo "an ordinary user cannot run instagram_id_shards $version"; status=1; }
su - ordinary -c 'man instagram_id_shards' | grep -q SYNOPSIS || { echo "there is no manual page"; status=1; }
dpkg -L postgresql-$major-instagram-id instagram-id-shards | grep 'instagram[-_]id' >/root/files
[ "$(wc -l </root/files)" -gt 30 ] || { echo "the packages have few files"; status=1; }
apt-get purge -y postgresql-$major-instagram-id instagram-id-shards >/dev/null
for file in $(cat /root/files); do
    if [ -e "$file" ]; then echo "$file is left behind"; status=1; fi
done
exit $status
SH
    with_progress "Trying the packages for PostgreSQL $major on a bare Debian $suite" as_root "${alone[@]}" \
        --mount-proc="$debian/proc" chroot "$debian" sh /root/check.sh
    say "They install, pass installcheck, and leave nothing behind"
    remove_root
    root=
}

for major in "${@:-15}"; do
    suite=$(suite_of "$major")
    case $suite in
        debian) suite=bookworm ;;
        trixie) ;;
        *) fail "no Debian is known whose PostgreSQL is $major, and on which the package is tested" ;;
    esac
    if ! can_make_debian; then
        skip "no mounts or no devices can be made here"
    elif [ "$suite" = bookworm ]; then
        [ "$(. /etc/os-release && echo "${VERSION_CODENAME:-}")" = bookworm ] || { skip "this is not Debian 12"; continue; }
        scripts/setup.sh debian
        scripts/check_package.sh --here "/usr/lib/postgresql/$major/bin/pg_config"
        check "$suite" "$major" target/dist
    else
        status=0
        scripts/debian_folder.sh "$suite" scripts/check_package.sh --here "/usr/lib/postgresql/$major/bin/pg_config" || status=$?
        case $status in
            0) check "$suite" "$major" "$CACHE/debian/$suite/target/dist" ;;
            77) skip "there is no Debian $suite in a folder" ;;
            *) exit 1 ;;
        esac
    fi
done
