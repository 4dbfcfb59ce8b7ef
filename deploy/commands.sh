# For the shell of an operator: ". /opt/plant-store/deploy/commands.sh" defines the commands of docs/runbook.md.
[ -n "${BASH_VERSION:-}" ] || { echo 'Load these commands in bash, not in another shell.' >&2; return 1; }

# Runs plant-store as the user of the service, with its settings; "check" runs where it runs. The settings are in the
# environment, since a URL may have a password: every user of the machine can read arguments, and sudo logs
# them. PLANT_STORE_FOLDER names another release.
plant_store() (
  folder=${PLANT_STORE_FOLDER:-/opt/plant-store}
  names=NODE_ENV,DATABASE_URL
  export NODE_ENV=production DATABASE_URL=file:/var/lib/plant-store/plants.db
  settings=$(sudo cat /etc/plant-store.env 2>/dev/null) || :
  while IFS= read -r line; do
    # systemd, too, ignores spaces around a name and a value, and takes one pair of quotes off.
    [[ $line =~ ^[[:space:]]*([A-Za-z_][A-Za-z0-9_]*)[[:space:]]*=[[:space:]]*(.*[^[:space:]]|)[[:space:]]*$ ]] || continue
    name=${BASH_REMATCH[1]} value=${BASH_REMATCH[2]}
    [[ $value =~ ^\"(.*)\"$ || $value =~ ^\'(.*)\'$ ]] && value=${BASH_REMATCH[1]}
    export "$name=$value"
    names+=,$name
  done <<<"$settings"
  [[ ${1:-} != check ]] || cd "$folder" || exit
  sudo -u plant-store --preserve-env="$names" node "$folder/dist/cli.js" "$@"
)

# Shows the service's log since a time, such as 10m or 24h, without the lines that are not JSON.
plant_log() {
  sudo journalctl --unit plant-store --output cat --since "-$1" | jq --compact-output --raw-input 'fromjson? | objects'
}

# Shows the warnings and errors since a time, except for lines of requests, with their causes: of equal ones the number,
# and the time of the last one.
plant_problems() {
  plant_log "$1" | jq --compact-output 'select(.level >= 40 and (has("ms") | not)) |
    {time: (.time / 1000 | todate), msg, cause: (.err.message // .reason // .signal)}' |
    jq --compact-output --slurp 'group_by([.msg, .cause]) | map(.[-1] + {times: length}) | sort_by(.time) | .[-20:][]'
}

# Shows who has used the most time since a time: milliseconds, requests, and the subject, or the address without one.
plant_callers() {
  plant_log "$1" | jq --raw-output 'select(.ms) | [.ms, .subject // .address] | @tsv' |
    awk -F '\t' '{ ms[$2] += $1; requests[$2]++ }
      END { for (caller in ms) printf "%d\t%d\t%s\n", ms[caller], requests[caller], caller }' |
    sort --reverse --numeric-sort | head -n 5
}

# Counts the requests that were refused with a status since a time, by reason or subject, and address: "401 1h".
plant_refused() {
  plant_log "$2" | jq --raw-output --argjson status "$1" 'select(.status == $status) |
    [.reason // .subject // (if .status == 401 then "no token" else "token not checked" end), .address] | @tsv' | sort | uniq --count | sort --reverse --numeric-sort | head -n 20
}

# Shows the requests of the last 30 days that a filter of jq selects: time, method, path, status, address, id of the token,
# request id.
plant_requests() {
  plant_log 720h | jq --raw-output 'select(.status and ('"$1"')) |
    [(.time / 1000 | todate), .method, .path, .status, .address, .tokenId, .requestId] | @tsv'
}

# Shows the metrics whose names begin with a text.
plant_metrics() { curl --silent --show-error --max-time 5 http://127.0.0.1:9090/metrics | grep "^$1"; }

# After a restore, before the start: revokes the valid tokens that were not valid in a file, which has the output of
# "plant_store token list" from before the restore. With --all instead of a file, revokes all.
plant_revoke_others() (
  set -o pipefail
  if [[ $1 != --all ]] && ! jq --slurp --exit-status 'any(.state == "valid")' "$1" >/dev/null; then
    echo "$1 lists no valid token. To revoke all tokens of the store, write --all instead of the file." >&2
    exit 1
  fi
  others=$(plant_store token list | jq --raw-output --slurp --slurpfile known "${1/#--all//dev/null}" \
    '[., $known | map(select(.state == "valid").id)] | .[0] - .[1] | .[]') || exit
  for id in $others; do plant_store token revoke "$id" </dev/null || exit; done
)

# Waits until the service is ready, for at most half a minute, and shows its last response.
plant_ready() {
  local response
  for _ in {1..30}; do
    response=$(curl --silent --show-error --max-time 5 http://127.0.0.1:9090/readyz 2>&1)
    [[ $response == '{"status":"ready"}' ]] && break
    sleep 1
  done
  echo "$response"
  [[ $response == '{"status":"ready"}' ]]
}
