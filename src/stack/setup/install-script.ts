/** Debian's policy file. Ours contains a marker, so that one left by a killed installation is recognised and removed. */
export const MARK_FILE = '/usr/sbin/policy-rc.d'

/**
 * Debian packages start their services when installed, unless `/usr/sbin/policy-rc.d` exits with 101. The script installs such a file while
 * apt runs. It sets an existing file aside and restores it on every exit; after a SIGKILL the next call restores it. Arguments: `fresh` or
 * `stale` package lists, then the packages.
 */
export const INSTALL_SCRIPT = String.raw`
set -u
policy="$LONGHAUL_MARK"
aside="$policy.before-longhaul"
lists="$1"; shift

restore() {
  if grep -qs 'longhaul: no services' "$policy"; then rm -f "$policy"; fi
  if [ -e "$aside" ]; then mv -f "$aside" "$policy"; fi
}
# A TERM waits for the running apt-get (the shell handles it between commands), which also received it.
trap 'restore; exit 143' TERM INT HUP
trap restore EXIT
restore

if [ -e "$policy" ]; then mv -f "$policy" "$aside"; fi
printf '#!/bin/sh\n# longhaul: no services are started during this installation\nexit 101\n' > "$policy.new"
chmod 755 "$policy.new" && mv -f "$policy.new" "$policy"

# Waits for another apt or dpkg (unattended upgrades on a fresh machine) instead of failing at once.
apt() { apt-get -q -y -o DPkg::Lock::Timeout=120 -o Acquire::Retries=3 "$@"; }
update() {
  for attempt in 1 2 3 4 5 6; do
    # The lock of the package lists has no waiting option of its own.
    if message=$(apt update 2>&1); then return 0; fi
    case "$message" in *"Could not get lock"*) sleep 10 ;; *) break ;; esac
  done
  echo "$message" >&2
  return 1
}

# Repairs what a killed dpkg left half configured.
dpkg --configure -a >&2 || true
if [ "$lists" = stale ]; then update || exit 1; fi
apt install --no-install-recommends "$@" && exit 0
[ "$lists" = fresh ] || exit 1
update && apt install --no-install-recommends "$@"
`
