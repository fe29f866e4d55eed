#!/bin/bash
# Runs test files against the Docker engine of another Debian, in a root directory and a mount namespace of its own: nothing
# of the machine's own engine is touched. Needs root and debootstrap; the root (about 600 MB) is kept for the next time.
# usage: other-engine.sh SUITE ROOT TEST_FILE…      other-engine.sh trixie /var/cache/trixie test/integration/sandbox-*.test.ts
set -eu
suite=$1 root=$(realpath -m "$2")
shift 2

if [ ! -x "$root/usr/sbin/dockerd" ]; then
  packages=docker.io,containerd,runc,tini,iptables,ca-certificates
  timeout 1800 debootstrap --variant=minbase --include="$packages" "$suite" "$root"
fi
mkdir -p "$root/run/engine" "$root/mnt/old" "$root$root"
rm -f "$root/run/engine/pid"

# The root also lies below its own path inside of itself, so that paths mean the same to the engine and to the tests, which count what
# containers write. A newer dockerd in usr/local/sbin and settings in etc/docker/daemon.json are used if they are there.
# shellcheck disable=SC2016
unshare --mount bash -c '
  mount --make-rprivate / && mount --rbind "$0" "$0" && mount --rbind "$0" "$0$0"
  mount -t proc proc "$0/proc" && mount --rbind /sys "$0/sys" && mount --rbind /dev "$0/dev"
  cd "$0" && pivot_root . mnt/old && umount -l /mnt/old
  exec /usr/bin/env -i PATH=/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin dockerd --data-root "$0/var/lib/engine" \
    --exec-root "$0/run/engine/exec" --pidfile "$0/run/engine/pid" -H "unix://$0/run/engine/docker.sock" \
    --bridge=none --iptables=false --ip6tables=false
' "$root" >"$root/var/log/engine.log" 2>&1 &
engine=$!
trap 'kill "$engine" 2>/dev/null; wait "$engine" || true' EXIT

export DOCKER_HOST=unix://$root/run/engine/docker.sock
for _ in $(seq 60); do
  if curl -sf --unix-socket "$root/run/engine/docker.sock" http://engine/_ping >/dev/null; then break; fi
  sleep 1
done
ask() { curl -sf --unix-socket "$root/run/engine/docker.sock" "http://engine/$1"; }
ask version | grep -o '"Version":"[^"]*"' | head -n 1
ask info | grep -oE '"(Driver|CgroupVersion)":"[^"]*"'
timeout 1800 node --test --test-concurrency=1 "$@"
