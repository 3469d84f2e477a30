# In the container, as root, once systemd is up: the installed unit as an administrator meets it. A line "ok WHAT" or
# "not ok WHAT" for each thing, and "done" at the end.
set -u
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8
cd /root || exit 1

# check WHAT COMMAND...: the command succeeds.
check() {
    local what=$1
    shift
    if "$@" >/root/said 2>&1; then
        echo "ok $what"
    else
        echo "not ok $what"
        { echo "--- $what: $*" && cat /root/said && journalctl -n 20 --no-pager -u holdfastd; } >&2
    fi
}

# until COMMAND...: within 30 s it succeeds.
until_ok() {
    local end=$((SECONDS + 30))
    until "$@"; do
        ((SECONDS < end)) || return 1
        sleep 0.1
    done
}

says() { # says WORDS COMMAND...: the command's output has these words
    local words=$1
    shift
    "$@" 2>&1 | tee -a /dev/stderr | grep -q -- "$words"
}

as_alice() { runuser -u alice -- "$@"; }
holds() { holdfast list | grep -q "^$1 .*held"; }
main_pid() { systemctl show -P MainPID holdfastd; }
start_job() { # start_job NAME: a job of alice's under the lock of that name, as a unit of its own
    systemd-run --quiet --unit="job-$1" --uid=alice --property=KillMode=process holdfast run "$1" -- sleep 1000
    until_ok holds "$1"
}
job_lives() { systemctl is-active --quiet "job-$1"; }
restarts() { systemctl show -P NRestarts holdfastd; }

# A container's systemd cannot raise limits where the machine's own root has no CAP_SYS_RESOURCE (bit 24).
has_resources() { (((0x$(sed -n 's/^CapEff:[[:space:]]*//p' /proc/1/status) >> 24) & 1)); }
has_resources || echo "# without CAP_SYS_RESOURCE: neither lock_memory nor renewal_priority is looked at"

useradd --create-home alice
for port in 7001 7002 7003; do
    redis-server --port $port --save '' --daemonize yes --logfile "/root/redis$port" >/dev/null
done

# --- installed
if compgen -G '/root/*.deb' >/dev/null; then
    check "the packages install" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq ./*.deb
else
    ldconfig
    systemd-sysusers
    systemd-tmpfiles --create
    chgrp holdfast /etc/holdfast/holdfast.conf
    systemctl daemon-reload
fi
check "the account is there" getent passwd holdfast
check "the service waits for its administrator" test "$(systemctl is-enabled holdfastd):$(systemctl is-active holdfastd)" = disabled:inactive
sed -i 's/^#ttl_max = .*/ttl_max = 10s/; s/^#ttl = .*/ttl = 10s/; s/^#lock_memory = .*/lock_memory = yes/' /etc/holdfast/holdfast.conf
printf 'node = %s\n' a=127.0.0.1:7001 b=127.0.0.1:7002 c=127.0.0.1:7003 >>/etc/holdfast/holdfast.conf
check "the configuration is taken" holdfastd --system --check-config /etc/holdfast/holdfast.conf

# --- started
check "systemctl start waits until the agent is ready" systemctl start holdfastd
check "it is active" systemctl is-active holdfastd
check "the watchdog is on" test "$(systemctl show -P WatchdogUSec holdfastd)" = 5s
check "its exposure is at most 2.0" systemd-analyze security --no-pager --threshold=20 holdfastd
systemd-analyze security --no-pager holdfastd | sed -n 's/^→ //p'
check "it has no capability" grep -q '^CapBnd:[[:space:]]*0000000000000000$' "/proc/$(main_pid)/status"
if has_resources; then
    check "its memory is locked" grep -qE '^VmLck:[[:space:]]+[1-9]' "/proc/$(main_pid)/status"
fi
check "nodes may vote" until_ok says "3 of 3" as_alice holdfast status
check "doctor has no complaint of the unit's" says "quorum" as_alice holdfast doctor

# --- used
check "an ordinary user's job runs under a lock" as_alice holdfast run db/migrate -- true
check "a long job begins" start_job long
check "another cannot take its lock" says "held by" as_alice holdfast run -n long -- true
check "a job begins" start_job killed
systemctl kill --kill-whom=main --signal=KILL job-killed
# Its guardian ends the job, and says so. Killed with it, the lock would lapse: nobody could say that the job has ended.
check "a killed holder's lock is free at once" as_alice timeout 2 holdfast run -w 1s killed -- true
check "who holds is seen" says "alice" as_alice holdfast show long

# --- reloaded, restarted, killed, hung: the job lives
sed -i 's/^#max_hold = .*/max_hold = 1h/' /etc/holdfast/holdfast.conf
check "systemctl reload" systemctl reload holdfastd
sed -i 's/^max_hold = .*/max_hold = 1x/' /etc/holdfast/holdfast.conf
check "a reload of a bad file is told" says "failed" systemctl reload holdfastd
sed -i 's/^max_hold = .*/max_hold = 1h/' /etc/holdfast/holdfast.conf
before=$(main_pid)
check "systemctl restart" systemctl restart holdfastd
check "another agent" test "$(main_pid)" != "$before"
check "the lease goes on over a restart" holds long
before=$(restarts)
kill -KILL "$(main_pid)"
counted() { (($(restarts) > before)); }
check "systemd counts a killed agent" until_ok counted
check "and starts it again" until_ok says "3 of 3" as_alice holdfast status
check "the lease goes on over its death" holds long

