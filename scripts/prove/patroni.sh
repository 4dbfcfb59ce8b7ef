#!/usr/bin/env bash
# Kills three leaders of a Patroni cluster under load, and fails if an acknowledged write is lost:
#
#   scripts/prove/patroni.sh [SECONDS]
#
# Needs "npm run build", and Debian's patroni, etcd-server, etcd-client, haproxy and postgresql, whose services must not
# run.
set -euo pipefail
# PostgreSQL does not run as root.
((EUID != 0)) || exec setpriv --reuid=nobody --regid=nogroup --clear-groups "$0" "$@"
seconds=${1:-165}
root=$(realpath "$(dirname "$0")/../..")
folder=$(mktemp -d)
cd "$folder"
# Patroni writes a password file to the home directory.
export HOME=$folder PATH=$PATH:/usr/sbin
programs=$(ls -d /usr/lib/postgresql/*/bin | tail -n 1)
end() {
  # shellcheck disable=SC2046 # A word for each process.
  kill $(jobs -p) 2>/dev/null || :
  wait
  rm -rf "$folder"
}
trap end EXIT

etcd --data-dir etcd >etcd.log 2>&1 &
declare -A members
# Starts a member of the cluster.
member() {
  patroni "member-$1.yml" >>"member-$1.log" 2>&1 &
  members[$1]=$!
}
for n in 1 2 3; do
  cat >"member-$n.yml" <<END
scope: plants
name: member-$n
restapi: {listen: 127.0.0.1:800$n, connect_address: 127.0.0.1:800$n}
etcd3: {host: 127.0.0.1:2379}
bootstrap:
  dcs: {ttl: 20, loop_wait: 5, retry_timeout: 5, synchronous_mode: true, postgresql: {use_pg_rewind: true}}
  initdb: [encoding: UTF8, no-locale, data-checksums]
postgresql:
  listen: 127.0.0.1:543$n
  connect_address: 127.0.0.1:543$n
  data_dir: $folder/data-$n
  bin_dir: $programs
  authentication:
    superuser: {username: postgres, password: secret}
    replication: {username: replicator, password: secret}
    rewind: {username: rewinder, password: secret}
  pg_hba:
    - local all all trust
    - host all all 127.0.0.1/32 scram-sha-256
    - host replication replicator 127.0.0.1/32 scram-sha-256
  parameters: {unix_socket_directories: $folder}
END
  member "$n"
done

# HAProxy asks each member's Patroni whether it is the leader, and closes the connections to one that no longer is.
cat >haproxy.cfg <<END
defaults
  mode tcp
  timeout connect 1s
  timeout client 30m
  timeout server 30m
listen leader
  bind 127.0.0.1:5430
  option httpchk GET /primary
  http-check expect status 200
  default-server inter 1s fall 1 rise 1 on-marked-down shutdown-sessions
  server member-1 127.0.0.1:5431 check port 8001
  server member-2 127.0.0.1:5432 check port 8002
  server member-3 127.0.0.1:5433 check port 8003
END
haproxy -f haproxy.cfg >haproxy.log 2>&1 &

# The number of the member that has a role now, once there is one.
member_with() {
  local n
  while :; do
    for n in 1 2 3; do
      if curl --silent --fail --max-time 2 --output answer "http://127.0.0.1:800$n/$1"; then
        echo "$n"
        return
      fi
    done
    sleep 1
  done
}
member_with synchronous >synchronous

url=postgres://postgres:secret@127.0.0.1:5430/postgres
exec 3< <(node "$root/scripts/prove/failover-load.js" "$seconds" "$url")
load=$!
read -r line <&3
echo "$line" >&2

for _ in 1 2 3; do
  member_with synchronous >synchronous
  leader=$(member_with primary)
  postmaster=$(head -n 1 "data-$leader/postmaster.pid")
  # shellcheck disable=SC2046 # A word for each process.
  kill -9 "${members[$leader]}" "$postmaster" $(ps -o pid= --ppid "$postmaster")
  echo "killed the leader, member $leader; member $(member_with primary) leads" >&2
  member "$leader"
done
echo "3 leaders killed"
cat <&3
wait "$load"
