# For the shell of an operator: ". /opt/plant-store/deploy/commands.sh" defines the commands of docs/runbook.md.

# Runs plant-store as the user of the service, on its store. The URL, which may have a password, is in the environment:
# every user of the machine can read arguments, and sudo logs them.
plant_store() {
  local url
  url=$(sudo sed -n 's/^DATABASE_URL=//p' /etc/plant-store.env 2>/dev/null) || :
  # systemd, too, takes one pair of quotes off.
  [[ $url =~ ^\"(.*)\"$ || $url =~ ^\'(.*)\'$ ]] && url=${BASH_REMATCH[1]}
  NODE_ENV=production DATABASE_URL=${url:-file:/var/lib/plant-store/plants.db} \
    sudo -u plant-store --preserve-env=NODE_ENV,DATABASE_URL node /opt/plant-store/dist/cli.js "$@"
}

# Shows the service's log since a time, such as 10m or 24h, without the lines that are not JSON.
plant_log() {
  sudo journalctl --unit plant-store --output cat --since "-$1" | jq --compact-output --raw-input 'fromjson? | objects'
}

# Shows the metrics whose names begin with a text.
plant_metrics() { curl --silent --show-error http://127.0.0.1:9090/metrics | grep "^$1"; }

# Waits until the service is ready, for at most half a minute, and shows its last response.
plant_ready() {
  local response
  for _ in {1..30}; do
    response=$(curl --silent --show-error http://127.0.0.1:9090/readyz 2>&1)
    [[ $response == '{"status":"ready"}' ]] && break
    sleep 1
  done
  echo "$response"
  [[ $response == '{"status":"ready"}' ]]
}