mkdir -p /etc/systemd/system/holdfastd.service.d /run/hang
cp hungthread.so /usr/lib/hungthread.so
cat >/etc/systemd/system/holdfastd.service.d/hang.conf <<'UNIT'
[Service]
Environment=LD_PRELOAD=/usr/lib/hungthread.so HUNGTHREAD_FILE=/run/hang/thread
UNIT
touch /run/hang/thread
systemctl daemon-reload
systemctl restart holdfastd
for thread in $(cat /proc/"$(main_pid)"/task/*/comm | sort -u); do
    before=$(main_pid)
    echo "$thread" >/run/hang/thread
    another() { [[ $(main_pid) != "$before" && $(main_pid) != 0 ]]; }
    check "a hung $thread is restarted" until_ok another
    : >/run/hang/thread
    check "and it is ready again" until_ok says "3 of 3" as_alice holdfast status
    check "the lease goes on over a hung $thread" holds long
done
rm /etc/systemd/system/holdfastd.service.d/hang.conf

# --- renewal_priority, with the drop-in of holdfast.conf(5)
sed -i 's/^#renewal_priority = .*/renewal_priority = 10/' /etc/holdfast/holdfast.conf
systemctl daemon-reload
systemctl restart holdfastd
check "without the drop-in a priority is refused in words" says "LimitRTPRIO=10" journalctl --no-pager -u holdfastd
check "and locks are granted" as_alice holdfast run -w 10s without -- true
cat >/etc/systemd/system/holdfastd.service.d/priority.conf <<'UNIT'
[Service]
LimitRTPRIO=10
RestrictRealtime=no
SystemCallFilter=sched_setscheduler
UNIT
systemctl daemon-reload
systemctl restart holdfastd
has_priority() { chrt -a -p "$(main_pid)" | grep -q SCHED_FIFO; }
if has_resources; then
    check "with it the renewal thread has one" until_ok has_priority
fi
check "the lease went on through all of it" holds long
check "and the job lives" job_lives long

# --- an ordinary user's agent
mkdir -p ~alice/.config/holdfast
printf 'node = %s\n' a=127.0.0.1:7001 b=127.0.0.1:7002 c=127.0.0.1:7003 >~alice/.config/holdfast/holdfast.conf
echo 'ttl_max = 10s' >>~alice/.config/holdfast/holdfast.conf
echo 'ttl = 10s' >>~alice/.config/holdfast/holdfast.conf
chmod 600 ~alice/.config/holdfast/holdfast.conf
chown -R alice: ~alice/.config
check "a user's manager starts" loginctl enable-linger alice
uid=$(id -u alice)
until_ok test -S "/run/user/$uid/bus"
of_alice() { runuser -u alice -- env XDG_RUNTIME_DIR="/run/user/$uid" DBUS_SESSION_BUS_ADDRESS="unix:path=/run/user/$uid/bus" "$@"; }
check "systemctl --user start" of_alice systemctl --user start holdfastd
check "a job under the user's agent" of_alice holdfast run -w 10s --agent "/run/user/$uid/holdfast/default/sock" mine -- true
check "systemctl --user stop" of_alice systemctl --user stop holdfastd

# --- an agent beside the system's, and an upgrade under both
rm -r /etc/systemd/system/holdfastd.service.d
systemctl daemon-reload
sed 's/7001/7011/; s/7002/7012/; s/7003/7013/' /etc/holdfast/holdfast.conf >/etc/holdfast/cell.conf
for port in 7011 7012 7013; do
    redis-server --port $port --save '' --daemonize yes --logfile "/root/redis$port" >/dev/null
done
chmod 600 /etc/holdfast/cell.conf
check "a file that the account cannot read is told" says "failed" systemctl start holdfastd@cell
chgrp holdfast /etc/holdfast/cell.conf
chmod 640 /etc/holdfast/cell.conf
check "holdfastd@cell starts" systemctl restart holdfastd@cell
check "it has its own locks" as_alice holdfast run --agent cell -w 60s long -- true
check "it is taken for what it is" says "cell" holdfast agents
check "systemctl reload holdfastd@cell" systemctl reload holdfastd@cell

# --- a password that only the service manager can read
first=Rumpelstilz1 second='Rumpelstilz 2;#%'
nodes_take() { # nodes_take RULE...: of the user holdfast on the nodes with a password
    for port in 7021 7022 7023; do
        redis-cli -p $port ACL SETUSER holdfast "$@" >/dev/null
    done
}
for port in 7021 7022 7023; do
    redis-server --port $port --save '' --daemonize yes --logfile "/root/redis$port" >/dev/null
done
nodes_take on ">$first" '~*' '&*' +@all
sed 's,^node = \(.\)=127.0.0.1:700,node = \1=redis://holdfast@127.0.0.1:702,' /etc/holdfast/holdfast.conf >/etc/holdfast/vault.conf
echo 'password_file = redis' >>/etc/holdfast/vault.conf
chgrp holdfast /etc/holdfast/vault.conf
chmod 640 /etc/holdfast/vault.conf
(umask 077 && echo "$first" >/etc/holdfast/vault.password)
check "a credential that no unit loads is told" says "failed" systemctl start holdfastd@vault
check "in words" says "LoadCredential=redis:PATH" journalctl --no-pager -u holdfastd@vault
mkdir -p /etc/systemd/system/holdfastd@vault.service.d
cat >/etc/systemd/system/holdfastd@vault.service.d/password.conf <<'UNIT'
[Service]
LoadCredential=redis:/etc/holdfast/vault.password
UNIT
systemctl daemon-reload
systemctl reset-failed holdfastd@vault
vault() { as_alice holdfast "$1" --agent vault "${@:2}"; }
check "with LoadCredential= it starts" systemctl restart holdfastd@vault
check "its nodes take the password" until_ok says "3 of 3" vault status
check "a job runs under its lock" vault run -w 30s vaulted -- true
systemd-run --quiet --unit=job-vaulted --uid=alice --property=KillMode=process holdfast run --agent vault vaulted -- sleep 1000
vault_holds() { vault list | grep -q '^vaulted .*held'; }
check "and another goes on" until_ok vault_holds
nodes_take ">$second"
(umask 077 && echo "$second" >/etc/holdfast/vault.password)
check "a restart takes another password" systemctl restart holdfastd@vault
nodes_take "<$first"
for port in 7021 7022 7023; do
    redis-cli -p $port CLIENT KILL USER holdfast >/dev/null
done
sleep 1
check "with which its nodes let it in" until_ok says "3 of 3" vault status
check "and the lease went on" vault_holds
check "nobody else reads the credential" test -z "$(runuser -u alice -- sh -c 'cat /run/credentials/holdfastd@vault.service/redis' 2>/dev/null)"
shown() {
    ps -eo args --no-headers --width 1000
    cat /proc/[0-9]*/cmdline | tr '\0' ' '
    tr '\0' '\n' <"/proc/$(systemctl show -P MainPID holdfastd@vault)/environ"
    systemctl show holdfastd@vault
    systemctl status --no-pager -l holdfastd@vault
    journalctl --no-pager -o verbose
    find /run/holdfast /var/lib/holdfast /dev/shm -type f -exec cat {} + 2>/dev/null
    for words in status nodes "nodes --json" doctor history fleet metrics; do
        # shellcheck disable=SC2086
        holdfast ${words%% *} --agent vault ${words#"${words%% *}"}
    done
}
shown >/root/shown 2>&1
check "what shows the service shows no password" test "$(grep -ac Rumpelstilz /root/shown):$(grep -c vault /root/shown | sed 's/^[1-9].*/some/')" = 0:some
systemctl stop job-vaulted
check "systemctl stop holdfastd@vault" systemctl stop holdfastd@vault
check "its credential goes with it" test ! -e /run/credentials/holdfastd@vault.service
rm -r /etc/holdfast/vault.* /etc/systemd/system/holdfastd@vault.service.d
systemctl daemon-reload

if compgen -G '/root/*.deb' >/dev/null; then
    dpkg-deb -R ./holdfast_*.deb /root/next
    sed -i 's/^Version: .*/&+next/' /root/next/DEBIAN/control
    dpkg-deb -b /root/next /root/next.package >/dev/null
    before=$(main_pid) beside=$(systemctl show -P MainPID holdfastd@cell)
    check "the packages are upgraded" dpkg -i --force-confold /root/next.package
    another() { [[ $(main_pid) != "$before" && $(systemctl show -P MainPID holdfastd@cell) != "$beside" ]]; }
    check "by other agents" another
    check "which are ready" until_ok says "3 of 3" as_alice holdfast status
    check "the lease goes on over the upgrade" holds long
    check "and its job" job_lives long
    check "the configuration is the administrator's" grep -q '^node = a=' /etc/holdfast/holdfast.conf
fi

# --- stopped
systemctl stop job-long
check "systemctl stop" systemctl stop holdfastd
check "no complaint of the kernel's or systemd's" test -z "$(journalctl -q --no-pager -u holdfastd | grep -E 'SECCOMP|status=31/SYS|Failed to set up|Failed at step')"
if compgen -G '/root/*.deb' >/dev/null; then
    packages=$(for file in ./*.deb; do dpkg-deb -f "$file" Package; done)
    # shellcheck disable=SC2086
    rm /etc/holdfast/cell.conf
    check "the packages are purged" apt-get purge -y -qq $packages
    check "agents end with their package" test -z "$(pidof holdfastd)"
    left() { find /etc /usr /var/lib /run /dev/shm -name '*holdfast*' -not -path '/var/lib/systemd/*' -not -path '/run/user/*'; }
    check "nothing is left" test -z "$(left | tee -a /dev/stderr)"
fi
echo "done"
