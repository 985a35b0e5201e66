#!/usr/bin/env bash
# debian_folder.sh SUITE [COMMAND...]: sets up another Debian release in a folder of the cache, and
# runs a command in it as root, in this project's folder.
#
#   trixie    PostgreSQL 17, and the Rust toolchain of this machine
#   sid       PostgreSQL 18, 19 of experimental, and Debian's own Rust toolchain
#
# The folder stays, so that a second run needs no download. The command has separate mounts and
# processes, which end with it. It sees this project read-only at /instagram_id, with a target
# folder and a cache in the Debian folder. PASS lists the environment variables that the command
# needs, separated by spaces.
#
# Exits with 77, after a message with the reason, if such a folder cannot be set up.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$ROOT"

skip() {
    say "No Debian $suite in a folder: $*"
    exit 77
}

# The packages to build the extension and run the tests, as scripts/setup.sh would install them
# there.
tools="ca-certificates clang gcc libc6-dev libclang-dev libpq-dev make pkg-config procps python3 sudo util-linux"
suite=${1:-}
case $suite in
    # Also the partition managers, whose page a test runs.
    trixie) packages="$tools postgresql-17-partman postgresql-17-timescaledb" ;;
    # 18 is what make bench measures.
    sid) packages="$tools cargo rustc rustfmt postgresql-18 postgresql-server-dev-18 postgresql-18-partman" ;;
    *) fail "usage: debian_folder.sh trixie|sid [COMMAND...]" ;;
esac
shift
major=$(majors "" "" "$suite")
packages+=" postgresql-$major postgresql-server-dev-$major"

[ -f /etc/debian_version ] || skip "this is not a Debian"
[ "$(id -u)" = 0 ] || command -v sudo >/dev/null || skip "it needs root, or sudo"
can_make_debian || skip "this user cannot become root, or no mounts or devices can be made here"
if [ "$suite" = trixie ]; then
    command -v rustc >/dev/null || fail "a Rust toolchain is needed: rustc is not in PATH"
    rust=$(rustc --print sysroot)
    [ -x "$rust/bin/cargo" ] || skip "the Rust toolchain in $rust has no cargo of its own"
    [ "$rust" != /usr ] || skip "the Rust toolchain is this Debian's own, which runs nowhere else; install one with rustup"
fi

folder=$CACHE/debian/$suite
debian=$folder/root
mkdir -p "$CACHE" "$ROOT/target"
as_root mkdir -p "$folder/target"
# One command at a time, because they share the target folder and the installation paths.
exec 9>>"$CACHE/debian.$suite.lock"
flock -n 9 || { say "Waiting for another command in the Debian $suite of $folder"; flock 9; }

# A folder that is incomplete or has other packages is set up again.
wanted="$suite $packages"
if [ "$(as_root cat "$folder/complete" 2>/dev/null)" != "$wanted" ]; then
    as_root rm -rf --one-file-system "$folder/complete" "$debian"
    bare_debian "$suite" "$debian"
    as_root tee "$debian/root/install.sh" >/dev/null <<-SH
	set -eu
	export DEBIAN_FRONTEND=noninteractive LANG=C.UTF-8
	printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d # no server is started by its installation
	chmod +x /usr/sbin/policy-rc.d
	# A mirror that no longer follows Debian's is good enough. Signatures are still checked.
	echo 'Acquire::Check-Valid-Until "false";' >/etc/apt/apt.conf.d/99mirror
	mkdir -p /etc/postgresql-common/createcluster.d
	echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.d/none.conf
	if [ $suite = sid ]; then
	    mirror=\$(sed -n 's/^deb \([^ ]*\) sid main.*/\1/p' /etc/apt/sources.list | head -n 1)
	    echo "deb \$mirror experimental main" >/etc/apt/sources.list.d/experimental.list
	    # Only PostgreSQL comes from experimental.
	    printf '%s\n' 'Package: postgresql-$major* postgresql-client-$major* postgresql-server-dev-$major libpq-dev libpq5' \
	        'Pin: release a=experimental' 'Pin-Priority: 990' >/etc/apt/preferences.d/postgresql
	fi
	apt-get update
	apt-get install -y --no-install-recommends $packages
	# pg_partman has no package for 19, but its SQL files are the same for all majors.
	if [ $suite = sid ]; then
	    cp /usr/share/postgresql/18/extension/pg_partman* /usr/share/postgresql/$major/extension/
	fi
	apt-get clean
	SH
    as_root cp -L /etc/resolv.conf "$debian/etc/resolv.conf"
    with_progress "Installing PostgreSQL $major on Debian $suite" as_root "${alone[@]}" \
        --mount-proc="$debian/proc" chroot "$debian" sh /root/install.sh
    echo "$wanted" | as_root tee "$folder/complete" >/dev/null
fi
[ $# -gt 0 ] || exit 0
# The machine's current name servers and trusted certificates, which may be those of a proxy.
as_root cp -L /etc/resolv.conf "$debian/etc/resolv.conf"
certificates=/etc/ssl/certs/ca-certificates.crt
if [ -f "$certificates" ]; then as_root cp -L "$certificates" "$debian$certificates"; fi

# bind FROM TO [OPTIONS]: mounts a folder of this machine below the other Debian's root.
mounts=
bind() {
    local to=$debian$2
    as_root mkdir -p "$to"
    mounts+="mount --bind $(printf '%q %q' "$1" "$to"); ${3:+mount -o remount,bind,$3 $(printf %q "$to"); }"
}
bind "$ROOT" /instagram_id ro
# The mount point already exists in the read-only project folder.
mounts+="mount --bind $(printf '%q %q' "$folder/target" "$debian/instagram_id/target"); "
mounts+="mount -t proc proc $(printf %q "$debian/proc"); "
as_root mkdir -p "$debian/dev/shm"
mounts+="mount -t tmpfs -o mode=1777 shm $(printf %q "$debian/dev/shm"); "
path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
if [ "$suite" = trixie ]; then
    bind "$rust" /opt/rust ro
    path=/opt/rust/bin:$path
fi
# Share the crates that root has fetched, because root may add to them; leave those of another user
# alone.
registry=${CARGO_HOME:-$HOME/.cargo}/registry
if [ "$(id -u)" = 0 ] && [ -d "$registry" ]; then bind "$registry" /root/.cargo/registry; fi

settings=(HOME=/root USER=root LANG=C.UTF-8 "PATH=$path" "TERM=${TERM:-dumb}")
for name in ${PASS:-}; do
    if [ -n "${!name+set}" ]; then settings+=("$name=${!name}"); fi
done
inside='find /tmp -mindepth 1 -delete; cd /instagram_id && exec "$@"'
# The shell stays, so that signals from a terminal reach the command before the namespaces end.
status=0
as_root "${alone[@]}" bash -euc "$mounts"' debian=$1; shift; exec chroot "$debian" "$@"' mounts "$debian" \
    env -i "${settings[@]}" sh -euc "$inside" inside "$@" 9>&- || status=$?
exit $status
