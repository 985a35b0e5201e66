#!/usr/bin/env bash
# Makes the Debian package for Debian 12's PostgreSQL 15, installs it on a bare Debian 12, and runs the regression and
# isolation tests there. That Debian is in a temporary folder with its own processes and mounts, and is removed
# afterwards.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
[ "$(. /etc/os-release && echo "${VERSION_CODENAME:-}")" = bookworm ] || {
    say "The Debian package is not tried: this is not Debian 12"
    exit 0
}
can_make_debian || {
    say "The Debian package is not tried: no mounts or no devices can be made here"
    exit 0
}
scripts/setup.sh debian
make --no-print-directory package PG_CONFIG=/usr/lib/postgresql/15/bin/pg_config
package=$(debian_package 15)

base=$CACHE/bookworm.tar
root=
# A running command ignores interrupts, so wait for its end before the folder is removed.
trap 'wait; as_root rm -rf --one-file-system "$root"' EXIT
trap 'exit 1' HUP INT TERM
root=$(as_root mktemp -d "${TMPDIR:-/tmp}/instagram_id.XXXXXX")
if [ ! -f "$base" ]; then
    bare_debian bookworm "$root/debian"
    as_root tar -C "$root" -cf - debian >"$base.new"
    mv "$base.new" "$base"
else
    as_root tar -C "$root" -xf "$base"
fi

debian=$root/debian
as_root cp "$package" "$debian/root/package.deb"
as_root cp -L /etc/resolv.conf "$debian/etc/resolv.conf" # the current one
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
# The Makefile skips isolation tests that cannot run here.
[ -d target/isolation/results ] || status=1
pg_ctlcluster 15 main stop
dpkg -L postgresql-15-instagram-id | grep 'instagram[-_]id' >/root/files
apt-get purge -y postgresql-15-instagram-id >/dev/null
for file in $(cat /root/files); do
    if [ -e "$file" ]; then echo "$file is left behind"; status=1; fi
done
exit $status
SH
with_progress "Trying $(basename "$package") on it" as_root "${alone[@]}" \
    --mount-proc="$debian/proc" chroot "$debian" sh /root/check.sh
say "It installs, passes installcheck, and leaves nothing behind"
