#!/bin/sh
# A whole cluster in namespaces of its own for processes and mounts: what ends with the first process of them, ends whole and
# leaves no mount. Called without an argument by the test, with `inside` by itself.
#
# Outside: waits until the test closes our stdin, which its death does too, ends the cluster and removes what is left of it.
# Inside: the first process. Starts the parts; a part that ends is named in HOME/ended.
#
# From the environment: CLUSTER_HOME (configuration, data, logs), CLUSTER_PROGRAMS, CLUSTER_CGROUP (name of a group), CLUSTER_STORE
# (what a claim shows), CLUSTER_SHARED (paths to show below the store, separated by `:`), ports.
set -eu

remove_groups() {
    for hierarchy in /sys/fs/cgroup /sys/fs/cgroup/*; do
        [ -d "$hierarchy/$CLUSTER_CGROUP" ] || continue
        find "$hierarchy/$CLUSTER_CGROUP" -depth -type d -exec rmdir {} + 2>/dev/null || true
    done
}

if [ "${1:-}" != inside ]; then
    trap '' HUP INT TERM PIPE
    exec 2>"$CLUSTER_HOME/namespaces.log"
    exec 3<&0
    unshare --mount --pid --fork --kill-child --propagation private --mount-proc sh "$0" inside </dev/null 3<&- &
    cluster=$!
    (
        cat <&3 >/dev/null
        kill -KILL "$cluster"
    ) &
    watcher=$!
    wait "$cluster" || true
    kill -KILL "$watcher" 2>/dev/null || true
    # The last processes of the namespace may still be on their way out of their groups.
    tries_left=50
    while remove_groups; [ $tries_left -gt 0 ] && ls -d /sys/fs/cgroup/*/"$CLUSTER_CGROUP" /sys/fs/cgroup/"$CLUSTER_CGROUP" 2>/dev/null | grep -q .; do
        tries_left=$((tries_left - 1))
        sleep 0.1
    done
    rm -rf "$CLUSTER_HOME"
    exit 0
fi

home=$CLUSTER_HOME
programs=$CLUSTER_PROGRAMS
server=https://127.0.0.1:$API_PORT

# Programs and packages of the machine, as a file system that all nodes share would have them. First: some lie below what is hidden next.
count=0
for path in $(echo "$CLUSTER_SHARED" | tr : ' '); do
    mkdir -p "$CLUSTER_STORE/shared/$count"
    mount --bind "$path" "$CLUSTER_STORE/shared/$count"
    mount -o remount,bind,ro "$CLUSTER_STORE/shared/$count"
    count=$((count + 1))
done

# The system's own sockets, containerd's above all, are out of sight, and what the parts keep at fixed places is ours.
mount -t tmpfs -o mode=755 tmpfs /run
for place in /var/lib /var/log; do
    mkdir -p "$home/root$place"
    mount --bind "$home/root$place" "$place"
done

# The kubelet and the network plug-in set these for the whole machine: they write into files of ours.
mkdir "$home/sysctl"
for name in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys \
    kernel/keys/root_maxbytes net/ipv4/ip_forward; do
    [ -e "/proc/sys/$name" ] || continue
    file=$home/sysctl/$(echo "$name" | tr / .)
    cat "/proc/sys/$name" >"$file"
    mount --bind "$file" "/proc/sys/$name"
done

for hierarchy in /sys/fs/cgroup/*; do
    [ -e "$hierarchy/cgroup.procs" ] || continue
    [ "$(stat -f -c %T "$hierarchy")" = cgroupfs ] && mkdir -p "$hierarchy/$CLUSTER_CGROUP"
done
[ -e /sys/fs/cgroup/cgroup.controllers ] && mkdir -p "/sys/fs/cgroup/$CLUSTER_CGROUP"

part() {
    name=$1
    shift
    (
        "$@" >"$home/$name.log" 2>&1 </dev/null || true
        echo "$name" >>"$home/ended"
    ) &
}

part etcd "$programs/etcd" --data-dir "$home/etcd" --unsafe-no-fsync --log-level warn \
    --listen-client-urls "http://127.0.0.1:$ETCD_PORT" --advertise-client-urls "http://127.0.0.1:$ETCD_PORT" \
    --listen-peer-urls "http://127.0.0.1:$PEER_PORT" --initial-advertise-peer-urls "http://127.0.0.1:$PEER_PORT" \
    --initial-cluster "default=http://127.0.0.1:$PEER_PORT"

part kube-apiserver "$programs/kube-apiserver" --etcd-servers "http://127.0.0.1:$ETCD_PORT" \
    --bind-address 127.0.0.1 --secure-port "$API_PORT" --endpoint-reconciler-type none \
    --service-cluster-ip-range 10.255.0.0/24 --authorization-mode RBAC --allow-privileged \
    --client-ca-file "$home/pki/ca.pem" --tls-cert-file "$home/pki/server.pem" --tls-private-key-file "$home/pki/server.key" \
    --kubelet-client-certificate "$home/pki/admin.pem" --kubelet-client-key "$home/pki/admin.key" \
    --service-account-issuer "$server" --service-account-key-file "$home/pki/accounts.pub" \
    --service-account-signing-key-file "$home/pki/accounts.key"

socket=$home/containerd.sock
part containerd containerd --config "$home/containerd.toml"

tries_left=600
until ctr --address "$socket" version >/dev/null 2>&1; do
    tries_left=$((tries_left - 1))
    [ $tries_left -gt 0 ] || exit 1
    sleep 0.1
done
for image in "$home"/images/*.tar; do
    ctr --address "$socket" --namespace k8s.io images import "$image" >>"$home/images.log" 2>&1 || exit 1
done

tries_left=1200
until "$programs/kubectl" --kubeconfig "$home/admin.json" get --raw /readyz >/dev/null 2>&1; do
    tries_left=$((tries_left - 1))
    [ $tries_left -gt 0 ] || exit 1
    sleep 0.1
done

part kube-controller-manager "$programs/kube-controller-manager" --kubeconfig "$home/admin.json" --leader-elect=false \
    --secure-port 0 --service-account-private-key-file "$home/pki/accounts.key" --root-ca-file "$home/pki/ca.pem"
part kube-scheduler "$programs/kube-scheduler" --kubeconfig "$home/admin.json" --leader-elect=false --secure-port 0
part kubelet "$programs/kubelet" --config "$home/kubelet.json" --kubeconfig "$home/admin.json" --hostname-override "$CLUSTER_NODE" \
    --root-dir /var/lib/kubelet --cert-dir "$home/kubelet-pki"

# All but the last to go are daemons' own children, which the first process of a namespace has to wait for.
wait
