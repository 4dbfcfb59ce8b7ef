#!/usr/bin/env bash
# Backs up a SQLite store while its server runs, checks that the copy can be restored, and deletes the oldest copies:
#
#   DATABASE_URL=file:… deploy/backup.sh FOLDER [KEEP]
#
# The copy is FOLDER/plants-DATE-TIME.db (UTC). The newest KEEP copies (14 by default) stay. If the backup fails, none is
# deleted; a copy that cannot be restored is renamed to ….db.failed.
set -euo pipefail
root=$(realpath "$(dirname "$0")/..")
folder=${1:?usage: deploy/backup.sh FOLDER [KEEP]}
keep=${2:-14}
[[ $keep =~ ^[1-9][0-9]*$ ]] || { echo "KEEP must be a number from 1, not $keep" >&2; exit 1; }
umask 077
mkdir -p "$folder"
folder=$(realpath "$folder")
exec 9<"$folder"
flock --nonblock 9 || { echo "Another backup to $folder is running." >&2; exit 1; }
# What a killed backup has left, and one that could not be restored.
rm -f "$folder"/plants-*.db.*.partial* "$folder"/plants-*.db.failed

copy=$folder/plants-$(date -u +%F-%H%M%S).db
node "$root/dist/cli.js" backup "$copy"
node "$root/dist/cli.js" restore --dry-run "$copy" || { mv "$copy" "$copy.failed"; exit 1; }
# find fails at its end in a folder that its user may not enter.
cd "$folder"
find "$folder" -maxdepth 1 -name 'plants-*.db' | sort | head --lines "-$keep" | xargs --no-run-if-empty rm
