#!/usr/bin/env bash
# Makes the Debian package for Debian 12's PostgreSQL 15, installs it on a bare Debian 12, and runs the regression and
# isolation tests there. That Debian lies in a temporary folder, has processes and mounts of its own, and is removed.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
[ "$(. /etc/os-release && echo "${VERSION_CODENAME:-}")" = bookworm ] || {
    say "The Debian package is not tried: this is not Debian 12"
    exit 0
}
as_root unshare --mount --pid --fork true || {
    say "The Debian package is not tried: a Debian with processes and mounts of its own is not allowed here"
    exit 0
}
scripts/setup.sh servers
scripts/setup.sh debian
make --no-print-directory package PG_CONFIG=/usr/lib/postgresql/15/bin/pg_config
package=$(ls target/dist/postgresql-15-instagram-id_"$(version_of_extension)"-1_*.deb)

base=$CACHE/bookworm.tar
root=
trap 'as_root rm -rf "$root"' EXIT
trap 'exit 1' HUP INT TERM
root=$(as_root mktemp -d "${TMPDIR:-/tmp}/instagram_id.XXXXXX")
if [ ! -f "$base" ]; then
    with_progress "Fetching a bare Debian 12" as_root debootstrap --variant=minbase bookworm "$root/debian"
    as_root tar -C "$root" -cf - debian >"$base.new"
    mv "$base.new" "$base"
else
    as_root tar -C "$root" -xf "$base"
fi

debian=$root/debian
as_root cp "$package" "$debian/root/package.deb"
as_root mkdir "$debian/check"
as_root cp -r Makefile Cargo.toml instagram_id.control tests "$debian/check/"
as_root tee "$debian/root/check.sh" >/dev/null <<'SH'
set -eu
export DEBIAN_FRONTEND=noninteractive LANG=C.UTF-8
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d # no server is started by its installation
chmod +x /usr/sbin/policy-rc.d
apt-get update
apt-get install -y --no-install-recommends /root/package.deb make
echo "listen_addresses = ''" >>/etc/postgresql/15/main/postgresql.conf
pg_ctlcluster 15 main start
chown -R postgres /check
cd /check
status=0
runuser -u postgres -- make installcheck PG_CONFIG=/usr/lib/postgresql/15/bin/pg_config || status=$?
cat target/*/regression.diffs 2>/dev/null || true
pg_ctlcluster 15 main stop
apt-get purge -y postgresql-15-instagram-id >/dev/null
if find / -xdev -path /check -prune -o -name 'instagram_id*' -print | grep .; then
    echo 'this is left behind'
    status=1
fi
exit $status
SH
with_progress "Trying $(basename "$package") on it" as_root unshare --mount --pid --fork --kill-child \
    --mount-proc="$debian/proc" chroot "$debian" sh /root/check.sh
say "It installs, passes installcheck, and leaves nothing behind"
