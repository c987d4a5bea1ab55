# packaging/docker.sh: packaging/Dockerfile without Docker; sourced by packaging/check.sh. Each
# stage is a folder; its RUN steps are executed there by chroot, its COPY steps by cp. The image
# postgres:MAJOR-SUITE is replaced by that distribution with its own PostgreSQL, NVIDIA's image by
# one with the machine's CUDA; without CUDA, such stages are skipped.
# shellcheck shell=bash

declare -A docker_folder docker_arguments docker_variables docker_command

# Expand the variables of the stage, or of the file's head, in a word of an instruction
docker_word() {
    (
        for name in "${!docker_variables[@]}"; do declare "$name=${docker_variables[$name]}"; done
        eval "printf '%s' \"$1\""
    )
}

# The folder that replaces an image, kept for the next run
docker_image() { # IMAGE
    local image=$1 tag=${1#*:} folder
    folder=$cache/image-$(tr '/:' '--' <<<"$image")
    case $image in
        postgres:*-*)
            [ -e "$folder" ] || {
                rm -rf "$folder.new"
                copy_base "${tag#*-}" "$folder.new"
                mkdir -p "$folder.new/etc/postgresql-common"
                echo 'create_main_cluster = false' \
                    >"$folder.new/etc/postgresql-common/createcluster.conf"
                install_in "$folder.new" "postgresql-${tag%%-*}"
                mv "$folder.new" "$folder"
            } ;;
        nvidia/cuda:*)
            [ -n "$cuda" ] || return 1
            [ -e "$folder" ] || {
                rm -rf "$folder.new"
                copy_base bookworm "$folder.new"
                install_in "$folder.new" g++ make
                mkdir -p "$folder.new/usr/local/cuda"
                mv "$folder.new" "$folder"
            } ;;
        *) die "no folder stands for the image $image" ;;
    esac
    echo "$folder"
}

# FROM IMAGE [AS NAME]
docker_from() {
    local image name base
    image=$(docker_word "$1")
    name=${3:-$image}
    if [ -n "${docker_folder[$image]:-}" ]; then
        base=${docker_folder[$image]}
    else
        base=$(docker_image "$image") || {
            echo "stage $name is left out: there is no CUDA here"
            docker_stage='' docker_left_out+=" $name"
            return 0
        }
    fi
    docker_stage=$name docker_folder[$name]=$run/docker-$name docker_workdir=/
    docker_command[$name]=${docker_command[$image]:-}
    cp -a --reflink=auto "$base" "${docker_folder[$name]}"
}

# ARG NAME[=DEFAULT]: a given value wins; without any value it is not set.
docker_arg() {
    local name=${1%%=*}
    if [ -n "${docker_arguments[$name]:-}" ]; then
        docker_variables[$name]=${docker_arguments[$name]}
    elif [ "$name" != "$1" ]; then
        docker_variables[$name]=$(docker_word "${1#*=}")
    fi
}

# COPY [--from=STAGE] SOURCE TARGET
docker_copy() {
    local from=$source target
    if [[ $1 == --from=* ]]; then
        [[ "$docker_left_out " != *" ${1#--from=} "* ]] || {
            echo "stage $docker_stage is left out, too"
            docker_left_out+=" $docker_stage" docker_stage=''
            return 0
        }
        from=${docker_folder[${1#--from=}]}
        shift
    fi
    target=${docker_folder[$docker_stage]}$(docker_word "$2")
    mkdir -p "$target"
    if [ -d "$from/$1" ]; then cp -r "$from/$1/." "$target"; else cp -r "$from/$1" "$target"; fi
}

docker_run() {
    local name variables=()
    for name in "${!docker_variables[@]}"; do
        variables+=("$name=${docker_variables[$name]}")
    done
    # shellcheck disable=SC2016  # for the shell inside
    CHROOT_CUDA=$cuda in_chroot "${docker_folder[$docker_stage]}" env "${variables[@]}" \
        sh -exc 'cd "$0"; eval "$1"' "$docker_workdir" "$1"
}

# Execute the file, with NAME=VALUE for its arguments.
docker_build() { # DOCKERFILE [NAME=VALUE...]
    local file=$1 line instruction rest words
    shift
    docker_stage='' docker_left_out='' docker_workdir=/
    docker_folder=() docker_arguments=() docker_variables=() docker_command=()
    for line in "$@"; do docker_arguments[${line%%=*}]=${line#*=}; done
    while IFS= read -r line; do
        [ -n "${line// /}" ] || continue
        echo "$line"
        instruction=${line%% *} rest=${line#* }
        read -ra words <<<"$rest"
        # A skipped stage ends at the next FROM.
        [ "$instruction" = FROM ] || [ -n "$docker_stage" ] || [ -z "$docker_left_out" ] || continue
        case $instruction in
            FROM) docker_from "${words[@]}" ;;
            ARG) docker_arg "$rest" ;;
            ENV) docker_variables[${rest%%=*}]=$(docker_word "${rest#*=}") ;;
            WORKDIR) docker_workdir=$(docker_word "$rest") ;;
            COPY) docker_copy "${words[@]}" ;;
            RUN) docker_run "$rest" ;;
            CMD) docker_command[$docker_stage]=$rest ;;
            *) die "$file: $instruction is not known here" ;;
        esac
    done < <(grep -v '^ *#' "$file" | sed -e ':a' -e '/\\$/N; s/\\\n//; ta')
}

