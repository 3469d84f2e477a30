#!/bin/bash
# In a bare Debian, as root: Holdfast's packages as an administrator meets them. A line "ok WHAT" or "not ok WHAT" for each thing, and
# "done" at the end.
set -u
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive
cd /packages || exit 1

# check WHAT COMMAND...: the command succeeds.
check() {
    local what=$1
    shift
    if "$@" >said 2>&1; then
        echo "ok $what"
    else
        echo "not ok $what"
        sed 's/^/    /' said
    fi
}
until_ok() { # within 30 s the command succeeds
    local end=$((SECONDS + 30))
    until "$@"; do
        ((SECONDS < end)) || return 1
        sleep 0.1
    done
}
says() { # says WORDS COMMAND...
    local words=$1
    shift
    "$@" 2>&1 | tee -a /dev/stderr | grep -q -- "$words"
}
as() { # as USER COMMAND...
    local user=$1
    shift
    setpriv --reuid="$user" --regid="$(id -g "$user")" --init-groups "$@"
}
begin() { # begin USER LOG COMMAND...: in the background; `begun` is its process
    local user=$1 log=$2
    shift 2
    setpriv --reuid="$user" --regid="$(id -g "$user")" --init-groups "$@" >>"$log" 2>&1 &
    begun=$!
}
conf=/etc/holdfast/holdfast.conf
is() { [[ $(stat -c '%U:%G %a' "$1") == "$2" ]]; }
install() { apt-get install -y -qq --no-install-recommends "$@" </dev/null; }

check "packages of Debian" apt-get update -qq

# --- installed
check "apt installs the packages and what they need" install ./libholdfast1_*.deb ./holdfast_*.deb
check "nothing is half installed" test -z "$(dpkg --audit)"
check "no file is another than in its package" test -z "$(dpkg --verify holdfast libholdfast1)"
check "the agent has an account" getent passwd holdfast
check "the configuration is its and root's to read, with the passwords" is $conf "root:holdfast 640"
check "another cannot read it" says "Permission denied" as nobody cat $conf
check "the runtime directory is there" is /run/holdfast "holdfast:holdfast 755"
enabled() { find /etc/systemd -name '*holdfast*'; }
check "no unit is enabled: for nobody an agent that he did not ask for" test -z "$(enabled)"
check "an agent without nodes says what is missing" says "node" as holdfast holdfastd --system --config $conf
check "the manual is there" test -f /usr/share/man/man8/holdfastd.8.gz -o -f /etc/dpkg/dpkg.cfg.d/docker

# --- used: three nodes that speak TLS to those who show a certificate, with a user of the least rights; the agent by the
# unit's own words; a job under a lock
check "Redis and openssl" install redis-server openssl
grep -q localhost /etc/hosts 2>/dev/null || echo "127.0.0.1 localhost" >>/etc/hosts

# --- the tutorial, to the letter, by a user who has nothing but the packages
useradd -m -u 1000 ada
check "Python, for who types the tutorial" install python3
walk() {
    mkdir -p /run/user/1000 && chown ada:ada /run/user/1000
    unshare --uts sh -ec 'hostname laptop; cd /home/ada; exec setpriv --reuid=ada --regid=ada --clear-groups env -i HOME=/home/ada USER=ada LC_ALL=C.UTF-8 \
        XDG_RUNTIME_DIR=/run/user/1000 PATH=/usr/bin:/bin python3 /packages/walkthrough.py /usr/share/doc/holdfast/TUTORIAL.md'
}
check "the tutorial's commands say what it shows" walk
rm -rf /run/user/1000

