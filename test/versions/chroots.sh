# test/versions/chroots.sh: other distributions than the machine's, each in a folder; sourced,
# not run, by the checks of versions and packages.
# shellcheck shell=bash
#
# A base is the result of debootstrap. It is created once and copied for use, and packages are
# installed into the copy. This requires root, on Debian or Ubuntu.
#
# Environment: GPUJOIN_CACHE  where bases and the chroots of versions are kept; /var/cache/gpujoin
#              GPUJOIN_DEBIAN_MIRROR, GPUJOIN_UBUNTU_MIRROR  otherwise those of the machine's own
#                             lists of sources where it is such a machine, or the public archives

cache=${GPUJOIN_CACHE:-/var/cache/gpujoin}

# The distribution that has a version of PostgreSQL in its own archive. Debian has a version that
# is not yet released in experimental, which is an addition to sid.
suite_of_version() {
    case $1 in
        15) echo bookworm ;;
        16) echo noble ;;
        17) echo trixie ;;
        18) echo forky ;;
        19) echo sid ;;
        *) die "no distribution is known that has PostgreSQL $1" ;;
    esac
}

is_ubuntu() { [ "$1" = noble ]; }

# The first address in the machine's lists, if it runs DISTRIBUTION, or else that of the public
# HOST.
mirror_of_machine() { # DISTRIBUTION HOST
    local found=''
    # shellcheck disable=SC1091
    if [ "$(. /etc/os-release && echo "$ID")" = "$1" ]; then
        found=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
            sed -nE "s#^(URIs:|deb( \\[.*\\])?) +(http[^ ]*/$1/?)( .*)?\$#\\3#p" | head -n 1)
    fi
    echo "${found:-http://$2/$1}"
}

mirror_of() { # SUITE
    if is_ubuntu "$1"; then
        echo "${GPUJOIN_UBUNTU_MIRROR:-$(mirror_of_machine ubuntu archive.ubuntu.com)}"
    else
        echo "${GPUJOIN_DEBIAN_MIRROR:-$(mirror_of_machine debian deb.debian.org)}"
    fi
}

require_root_for_chroots() {
    [ "$(id -u)" = 0 ] || die "only root can make and enter other distributions' folders"
    command -v debootstrap >/dev/null || wish_for debootstrap
    command -v debootstrap >/dev/null || die "please install debootstrap"
}

# Run a command in FOLDER, with separate processes and mounts, which end with it. The folder
# CHROOT_CUDA is visible there as /usr/local/cuda, if that exists.
in_chroot() { # FOLDER COMMAND...
    local folder=$1 file
    shift
    for file in /etc/resolv.conf /etc/hosts; do
        [ ! -e "$file" ] || cat "$file" >"$folder$file"
    done
    # shellcheck disable=SC2016  # for the shell inside
    unshare --mount --pid --fork --kill-child bash -c '
        mkdir -p "$0/proc" "$0/dev/shm"
        mount -t proc proc "$0/proc"
        mount -t tmpfs -o mode=1777,size=75% tmpfs "$0/dev/shm"
        cuda=$0/usr/local/cuda
        [ -z "${CHROOT_CUDA:-}" ] || [ ! -d "$cuda" ] || mount --bind "$CHROOT_CUDA" "$cuda"
        exec chroot "$0" "$@"' "$folder" \
        env -u TMPDIR -u PERL5LIB HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
        PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@" </dev/null
}

# Install packages, or package files, in FOLDER; apt-get's output goes to its log.
install_in() { # FOLDER PACKAGE...
    local folder=$1 apt_log=$1.log
    shift
    in_chroot "$folder" sh -c 'apt-get update -qq && exec apt-get install -y -qq "$@"' sh \
        "$@" >>"$apt_log" 2>&1 || { tail -n 20 "$apt_log" >&2; die "apt-get failed in $folder"; }
}

# On Debian, Ubuntu's keys come from a package of Debian, which is signed by Debian's keys.
keyring_of_ubuntu() {
    local keyring=/usr/share/keyrings/ubuntu-archive-keyring.gpg
    if [ ! -e "$keyring" ]; then
        make_base trixie
        keyring=$cache/trixie$keyring
        [ -e "$keyring" ] || install_in "$cache/trixie" ubuntu-archive-keyring
    fi
    echo "$keyring"
}

# Create the base of SUITE, unless it exists.
make_base() { # SUITE
    local suite=$1 folder=$cache/$1 mirror script options=()
    [ ! -e "$folder" ] || return 0
    require_root_for_chroots
    mkdir -p "$cache"
    mirror=$(mirror_of "$suite")
    script=/usr/share/debootstrap/scripts/$suite
    if is_ubuntu "$suite"; then
        [ -e "$script" ] || script=/usr/share/debootstrap/scripts/gutsy
        options=(--components=main,universe "--keyring=$(keyring_of_ubuntu)")
    elif [ ! -e "$script" ]; then
        script=/usr/share/debootstrap/scripts/sid
    fi
    say "making $folder from $mirror" >&2
    rm -rf "$folder.new"
    debootstrap --variant=minbase "${options[@]}" "$suite" "$folder.new" "$mirror" "$script" \
        >"$folder.log" 2>&1 || { tail -n 20 "$folder.log" >&2; die "debootstrap failed"; }
    # Packages must not start servers, nor install documentation.
    printf '#!/bin/sh\nexit 101\n' >"$folder.new/usr/sbin/policy-rc.d"
    chmod 755 "$folder.new/usr/sbin/policy-rc.d"
    printf '%s\n' 'APT::Install-Recommends "false";' 'DPkg::Options { "--force-confold"; };' \
        >"$folder.new/etc/apt/apt.conf.d/90minimal"
    printf '%s\n' 'path-exclude=/usr/share/locale/*' 'path-exclude=/usr/share/man/*' \
        force-unsafe-io >"$folder.new/etc/dpkg/dpkg.cfg.d/90minimal"
    ! is_ubuntu "$suite" || {
        echo "deb $mirror $suite main universe"
        echo "deb $mirror $suite-updates main universe"
    } >"$folder.new/etc/apt/sources.list"
    [ "$suite" != sid ] || add_experimental "$mirror" "$folder.new/etc/apt"
    mv "$folder.new" "$folder"
}

# Let the newest version of PostgreSQL come from experimental, and nothing else. Its lists expire
# after a week, and a mirror may be behind; what that has is signed all the same.
add_experimental() { # MIRROR FOLDER
    echo 'Acquire::Check-Valid-Until "false";' >"$2/apt.conf.d/90behind"
    echo "deb $1 experimental main" >"$2/sources.list.d/experimental.list"
    printf '%s\n' 'Package: src:postgresql-19' 'Pin: release a=experimental' \
        'Pin-Priority: 500' >"$2/preferences.d/experimental"
}

# copy_base SUITE FOLDER: a copy to install packages into.
copy_base() {
    make_base "$1"
    cp -a --reflink=auto "$cache/$1" "$2"
}
