#!/usr/bin/env bash
# Builds the extension for arm64 on a machine of another architecture, and runs regression tests of it on PostgreSQL 15
# for arm64. The cross compiler of this machine builds, against a Debian 12 for arm64 in a folder of the cache, and qemu
# runs the programs of that folder.
#
#   REGRESS="codec generator" arm64.sh     these of the regression tests
#
# The build is not optimized, because it is a test of what the compiler makes of the sources for this architecture.
#
# If that cannot be set up, it prints that, adds it to the file in NOT_TESTED, and exits with 0.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
umask 022

skip() {
    not_tested arm64 "$*"
    exit 0
}

target=aarch64-unknown-linux-gnu
[ "$(uname -m)" != aarch64 ] || skip "this machine is one; all tests are for it"
[ "$(. /etc/os-release && echo "${VERSION_CODENAME:-}")" = bookworm ] || skip "this is not Debian 12"
can_make_debian || skip "this user cannot become root, or no mounts or devices can be made here"
[ -d "$(rustc --print sysroot)/lib/rustlib/$target" ] ||
    skip "Rust's standard library for it is missing; rustup target add $target installs it"
scripts/setup.sh build
scripts/setup.sh arm64

# The packages are unpacked without running their scripts, which are not needed to run the server and its clients.
debian=$CACHE/debian/arm64/root
if [ ! -f "$CACHE/debian/arm64/complete" ]; then
    as_root rm -rf --one-file-system "$CACHE/debian/arm64"
    as_root mkdir -p "$debian"
    with_progress "Fetching a Debian 12 for arm64" as_root "${alone[@]}" /usr/sbin/debootstrap --arch=arm64 --foreign \
        --variant=minbase --include=postgresql-15,postgresql-server-dev-15,libc6-dev,tzdata bookworm "$debian"
    for package in "$debian"/var/cache/apt/archives/*.deb; do as_root dpkg-deb --extract "$package" "$debian"; done
    printf '%s\n' root:x:0:0:root:/root:/bin/sh server:x:1000:1000::/tmp:/bin/sh | as_root tee "$debian/etc/passwd" >/dev/null
    printf '%s\n' root:x:0: server:x:1000: | as_root tee "$debian/etc/group" >/dev/null
    as_root touch "$CACHE/debian/arm64/complete"
fi

folder=$(mktemp -d "${TMPDIR:-/tmp}/instagram_id.XXXXXX")
trap 'wait; rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
bin=/usr/lib/postgresql/15/bin

# --- the build -----------------------------------------------------------------------------------------------

# PostgreSQL's programs find their files relative to themselves, so this one names the folder's.
cat >"$CACHE/debian/arm64/pg_config" <<PG_CONFIG
#!/bin/sh
exec qemu-aarch64-static -L $debian $debian$bin/pg_config "\$@"
PG_CONFIG
# The folder's C library is linked, whose own paths are relative to the folder.
cat >"$CACHE/debian/arm64/linker" <<LINKER
#!/bin/sh
exec aarch64-linux-gnu-gcc --sysroot=$debian "\$@"
LINKER
chmod +x "$CACHE/debian/arm64/pg_config" "$CACHE/debian/arm64/linker"
export PGRX_PG_CONFIG_PATH=$CACHE/debian/arm64/pg_config
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$ROOT/target}/arm64
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$CACHE/debian/arm64/linker
export BINDGEN_EXTRA_CLANG_ARGS_aarch64_unknown_linux_gnu=--sysroot=$debian
export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
with_progress "Building for arm64" cargo build --release --target "$target" --no-default-features --features pg15
library=$CARGO_TARGET_DIR/$target/release/libinstagram_id.so
[ "$(od -A n -t d2 -j 18 -N 2 "$library" | tr -d ' ')" = 183 ] || fail "$library is not for arm64"

# --- the tests -----------------------------------------------------------------------------------------------

mkdir "$folder/check"
cp "$library" "$folder/check/instagram_id.so"
cp instagram_id.control sql/instagram_id--*.sql "$folder/check/"
cp -r tests/regress "$folder/check/"
# Without the tests that take minutes in an emulator, or have not been tried in one.
tests=${REGRESS:-adopt adopt_more call_sites catalog citus codec errors events explain generator hostile invalidation}
cat >"$folder/check/run.sh" <<RUN
set -eu
[ "\$(uname -m)" = aarch64 ] || { echo "qemu does not run this"; exit 1; }
cd /tmp
$bin/initdb -D data -U postgres -A trust -E UTF8 --locale=C.UTF-8 --no-sync
cat >>data/postgresql.conf <<CONF
listen_addresses = ''
unix_socket_directories = '/tmp'
fsync = off
max_prepared_transactions = 5
CONF
$bin/pg_ctl -D data -l log -w start
status=0
PGHOST=/tmp PGUSER=postgres /usr/lib/postgresql/15/lib/pgxs/src/test/regress/pg_regress --inputdir=/check/regress \\
    --outputdir=/tmp/regress --bindir=$bin --load-extension=instagram_id --encoding=UTF8 --no-locale \\
    --dbname=contrib_regression $tests || status=\$?
cat regress/regression.diffs 2>/dev/null || true
$bin/pg_ctl -D data -m immediate stop
exit \$status
RUN
# In namespaces of their own: mounts, processes, users, and the kernel's list of programs' formats, where qemu is
# registered. The server refuses to run as root, so a second namespace of users names it another user.
cat >"$folder/enter.sh" <<'ENTER'
set -eu
debian=$1 check=$2
formats=/proc/sys/fs/binfmt_misc
mount -t binfmt_misc binfmt_misc $formats
# The first 20 bytes of a program for arm64, and which of their bits count.
magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
printf %s ":arm64:M::$magic:$mask:$(command -v qemu-aarch64-static):F" >$formats/register
mount --rbind /proc "$debian/proc"
mount -t tmpfs dev "$debian/dev"
for device in null zero random urandom; do
    touch "$debian/dev/$device"
    mount --bind "/dev/$device" "$debian/dev/$device"
done
mkdir "$debian/dev/shm"
mount -t tmpfs shm "$debian/dev/shm"
mount -t tmpfs -o mode=1777 tmp "$debian/tmp"
mount --bind "$check" "$debian/check"
# The extension's files appear beside the server's own, which are not changed.
for folder in usr/lib/postgresql/15/lib usr/share/postgresql/15/extension; do
    mkdir -p "$debian/tmp/upper/$folder" "$debian/tmp/work/$folder"
    mount -t overlay -o "lowerdir=$debian/$folder,upperdir=$debian/tmp/upper/$folder,workdir=$debian/tmp/work/$folder" \
        overlay "$debian/$folder"
done
cp "$check"/instagram_id.so "$debian/usr/lib/postgresql/15/lib/"
cp "$check"/instagram_id*.sql "$check"/instagram_id.control "$debian/usr/share/postgresql/15/extension/"
exec unshare --user --map-user=1000 --map-group=1000 --keep-caps chroot "$debian" \
    /usr/bin/env -i PATH=/usr/bin:/bin HOME=/tmp LANG=C.UTF-8 sh /check/run.sh
ENTER
as_root mkdir -p "$debian/check"
chmod -R a+rX "$folder"
with_progress "Regression tests on arm64" as_root unshare --user --map-root-user --mount --pid --fork --kill-child --mount-proc \
    bash "$folder/enter.sh" "$debian" "$folder/check"
say "The extension works on arm64: $(wc -w <<<"$tests") regression tests pass"
