#!/usr/bin/env bash
# check_package.sh [MAJOR...]: makes the Debian packages for these majors, by default for 15, and
# tests them:
#
#   15   on Debian 12, which must be this machine's
#   17   on Debian 13, in a folder that debian_folder.sh sets up
#
# lintian must find nothing. autopkgtest runs debian/tests on a bare Debian in a temporary folder,
# and piuparts installs and purges the packages on another one, where nothing may be left behind.
#
# If a major cannot be tested here, it prints that, adds it to the file in NOT_TESTED, and goes on.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
umask 022

skip() { not_tested "the Debian package for PostgreSQL $major" "$*"; }

root= source=
remove_root() { if [ -n "$root" ]; then as_root rm -rf --one-file-system "$root" "$source"; fi; }
# A running command ignores interrupts, so wait for its end before the folder is removed.
trap 'wait; remove_root' EXIT
trap 'exit 1' HUP INT TERM

# check SUITE FOLDER: checks the packages in this folder on a bare Debian.
check() {
    local suite=$1 base=$CACHE/$1.tar.gz packages
    mapfile -t packages < <(sed "s|^|$2/|" "$2/packages")
    # The packages are not for Debian's archive, whose bugs they could close.
    lintian --allow-root --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs "${packages[@]}"
    say "lintian finds nothing"
    root=$(as_root mktemp -d "${TMPDIR:-/tmp}/instagram_id.XXXXXX") source=$(mktemp -d "${TMPDIR:-/tmp}/instagram_id.XXXXXX")
    if [ ! -f "$base" ]; then
        bare_debian "$suite" "$root/debian"
        # A mirror that no longer follows Debian's is good enough. Signatures are still checked.
        echo 'Acquire::Check-Valid-Until "false";' | as_root tee "$root/debian/etc/apt/apt.conf.d/99mirror" >/dev/null
        as_root tar -C "$root/debian" -czf - . >"$base.new"
        mv "$base.new" "$base"
    else
        as_root mkdir "$root/debian"
        as_root tar -C "$root/debian" -xzf "$base"
    fi
    as_root cp -L /etc/resolv.conf "$root/debian/etc/resolv.conf"
    git archive HEAD | tar -x -C "$source"
    (cd "$source" && PG_SUPPORTED_VERSIONS=$major pg_buildext updatecontrol)
    with_progress "autopkgtest on a bare Debian $suite" as_root "${alone[@]}" --mount-proc="$root/debian/proc" \
        autopkgtest --no-built-binaries "${packages[@]}" "$source" -- chroot "$root/debian"
    with_progress "piuparts on a bare Debian $suite" as_root piuparts --distribution "$suite" --basetgz "$base" "${packages[@]}"
    remove_root
    root=
}

for major in "${@:-15}"; do
    suite=$(suite_of "$major")
    if ! can_make_debian; then
        skip "no mounts or no devices can be made here"
        continue
    fi
    scripts/setup.sh debian
    scripts/setup.sh check_package
    case $suite in
        debian)
            [ "$(. /etc/os-release && echo "${VERSION_CODENAME:-}")" = bookworm ] || { skip "this is not Debian 12"; continue; }
            scripts/package.sh
            check bookworm target/dist ;;
        trixie)
            status=0
            scripts/debian_folder.sh trixie scripts/package.sh || status=$?
            case $status in
                0) check trixie "$CACHE/debian/trixie/target/dist" ;;
                77) skip "there is no Debian trixie in a folder" ;;
                *) exit 1 ;;
            esac ;;
        *) fail "no Debian is known whose PostgreSQL is $major, and on which the package is tested" ;;
    esac
done