# Start the server of a stage as its CMD specifies, and run the quick start.
# shellcheck disable=SC2016  # for the shell inside
docker_try() { # STAGE
    local folder=${docker_folder[$1]} words
    words=$(perl -MJSON::PP -e 'print join " ", @{decode_json($ARGV[0])}' "${docker_command[$1]}")
    [ "${words%% *}" = postgres ]
    mkdir -p "$folder/try/test"
    cp "$source/README.md" "$folder/try"
    cp "$source/test/quick_start.sh" "$folder/try/test"
    in_chroot "$folder" bash -euxc '
        PATH=$(echo /usr/lib/postgresql/*/bin):$PATH
        as() { setpriv --reuid postgres --regid postgres --init-groups env HOME=/tmp "$@"; }
        mkdir -p /var/run/postgresql /data
        chown postgres /var/run/postgresql /data
        as initdb -D /data -A trust --no-sync >/dev/null
        as pg_ctl -D /data -w -s -l /data/log -o "$0 -c listen_addresses=" start || {
            cat /data/log
            exit 1
        }
        as psql -Xc "SHOW shared_preload_libraries"
        as sh /try/test/quick_start.sh
        as psql -Xc "CREATE EXTENSION gpujoin" -c "SELECT state, reason FROM gpujoin_status()"
        as pg_ctl -D /data -w -s -m fast stop' "${words#postgres}"
}

# Build with the distribution's version; both images, the CUDA one if possible.
docker_steps() {
    docker_build "$source/packaging/Dockerfile" PG_MAJOR=15 GPUJOIN_CUDA_ARCHS=90
    docker_try cpu
    [[ " $docker_left_out " == *" cuda "* ]] || {
        docker_try cuda
        ls -l "${docker_folder[cuda]}"/usr/lib/postgresql/15/lib/gpujoin_cuda.so
    }
}

# Run hadolint if it is installed. Two findings of npm's dockerfilelint are wrong: it takes the
# names of stages for images without a tag.
docker_lint() {
    local findings
    if command -v hadolint >/dev/null; then
        hadolint "$source/packaging/Dockerfile"
        return
    fi
    command -v npx >/dev/null || { echo "neither hadolint nor npx"; return 1; }
    findings=$(cd "$run" && npx --yes dockerfilelint@1.8.0 -o json \
        "$source/packaging/Dockerfile" 2>"$run/npx.log" || true)
    perl -MJSON::PP -e '
        my ($wrong, $files) = (0, decode_json($ARGV[0])->{files});
        for my $issue (map { @{$_->{issues}} } @$files) {
            next if $issue->{title} =~ /Missing Tag/ && $issue->{content} =~ /^FROM server /;
            print "line $issue->{line}: $issue->{title}: $issue->{content}\n";
            $wrong = 1;
        }
        print scalar(@$files), " file looked at\n";
        exit $wrong || @$files != 1' "$findings"
}

check_docker() {
    say "Dockerfile"
    step "docker: lint" docker_lint || true
    step "docker: its steps and the server" docker_steps || true
}
