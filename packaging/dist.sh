#!/usr/bin/env bash
# packaging/dist.sh [FOLDER]: writes the release's sources, as committed, to
# FOLDER/gpujoin-VERSION.zip; FOLDER is the project's own by default. This is the archive for
# PGXN, and the source of the packages. DIST_TREE names another commit or tree than HEAD.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-.}
version=$(sed -nE "s/^default_version = '(.*)'/\1/p" gpujoin.control)
name=gpujoin-$version

# Root may pack a tree that belongs to another user.
git -c safe.directory='*' archive --format=zip --prefix="$name/" -o "$folder/$name.zip" \
    "${DIST_TREE:-HEAD}"
echo "$folder/$name.zip"
