#!/usr/bin/env bash
# Replaces the instances of compose.yaml by instances of another image, without an interruption:
#
#   deploy/upgrade.sh IMAGE
#
# It migrates the database, starts as many new instances as there are old ones, and then stops the old ones, always
# one at a time. A new instance counts when the balancer sends requests to it. If one does not get so far within
# READY_SECONDS (60 by default), the new instances are removed, and the old ones continue. To go back, name the image that
# ran before.
#
# Meanwhile there are twice as many instances as usual: in memory, in PostgreSQL's connections, and in the 16 addresses
# that deploy/haproxy/haproxy.cfg knows.
set -euo pipefail
cd "$(dirname "$0")/.."
exec 9<deploy/upgrade.sh
flock --nonblock 9 || { echo 'Another upgrade is running.' >&2; exit 1; }

image=${1:?usage: deploy/upgrade.sh IMAGE}
patience=${READY_SECONDS:-60}
export PLANT_STORE_IMAGE=$image

instances() { docker compose ps --all --quiet service; }
# The instances that are not among the arguments.
others() {
  local all
  all=$(instances) || return
  grep --invert-match --fixed-strings "$(printf '%s\n' "$@")" <<<"$all" || true
}

# Whether the balancer sends requests to an instance. Its configuration names each server after the last number of its
# address.
serves() {
  local addresses
  addresses=$(docker inspect --format '{{range .NetworkSettings.Networks}} {{.IPAddress}}{{end}} ' "$1")
  [[ $addresses =~ " $network."([0-9]+)" " ]] || return 1
  curl --noproxy '*' --silent --show-error --fail --max-time 5 "http://$status/;csv" |
    awk -F, -v name="instance${BASH_REMATCH[1]}" '$1 == "plants" && $2 == name && $18 == "UP" { up = 1 } END { exit !up }'
}

# Waits until an instance serves. Fails if it takes too long, or restarts.
becomes_ready() {
  local end=$((SECONDS + patience))
  while ((SECONDS < end)); do
    [[ $(docker inspect --format '{{.RestartCount}}' "$1") == 0 ]] || return 1
    serves "$1" && return
    sleep 0.5
  done
  return 1
}

go_back() {
  trap - EXIT
  # Neither a lost terminal nor a second Ctrl-C must keep it from removing them.
  trap '' HUP INT TERM PIPE
  set +e
  echo 'Removing the new instances. The old ones continue.'
  ((${#new[@]} == 0)) || docker stop "${new[@]}" >/dev/null # waits until their requests are finished
  others "${old[@]}" | xargs --no-run-if-empty docker rm --force --volumes >/dev/null
  exit 1
}

docker image inspect "$image" >/dev/null 2>&1 || docker pull "$image"
network=$(docker compose exec -T balancer printenv PLANTS_NETWORK)
status=$(docker compose port balancer 8404)
docker compose rm --force service >/dev/null 2>&1 # those that have stopped
mapfile -t old < <(instances)
((${#old[@]} > 0)) || { echo 'There is no running instance. Start with "docker compose up --detach".' >&2; exit 1; }
((${#old[@]} <= 8)) || { echo "There are ${#old[@]} instances. The balancer knows 16, so at most 8 can be upgraded." >&2; exit 1; }

echo "Migrating the database with $image"
docker compose run --rm --no-deps -T migrate </dev/null

new=()
trap go_back EXIT
for ((n = 1; n <= ${#old[@]}; n++)); do
  docker compose up --detach --no-build --no-deps --no-recreate --scale "service=$((${#old[@]} + n))" service
  instance=$(others "${old[@]}" "${new[@]}")
  if ! becomes_ready "$instance"; then
    echo "New instance $n of ${#old[@]} does not become ready. The end of its log:"
    docker logs --tail 20 "$instance"
    exit 1
  fi
  new+=("$instance")
  echo "New instance $n of ${#old[@]} serves."
done
left=("${old[@]}")
trap '((${#left[@]} == 0)) || echo "Interrupted. Before the next upgrade, stop and remove these old instances: ${left[*]}" >&2' EXIT

# From now on, "docker compose up" uses this image, too.
touch .env
sed -i -e '/^PLANT_STORE_IMAGE=/d' -e '$a\' .env
echo "PLANT_STORE_IMAGE=$image" >>.env
for instance in "${old[@]}"; do
  docker stop "$instance" >/dev/null # waits until its requests are finished
  docker rm --volumes "$instance" >/dev/null
  left=("${left[@]:1}")
  echo "Old instance ${instance:0:12} has stopped."
done
