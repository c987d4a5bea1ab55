# sid.sh: sourced by the scripts about PostgreSQL 19, after lib.sh. It makes a copy of Debian's sid,
# with experimental, in $root, where packages can be installed. Root is needed, for debootstrap.
# shellcheck shell=bash
# shellcheck disable=SC2154  # temp is of lib.sh
export GPUJOIN_CACHE=${GPUJOIN_CACHE:-$temp}
# shellcheck source=test/setup.sh
source "$(dirname "$0")/../test/setup.sh"
# shellcheck source=test/versions/chroots.sh
source "$project/test/versions/chroots.sh"
root=$temp/root
copy_base sid "$root"
mkdir -p "$root/etc/postgresql-common"
echo 'create_main_cluster = false' >"$root/etc/postgresql-common/createcluster.conf"
