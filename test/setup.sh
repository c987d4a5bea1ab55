# test/setup.sh: the common set-up of `make check`, `make demo`, `make bench` and others;
# sourced, not run.
# shellcheck shell=bash
#
# A script that sources this file runs twice:
#
#   outside  as the caller, perhaps root: installs missing packages (root only), makes a work
#            folder, copies the source tree and a private copy of the PostgreSQL installation
#            into it, starts the script again, waits, and always cleans up;
#   inside   as an unprivileged user, since PostgreSQL refuses root: builds, installs into the
#            private copy, starts servers there, executes the script.
#
# The private copy works because PostgreSQL's programs find their files relative to themselves. So
# the machine's own PostgreSQL is not changed, a running server is not disturbed, root is not
# needed once the packages are installed, and any number of runs can proceed at a time.
#
# Environment: PG_CONFIG  the PostgreSQL to use (15 to 19)
#              TMPDIR     where the work folder goes
#              KEEP=1     leave the work folder for inspection

# PostgreSQL's makefiles make the generated headers only at level 0. make cannot unexport this.
unset MAKELEVEL

supported_majors="19 18 17 16 15"
project=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)

say() { printf '==> %s\n' "$*"; }
note() { printf '    %s\n' "$*"; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

inside() { [ -n "${GPUJOIN_WORK:-}" ]; }

# ---------------------------------------------------------------------------------------------
# Outside: choose the PostgreSQL, and find out what is missing
# ---------------------------------------------------------------------------------------------

is_supported() { [[ " $supported_majors " == *" $1 "* ]]; }

major_of() { "$1" --version 2>/dev/null | sed -nE 's/^PostgreSQL ([0-9]+).*/\1/p'; }

# Choose the PostgreSQL: sets pgbin (its program folder) and major. If none is installed, pgbin is
# the folder that the distribution's package will use.
choose_postgres() {
    local candidate
    pgbin='' major=''
    if [ -n "${PG_CONFIG:-}" ] && [ "$PG_CONFIG" != pg_config ]; then
        if [[ ! -x $(command -v "$PG_CONFIG") && $PG_CONFIG =~ ^/usr/lib/postgresql/([0-9]+)/bin/ ]]
        then
            major=${BASH_REMATCH[1]} pgbin=/usr/lib/postgresql/$major/bin
        else
            major=$(major_of "$PG_CONFIG") || true
            [ -n "$major" ] || die "PG_CONFIG=$PG_CONFIG is not a working pg_config"
            pgbin=$("$PG_CONFIG" --bindir)
        fi
        is_supported "$major" ||
            die "$PG_CONFIG is PostgreSQL $major; supported: $supported_majors"
        return
    fi
    # Prefer a complete installation: pg_config alone may belong to a client library.
    for candidate in $(command -v pg_config || true) \
        $(for m in $supported_majors; do echo "/usr/lib/postgresql/$m/bin/pg_config"; done); do
        [ -x "$candidate" ] || continue
        major=$(major_of "$candidate") pgbin=$("$candidate" --bindir)
        is_supported "$major" && [ -x "$pgbin/postgres" ] && return
    done
    for major in $supported_majors; do
        if apt-cache show "postgresql-server-dev-$major" >/dev/null 2>&1; then
            pgbin=/usr/lib/postgresql/$major/bin
            return
        fi
    done
    pgbin='' major=''
}

# Debian has pg_config and the makefiles in the client's package, and the server's headers in
# another.
has_pgxs() {
    [ -x "$pgbin/pg_config" ] && [ -e "$("$pgbin/pg_config" --pgxs)" ] &&
        [ -e "$("$pgbin/pg_config" --includedir-server)/postgres.h" ]
}

# pgTAP consists of SQL, so that of another version will do where a version has no package yet.
pgtap_package() {
    [ "$major" != 19 ] && echo "postgresql-$major-pgtap" || echo postgresql-18-pgtap
}
find_pgtap() {
    local folder
    for folder in "$("$pgbin/pg_config" --sharedir)" /usr/share/postgresql/*; do
        [ ! -e "$folder/extension/pgtap.control" ] || { echo "$folder/extension"; return; }
    done
}

# List what is missing for PURPOSE (check, demo or bench), one Debian package a line.
list_missing() {
    local purpose=$1
    command -v make >/dev/null || echo make
    command -v cc >/dev/null || echo gcc
    [ -e /usr/include/stdio.h ] || echo libc6-dev
    [ -x "$pgbin/postgres" ] && [ -x "$pgbin/psql" ] || echo "postgresql-$major"
    has_pgxs || echo "postgresql-server-dev-$major"
    command -v perl >/dev/null && perl -MJSON::PP -e1 2>/dev/null || echo perl
    [ "$purpose" = check ] || return 0
    perl -MIPC::Run -e1 2>/dev/null || echo libipc-run-perl
    command -v pg_prove >/dev/null || echo libtap-parser-sourcehandler-pgtap-perl
    [ -x "$pgbin/pg_config" ] && [ -n "$(find_pgtap)" ] || pgtap_package
}

ask_to_install() {
    command -v apt-get >/dev/null || die "please install what these Debian packages hold: $*"
    printf 'Some packages are missing. Please run this command, then try again:\n\n' >&2
    printf '    sudo sh -c "apt-get update && apt-get install -y --no-install-recommends %s"\n\n' \
        "$*" >&2
    exit 1
}

# Make sure that everything needed for PURPOSE is installed, or stop with the command to install
# it.
require_packages() {
    local purpose=$1 missing
    choose_postgres
    if [ -z "$major" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        say "reading the package lists"
        apt-get update -qq
        choose_postgres
    fi
    if [ -z "$major" ] && ! apt-cache show postgresql >/dev/null 2>&1 && [ "$(id -u)" != 0 ]; then
        # Without package lists the versions are unknown.
        ask_to_install postgresql postgresql-server-dev-all
    fi
    [ -n "$major" ] || die "no PostgreSQL of versions $supported_majors is installed or among" \
        "this machine's packages; install one, or name its pg_config with PG_CONFIG="

    missing=$(list_missing "$purpose" | tr '\n' ' ')
    [ -n "$missing" ] || return 0
    command -v apt-get >/dev/null || die "please install what these Debian packages hold: $missing"
    # shellcheck disable=SC2086  # a list of names
    [ "$(id -u)" = 0 ] || ask_to_install $missing
    say "installing $missing"
    apt_log=$(mktemp)
    # shellcheck disable=SC2086  # a list of names
    install_packages $missing || { cat "$apt_log" >&2; die "apt-get failed"; }
    rm "$apt_log"
    missing=$(list_missing "$purpose" | tr '\n' ' ')
    [ -z "$missing" ] || die "still missing after apt-get: $missing"
}

# Install packages, reporting progress every twenty of them; apt-get's output goes to apt_log.
install_packages() {
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq >>"$apt_log" 2>&1 || true
    apt-get install -y --no-install-recommends -o DPkg::Lock::Timeout=300 "$@" </dev/null 2>&1 |
        tee -a "$apt_log" |
        awk '/^Setting up/ && ++n % 20 == 0 {print "    " n " packages set up"; fflush()}'
}

# Install packages that a part of the work needs, if possible. Packages that are not available are
# reported later, by the parts that need them.
wish_for() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 0
    say "installing $*"
    apt_log=$(mktemp)
    install_packages "$@" || note "not to be had: $(grep '^E: ' "$apt_log" | head -n 1)"
    rm "$apt_log"
}

# ---------------------------------------------------------------------------------------------
# Outside: the work folder
# ---------------------------------------------------------------------------------------------

# Copy the source tree without files left by a build or a test run.
copy_sources_to() {
    mkdir -p "$1"
    # Status 1 means that a file was changed while it was read, by an editor or a build.
    tar -C "$project" --exclude=./.git --exclude='*.o' --exclude='*.bc' --exclude='*.so' \
        --exclude=./.gpu --exclude=./results --exclude=./tmp_check --exclude=./output_iso \
        --exclude=./gpujoin_helper --exclude=./cuda/build --exclude='*.d' \
        -cf "$work/src.tar" . || [ $? = 1 ]
    tar -C "$1" --no-same-owner -xf "$work/src.tar"
    rm "$work/src.tar"
}
copy_sources() { copy_sources_to "$work/src"; }

# Copy the PostgreSQL installation: the programs as files, since they resolve symbolic links
# before they look for related files; the rest as symbolic links in folders of our own.
copy_postgres() {
    local pg_config=$pgbin/pg_config inst=$work/pg bindir dir
    bindir=$("$pg_config" --bindir)
    mkdir -p "$inst$bindir"
    cp -L "$bindir"/* "$inst$bindir/"
    for dir in $("$pg_config" --pkglibdir) $("$pg_config" --sharedir); do
        mkdir -p "$inst$dir"
        cp -rs "$dir/." "$inst$dir/"
    done
    for dir in $("$pg_config" --includedir) $("$pg_config" --pkgincludedir) \
        $("$pg_config" --includedir-server) $("$pg_config" --libdir); do
        # A folder within one that is linked exists already.
        [ -e "$dir" ] && [ ! -e "$inst$dir" ] || continue
        mkdir -p "$(dirname "$inst$dir")"
        ln -s "$dir" "$inst$dir"
    done
    dir=$(find_pgtap)
    [ -z "$dir" ] || ln -sf "$dir"/pgtap* "$inst$("$pg_config" --sharedir)/extension/"
    # An installed gpujoin must not be the one under test.
    find "$inst" -name 'gpujoin*' -prune -exec rm -rf {} +
    private_pg_config=$inst$bindir/pg_config
}

# Stop every server whose data folder is inside the work folder, or inside FOLDER. The pid in a
# stale file may have been reused by another process: check that its working folder is the data
# folder, as it is for a postmaster.
stop_servers() { # [FOLDER]
    local file pid
    while IFS= read -r file; do
        pid=$(head -n 1 "$file" 2>/dev/null) || continue
        [ "$(readlink "/proc/$pid/cwd" 2>/dev/null)" = "$(dirname "$file")" ] || continue
        kill -QUIT "$pid" 2>/dev/null || continue
        for _ in $(seq 50); do
            [ -e "/proc/$pid" ] || break
            sleep 0.1
        done
    done < <(find "${1:-$work}" -name postmaster.pid -type f 2>/dev/null)
}

clean_up() {
    local group=$1 keep_logs=$2
    trap '' INT TERM HUP
    # The inside half leads a process group of its own, which contains nothing else.
    if [ -n "$group" ] && kill -0 -- "-$group" 2>/dev/null; then
        kill -TERM -- "-$group" 2>/dev/null || true
        sleep 0.5
        kill -KILL -- "-$group" 2>/dev/null || true
    fi
    stop_servers
    give_back || true
    if [ "$keep_logs" = 1 ] && [ -d "$work/log" ]; then
        keep_logs_of_run
    fi
    if [ -n "${KEEP:-}" ]; then
        note "kept: $work"
    else
        rm -rf "$work"
    fi
}

keep_logs_of_run() {
    local target=$project/tmp_check
    [ -w "$project" ] || target=${TMPDIR:-/tmp}/gpujoin-logs-$(id -u)
    rm -rf "$target"
    cp -r "$work/log" "$target" || return 0
    # When root runs this in a user's tree, it must not leave files that the user cannot remove.
    [ "$(id -u)" != 0 ] || chown -R --reference="$project" "$target"
    logs_kept_in=$target
}

# Run SCRIPT (a path in the source tree) with the remaining arguments inside, for PURPOSE. Does not
# return.
run_inside() {
    local purpose=$1 script=$2 status=0 tmp user='' as_user=()
    shift 2
    require_packages "$purpose"
    tmp=$(cd "${TMPDIR:-/tmp}" && pwd -P)
    # The path of a Unix socket is limited to about a hundred bytes.
    [ ${#tmp} -le 50 ] || tmp=/tmp
    work=$(mktemp -d "$tmp/gpujoin.XXXXXX")
    inside_pid='' logs_kept_in=''
    trap 'clean_up "$inside_pid" 0' EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM

    say "PostgreSQL $("$pgbin/pg_config" --version | cut -d' ' -f2) in $pgbin"
    copy_sources
    copy_postgres
    mkdir "$work/log" "$work/tmp" "$work/sock"
    prepare
    if [ "$(id -u)" = 0 ]; then
        user=postgres
        id "$user" >/dev/null 2>&1 || user=nobody
        chown -R "$user" "$work"
        as_user=(setpriv --reuid "$user" --regid "$(id -g "$user")" --init-groups)
    fi

    # A separate session keeps Ctrl-C at the terminal from reaching the inside half directly, and
    # makes it one process group that clean_up can end.
    (
        cd "$work/src"
        # The caller's connection settings would lead to the caller's own server.
        for name in $(compgen -e | grep '^PG'); do unset "$name"; done
        # shellcheck disable=SC2030
        export GPUJOIN_WORK=$work PG_CONFIG=$private_pg_config TMPDIR=$work/tmp HOME=$work \
            PATH=$(dirname "$private_pg_config"):$PATH LC_ALL=C
        exec setsid "${as_user[@]}" bash "$script" "$@"
    ) </dev/null &
    inside_pid=$!
    wait "$inside_pid" || status=$?
    clean_up "$inside_pid" 1
    trap - EXIT
    last_words "$status" || status=1
    exit "$status"
}

# Hook: additions to the work folder before the inside half starts; scripts may replace it.
prepare() { :; }

# Hook: cleanup when no server runs any more, however the run ended; scripts may replace it.
give_back() { :; }

# Hook: output after cleaning up; scripts may replace it.
last_words() { [ "$1" = 0 ] || note "logs: $logs_kept_in"; }

# ---------------------------------------------------------------------------------------------
# Inside: build and servers
# ---------------------------------------------------------------------------------------------

if inside; then
    work=$GPUJOIN_WORK
    log=$work/log
    jobs=$(nproc 2>/dev/null || echo 1)
    export PGHOST=$work/sock PGUSER=gpujoin PGDATABASE=postgres
fi

has_card() { ls /dev/nvidia[0-9]* >/dev/null 2>&1; }

# Without a card, one architecture is enough to see that the CUDA part compiles (lint installs it):
# all of them take minutes.
has_card || export GPUJOIN_CUDA_ARCHS=${GPUJOIN_CUDA_ARCHS:-90}

run_make() { make --no-print-directory PG_CONFIG="$PG_CONFIG" "$@"; }

# Build and install into the private copy, with the reference device. Without a card, no server
# would load the CUDA library, which takes minutes to build. Arguments are passed to make.
build_and_install() {
    has_card || set -- NVCC= "$@"
    say "building"
    if ! run_make -j"$jobs" "$@" all >"$log/build.log" 2>&1; then
        grep -E '(error|warning):|undefined reference|\*\*\*' "$log/build.log" | head -40 >&2
        die "the build failed; the whole log is build.log in the log folder"
    fi
    grep 'CUDA device library' "$log/build.log" | sed 's/^/    /' || true
    run_make "$@" install install-reference >"$log/install.log" 2>&1 || {
        cat "$log/install.log" >&2
        return 1
    }
}

# The extension with which tests inspect gpujoin. Arguments are passed to make.
install_test_module() {
    run_make -C test/module "$@" install >"$log/test_module.log" 2>&1 || {
        cat "$log/test_module.log" >&2
        die "the build of test/module failed"
    }
}

# Start server NAME, creating it first if it is new; standard input has lines for its
# configuration, which replace those of an earlier start.
start_server() {
    local name=$1 data=$work/$1
    if [ ! -e "$data/PG_VERSION" ]; then
        initdb -D "$data" -U "$PGUSER" -A trust -E UTF8 --no-locale --no-sync \
            >"$log/initdb-$name.log" 2>&1 || { cat "$log/initdb-$name.log" >&2; return 1; }
        echo "include_if_exists = 'gpujoin.conf'" >>"$data/postgresql.conf"
    fi
    {
        echo "listen_addresses = ''"
        echo "unix_socket_directories = '$PGHOST'"
        cat
    } >"$data/gpujoin.conf"
    if ! pg_ctl -D "$data" -l "$log/server-$name.log" -s -w -t 120 start; then
        tail -n 20 "$log/server-$name.log" >&2
        return 1
    fi
}

# measured_buffers MEGABYTES: this size, or two fifths of the memory if that is less.
measured_buffers() {
    local most=$(($(awk '/^MemTotal/ {print $2}' /proc/meminfo) / 1024 * 2 / 5))
    echo $(($1 < most ? $1 : most))
}

# Settings of a server for timings, with the given size of shared buffers. All data fits into
# memory; commits do not wait for the disk, which would otherwise dominate, but WAL is written in
# full.
measuring_settings() { # MEGABYTES
    cat <<CONF
shared_buffers = '$(measured_buffers "$1")MB'
work_mem = '256MB'
maintenance_work_mem = '512MB'
max_wal_size = '16GB'
checkpoint_timeout = '1h'
fsync = off
synchronous_commit = off
autovacuum = off
jit = off
shared_preload_libraries = 'gpujoin'
CONF
}

# Load data to be measured with this setting: VACUUM marks no page as all-visible while the WAL of
# its rows' commit has not been flushed, and then index-only scans fetch every row.
committed_for_good="SET synchronous_commit = on"

# require_all_visible TABLE...: check that VACUUM has marked all pages; vacuum again if another
# session's snapshot kept it from that. A few pages may have no rows: processes that load a table
# concurrently leave new pages, which VACUUM does not mark. The variable spare_pages allows more of
# them. Uses the caller's sql.
require_all_visible() {
    local table pages try
    for table in "$@"; do
        for try in 1 2 3 4 5; do
            pages=$(sql -c "SELECT greatest(relpages - relallvisible - relpages / 1000
                                - ${spare_pages:-0}, 0)
                            FROM pg_class WHERE oid = '$table'::regclass AND relpages > 0")
            [ "$pages" != 0 ] || continue 2
            [ "$try" = 1 ] || sleep 1
            sql -c "VACUUM $table"
        done
        die "VACUUM has left ${pages:-all} pages of $table that are not all-visible"
    done
}

stop_server() { pg_ctl -D "$work/$1" -s -w -t 120 -m fast stop; }
