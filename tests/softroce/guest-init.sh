#!/bin/busybox sh
# /init of the guest: mounts a root folder of the host read-only and the job's folder, runs the job
# in them as root, and powers off. Nothing of the host but the job's folder can be written.
export PATH=/bin
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
for module in /modules/*.ko; do insmod "$module" || echo "softroce: $module is not loaded"; done

root=/host job=/host/run/job share=trans=virtio,version=9p2000.L,msize=512000
mount -t 9p -o ro,cache=loose,$share root $root
for folder in tmp run var/tmp; do mount -t tmpfs tmpfs $root/$folder; done
mount -t proc proc $root/proc
mount -t sysfs sysfs $root/sys
mount -o move /dev $root/dev
mkdir -p $root/dev/shm $job
mount -t tmpfs tmpfs $root/dev/shm
mount -t 9p -o rw,$share job $job
ip link set lo up
hostname guest

chroot $root /usr/bin/env -i HOME=/tmp LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin \
  /bin/bash /run/job/guest-job.sh <$root/dev/null
echo $? >$job/status
sync
poweroff -f