mkdir tls
sign() { # sign NAME: a key and a certificate of our CA
    openssl req -newkey rsa:2048 -nodes -keyout "tls/$1.key" -out "tls/$1.csr" -subj "/CN=$1" 2>/dev/null &&
        openssl x509 -req -in "tls/$1.csr" -CA tls/ca.crt -CAkey tls/ca.key -CAcreateserial -days 30 -out "tls/$1.crt" \
            -extfile <(echo "subjectAltName=DNS:$1") 2>/dev/null
}
openssl req -x509 -newkey rsa:2048 -nodes -keyout tls/ca.key -out tls/ca.crt -days 30 -subj "/CN=the CA" 2>/dev/null
check "certificates" sign localhost
check "the agent's certificate" sign agent
chmod 644 tls/localhost.key
node() { # node PORT: a redis-server, as the manual has its user
    redis-server --port 0 --tls-port "$1" --tls-cert-file /packages/tls/localhost.crt --tls-key-file /packages/tls/localhost.key \
        --tls-ca-cert-file /packages/tls/ca.crt --tls-auth-clients yes --save '' --daemonize yes --logfile "/packages/redis$1" >/dev/null
    until_ok ask "$1" PING >/dev/null
    # shellcheck disable=SC2046
    ask "$1" $(zcat /usr/share/man/man8/holdfastd.8.gz | sed -n 's/^ACL SETUSER holdfast on >PASSWORD/ACL SETUSER holdfast on >word/p') >/dev/null &&
        ask "$1" ACL SETUSER default nopass resetkeys -@all +acl +ping +shutdown >/dev/null
}
ask() { # ask PORT COMMAND...: as another who has a certificate
    local port=$1
    shift
    redis-cli --tls --cacert tls/ca.crt --cert tls/agent.crt --key tls/agent.key -h localhost -p "$port" "$@" 2>/dev/null | tee -a asked | grep -vE 'ERR|NOPERM'
}
for port in 7001 7002 7003; do check "a node with TLS and the manual's rights" node $port; done
cp tls/ca.crt tls/agent.crt tls/agent.key /etc/holdfast/
echo word >/etc/holdfast/password
chgrp holdfast /etc/holdfast/{agent.key,password}
chmod 640 /etc/holdfast/{agent.key,password}
sed -i 's/^#ttl_max = .*/ttl_max = 5s/; s/^#ttl = .*/ttl = 5s/' $conf
printf 'tls_%s\n' "ca_file = /etc/holdfast/ca.crt" "cert_file = /etc/holdfast/agent.crt" "key_file = /etc/holdfast/agent.key" >>$conf
printf 'node = %s,password_file=/etc/holdfast/password\n' {a=rediss://holdfast@localhost:7001,b=rediss://holdfast@localhost:7002,c=rediss://holdfast@localhost:7003} >>$conf
check "the configuration is taken" as holdfast holdfastd --system --check-config $conf
unit=$(find /lib/systemd/system /usr/lib/systemd/system -name holdfastd.service 2>/dev/null | head -1)
start=$(sed -n 's/^ExecStart=//p' "$unit")
# shellcheck disable=SC2086
begin holdfast agent.log $start
agent=$begun
check "the agent of the unit's ExecStart is ready, and all nodes vote" until_ok says "3 of 3 vote" as nobody holdfast status
check "an ordinary user's job runs under a lock" says "in the job" as nobody holdfast run -w 10s db/migrate -- echo "in the job"
begin nobody job.log holdfast run long -- sleep 1000
job=$begun
check "no word of a password is in ps" test -z "$(grep -l word /proc/[0-9]*/cmdline 2>/dev/null)"
check "a lock is held" until_ok says "long .*held.*nobody" holdfast list
check "another waits for it in vain" says "held by" as nobody holdfast run -n long -- true

# --- upgraded beside what an administrator wrote, and a new agent takes the leases over
other=$(mktemp -d)
dpkg-deb -R ./holdfast_*.deb "$other"
sed -i 's/^Version: .*/&+next/' "$other/DEBIAN/control"
echo "# a new default" >>"$other$conf"
(cd "$other" && md5sum usr/bin/holdfast >DEBIAN/md5sums)
dpkg-deb -b "$other" ./next.deb >/dev/null
cp $conf /packages/mine.conf
check "an upgrade" dpkg -i --force-confold ./next.deb
check "the configuration is the administrator's" cmp $conf /packages/mine.conf
check "and the new one is beside it" grep -qx "# a new default" $conf.dpkg-dist
check "with its owner and mode" is $conf "root:holdfast 640"
check "and so is the new one" test "$(stat -c %a $conf.dpkg-dist)" = 640
check "the agent ends when it is asked to" kill "$agent"
wait "$agent" 2>/dev/null
# shellcheck disable=SC2086
begin holdfast agent.log $start
agent=$begun
check "the next agent is ready" until_ok says "alive, pid $agent" as nobody holdfast status
check "and has the lease" says "long .*held" holdfast list
check "the job went on" kill -0 "$job"
rm -f $conf.dpkg-dist

# --- an agent beside it, by the template's words
sed 's/7001/7011/; s/7002/7012/; s/7003/7013/' $conf >/etc/holdfast/cell.conf
chgrp holdfast /etc/holdfast/cell.conf
for port in 7011 7012 7013; do check "a node for it" node $port; done
beside=$(sed -n 's/^ExecStart=//p; s/%i/cell/g' "${unit%.service}@.service" | sed 's/%i/cell/g')
# shellcheck disable=SC2086
begin holdfast cell.log $beside
cell=$begun
check "an agent beside it is ready" until_ok says "3 of 3 vote" holdfast status --agent cell
check "the same name is another lock there" as nobody holdfast run --agent cell -n long -- true

# --- programs
check "libholdfast-dev" install ./libholdfast-dev_*.deb
check "programs find it" test -f /usr/include/holdfast.h

check "python3-holdfast" install ./python3-holdfast_*.deb
in_python() { as nobody python3 -c '
from holdfast import Lock
with Lock("from/python", wait=10) as lock:
    print("fence", lock.fence)'; }
check "a lock in Python" says "fence [0-9]" in_python

# --- removed, purged
check "all end when they are asked to" kill "$job" "$agent" "$cell"
wait "$job" "$agent" "$cell" 2>/dev/null
for port in 7001 7002 7003 7011 7012 7013; do ask $port shutdown nosave; done
rm /etc/holdfast/{ca.crt,agent.crt,agent.key,password}
check "the packages are removed" apt-get remove -y -qq holdfast libholdfast1 libholdfast-dev python3-holdfast
check "the configuration stays" cmp $conf /packages/mine.conf
rm -f /etc/holdfast/cell.conf
check "the packages are purged" apt-get purge -y -qq holdfast
left() { find /etc /usr /var/lib /run /dev/shm -xdev -name '*holdfast*'; find /run /dev/shm -name '*holdfast*'; }
check "nothing is left" test -z "$(left | tee -a /dev/stderr)"
echo "done"
