#!/usr/bin/env bash
# Builds an assertion-enabled PostgreSQL from Debian's source package, in the cache: assertions/bin/pg_config there.
# A second run finds it there. The machine's own list of package sources is not changed.
#
# PostgreSQL checks itself in this build: assertions, memory contexts with sentinels, freed memory overwritten. It also tells
# valgrind what is allocated and what is pinned (valgrind.sh). It has the contrib modules, pg_regress and
# pg_isolation_regress. It is no server to measure on.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

PREFIX=$CACHE/assertions
CFLAGS='-O1 -g -fno-omit-frame-pointer'
CPPFLAGS='-DUSE_VALGRIND'
CONFIGURE="--enable-cassert --enable-debug --without-readline --without-icu"
KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg

install_packages() {
    local missing=()
    command -v cc >/dev/null || missing+=(gcc libc6-dev)
    command -v make >/dev/null || missing+=(make)
    command -v bison >/dev/null || missing+=(bison)
    command -v flex >/dev/null || missing+=(flex)
    command -v perl >/dev/null || missing+=(perl)
    command -v bzip2 >/dev/null || missing+=(bzip2)
    command -v dpkg-source >/dev/null || missing+=(dpkg-dev)
    [ -f /usr/include/zlib.h ] || missing+=(zlib1g-dev)
    if [ ! -f /usr/include/valgrind/memcheck.h ] || ! command -v valgrind >/dev/null; then missing+=(valgrind); fi
    [ -f $KEYRING ] || missing+=(debian-archive-keyring)
    [ ${#missing[@]} -gt 0 ] || return 0
    say "Installing Debian packages: ${missing[*]}"
    with_progress "apt-get update" as_root apt-get update
    with_progress "apt-get install ${missing[*]}" as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y --no-install-recommends "${missing[@]}"
}

# apt_of_sources get|cache ARGUMENT...: apt with lists of its own: the Debian mirrors of the machine, but for sources.
# It checks the signature of each release file, and by that each file it fetches.
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
    # The newest that the mirrors have: the security archive lists versions whose source it may no longer hold.
    for version in $(apt_of_sources cache showsrc --only-source "postgresql-$major" | sed -n 's/^Version: //p' | sort -rVu); do
        if apt_of_sources get source --download-only "postgresql-$major=$version"; then return; fi
        rm -f "$work"/source/*
    done
    fail "the mirrors hold no source package of postgresql-$major"
}

build() {
    # The original source: Debian's changes are about where files lie.
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
    install_packages
    # The major of this release of Debian.
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
