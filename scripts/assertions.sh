#!/usr/bin/env bash
# Builds an assertion-enabled PostgreSQL from Debian's source package, in the cache:
# assertions/bin/pg_config there. A second run reuses it. The machine's own package sources stay as
# they are.
#
# This build of PostgreSQL checks itself: it has assertions, memory contexts with sentinels, and
# overwrites freed memory. It also informs valgrind about allocated and pinned memory (valgrind.sh).
# It includes the contrib modules, pg_regress and pg_isolation_regress. Do not use it for
# measurements.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

PREFIX=$CACHE/assertions
CFLAGS='-O1 -g -fno-omit-frame-pointer'
CPPFLAGS='-DUSE_VALGRIND'
CONFIGURE="--enable-cassert --enable-debug --without-readline --without-icu"
KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg

# apt_of_sources get|cache ARGUMENT...: runs apt with separate lists, which contain the source
# packages of the machine's Debian mirrors. apt checks the signature of each release file, and with
# it each file it fetches.
apt_of_sources() {
    "apt-$1" -q -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=/dev/null \
        -o Dir::State::lists="$work/lists" -o Dir::Cache="$work/cache" -o APT::Sandbox::User= \
        -o APT::Get::AllowUnauthenticated=false -o Acquire::AllowInsecureRepositories=false "${@:2}"
}

fetch_source() {
    local version
    mkdir -p "$work/lists/partial" "$work/cache" "$work/source"
    apt-get indextargets --format '$(ORIGIN) $(REPO_URI) $(RELEASE)' 'Created-By: Packages' |
        awk -v keyring=$KEYRING '$1 == "Debian" && !seen[$2, $3]++ { print "deb-src [signed-by=" keyring "]", $2, $3, "main" }' \
            >"$work/sources.list"
    [ -s "$work/sources.list" ] || fail "apt knows no mirror of Debian to take PostgreSQL's source from"
    apt_of_sources get update --error-on=any
    cd "$work/source"
    # The newest version on the mirrors. The security archive lists versions whose source it may no
    # longer have.
    for version in $(apt_of_sources cache showsrc --only-source "postgresql-$major" | sed -n 's/^Version: //p' | sort -rVu); do
        if apt_of_sources get source --download-only "postgresql-$major=$version"; then return; fi
        rm -f "$work"/source/*
    done
    fail "the mirrors hold no source package of postgresql-$major"
}

build() {
    # The upstream source, because Debian's patches only concern file locations.
    tar -xf "$work"/source/postgresql-"$major"_*.orig.tar.* -C "$work"
    cd "$work/postgresql-$major"*/
    ./configure --prefix="$PREFIX" $CONFIGURE CFLAGS="$CFLAGS" CPPFLAGS="$CPPFLAGS"
    make -s -j "$(nproc)" world-bin
    rm -rf "$PREFIX"
    make -s install-world-bin
    cp src/tools/valgrind.supp "$PREFIX/"
}

wanted="$CONFIGURE $CFLAGS $CPPFLAGS"
if [ "$wanted" != "$(cat "$PREFIX/complete" 2>/dev/null)" ]; then
    command -v apt-get >/dev/null || fail "the source is taken from Debian, by apt-get, which is missing"
    umask 022
    mkdir -p "$CACHE"
    "$ROOT/scripts/setup.sh" assertions
    # The default major of this Debian release.
    major=$(apt-cache depends postgresql | sed -n 's/.*Depends: postgresql-\([0-9][0-9]*\)$/\1/p' | head -n 1)
    [ -n "$major" ] || fail "apt knows no package postgresql; apt-get update may help"
    work=$(mktemp -d "$CACHE/assertions.build.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    trap 'exit 1' HUP INT TERM
    with_progress "Fetching the source of PostgreSQL $major from Debian" fetch_source
    with_progress "Building PostgreSQL $major with assertions (some minutes)" build
    echo "$wanted" >"$PREFIX/complete"
fi
say "PostgreSQL with assertions: $PREFIX/bin/pg_config"
