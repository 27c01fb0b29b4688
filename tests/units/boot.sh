#!/bin/bash
# boot.sh LOWER SCRATCH PREPARE UNIT: systemd as process 1 of namespaces of its own, on a throw-away copy of the tree LOWER.
# PREPARE is a script that is called with the copy before the boot; UNIT is what is booted.
# What is written lives in memory and goes with the last process. Network and kernel are the machine's.
set -euo pipefail
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

if [ "${INSIDE_NAMESPACES:-}" = "" ]; then
    cgroups=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
    [ -n "$cgroups" ] || { echo "no cgroup2 is mounted" >&2; exit 1; }
    mkdir "$cgroups/reproq-units-$$"
    echo $$ > "$cgroups/reproq-units-$$/cgroup.procs"
    # Whoever started it may be killed: the machine goes along.
    INSIDE_NAMESPACES=yes exec setpriv --pdeathsig KILL -- unshare --pid --mount --uts --ipc --cgroup --fork --kill-child=SIGKILL \
        --propagation private -- bash "$0" "$@"
fi

lower=$1 scratch=$2 prepare=$3 unit=$4
mount -t tmpfs -o mode=755 reproq-units "$scratch"
root=$scratch/root
mkdir -p "$scratch"/{upper,work} "$root"
mount -t overlay -o "lowerdir=$lower,upperdir=$scratch/upper,workdir=$scratch/work" reproq-units "$root"

mount -t proc proc "$root/proc"
mount --bind "$root/proc/sys" "$root/proc/sys"
mount -o remount,bind,ro "$root/proc/sys"
mount -t sysfs -o ro sysfs "$root/sys"
mkdir -p "$root/sys/fs/cgroup" 2> /dev/null || true
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
mkdir "$root"/dev/{pts,shm}
mount -t devpts -o newinstance,ptmxmode=666 devpts "$root/dev/pts"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
for device in null zero full random urandom tty; do
    touch "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
ln -s pts/ptmx "$root/dev/ptmx"
for link in fd:fd stdin:fd/0 stdout:fd/1 stderr:fd/2; do
    ln -s "/proc/self/${link#*:}" "$root/dev/${link%%:*}"
done

# Nothing of the machine's own services: only what systemd itself brings, and what PREPARE adds.
rm -rf "$root/.dockerenv" "$root"/etc/systemd/system/*.{wants,requires}
"$prepare" "$root"

hostname reproq-units
cd "$root"
mkdir .before
pivot_root . .before
umount -l /.before
rmdir /.before
mount --make-rshared /  # as a container's manager does: credentials reach a unit as a mount that is passed on
exec env -i container=reproq-units PATH="$PATH" /lib/systemd/systemd --unit="$unit" --show-status=no
