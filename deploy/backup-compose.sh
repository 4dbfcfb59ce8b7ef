#!/usr/bin/env bash
# Backs up the database of compose.yaml, restores the dump to check it, and deletes the oldest dumps:
#
#   deploy/backup-compose.sh FOLDER [KEEP]
#
# The dump is FOLDER/plants-DATE-TIME.dump (UTC). It is restored into the database plants_drill of the same server, which
# is then removed. The newest KEEP dumps (14 by default) stay. If anything fails, none is deleted.
set -euo pipefail
folder=$(realpath "${1:?usage: deploy/backup-compose.sh FOLDER [KEEP]}")
keep=${2:-14}
[[ $keep =~ ^[1-9][0-9]*$ ]] || { echo "KEEP must be a number from 1, not $keep" >&2; exit 1; }
cd "$(dirname "$0")/.."
umask 077
mkdir -p "$folder"
exec 9<"$folder"
flock --nonblock 9 || { echo "Another backup to $folder is running." >&2; exit 1; }

# Runs a program of PostgreSQL as its superuser, since the role of the service cannot create the database of the drill.
database() { docker compose exec -T database "$1" --username postgres "${@:2}"; }
copy=$folder/plants-$(date -u +%F-%H%M%S).dump
trap 'rm -f "$copy.partial"' EXIT
database pg_dump --format custom plants >"$copy.partial"
database dropdb --if-exists plants_drill </dev/null
database createdb plants_drill </dev/null
database pg_restore --dbname plants_drill --exit-on-error <"$copy.partial"
plants=$(database psql --dbname plants_drill --no-align --tuples-only --command 'SELECT count(*) FROM plants' </dev/null)
database dropdb plants_drill </dev/null
mv "$copy.partial" "$copy"
echo "$copy can be restored. It has $plants plants."
find "$folder" -maxdepth 1 -name 'plants-*.dump' | sort | head --lines "-$keep" | xargs --no-run-if-empty rm
