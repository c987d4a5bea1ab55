#!/usr/bin/env bash
# packaging/dist.sh [FOLDER]: write the release's sources, as they are committed, into
# FOLDER/gpujoin-VERSION.zip; FOLDER is the project's own if none is named. It is what PGXN wants,
# and what the packages are made from. DIST_TREE names another commit or tree than HEAD.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-.}
version=$(sed -nE "s/^default_version = '(.*)'/\1/p" gpujoin.control)
name=gpujoin-$version

# Root may pack a tree that is somebody else's.
git -c safe.directory='*' archive --format=zip --prefix="$name/" -o "$folder/$name.zip" \
    "${DIST_TREE:-HEAD}"
echo "$folder/$name.zip"
