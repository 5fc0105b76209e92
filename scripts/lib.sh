# shellcheck shell=bash
# What the scripts share; sourced, not run.

say() { echo "$(basename "$0"): $*" >&2; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"
    elif command -v sudo > /dev/null; then sudo "$@"
    else return 1
    fi
}

# is_installed PACKAGE: does dpkg know it as installed?
is_installed() {
    # shellcheck disable=SC2016  # dpkg-query's own variable
    dpkg-query -W -f '${Status}' "$1" 2> /dev/null | grep -q 'ok installed'
}

# install_packages LOG PACKAGE...: with apt, saying so; what apt prints goes to LOG
install_packages() {
    local log=$1
    shift
    if ! command -v apt-get > /dev/null; then
        say "missing, and there is no apt-get here: $*"
        return 1
    fi
    say "installing $* with apt-get"
    if ! { as_root apt-get -q update &&
           as_root env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends "$@"; } >> "$log" 2>&1; then
        say "could not install $*; install them as root (log: $log)"
        return 1
    fi
}

# need LOG THING=PACKAGE...: installs the packages whose THING, a command or the path of a file, is not there
need() {
    local log=$1 pair missing=()
    shift
    for pair in "$@"; do
        case $pair in
            /*) [ -e "${pair%%=*}" ] || missing+=("${pair#*=}") ;;
            *) command -v "${pair%%=*}" > /dev/null || missing+=("${pair#*=}") ;;
        esac
    done
    [ ${#missing[@]} = 0 ] || install_packages "$log" "${missing[@]}"
}

# mirror [DISTRIBUTION]: the mirror of debian (the default) or ubuntu that this machine's apt uses
mirror() {
    { cat /etc/apt/sources.list.d/*.sources /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2> /dev/null || true; } |
        sed -n -e 's/^URIs: *\([^ ]*\).*/\1/p' -e 's/^deb \(\[[^]]*\] \)\?\([^ ]*\).*/\2/p' |
        sed -n "/\/${1:-debian}\/*\$/{p;q}" | grep .
}

# apt_apart FOLDER TOOL ARGUMENT...: apt-get or apt-cache with the configuration and the lists in FOLDER, apart from the system's
apt_apart() {
    local folder=$1 tool=$2
    shift 2
    "$tool" -oDir::Etc::SourceList="$folder/sources.list" -oDir::Etc::SourceParts=/dev/null -oDir::State::Lists="$folder/lists" \
        -oDir::Cache="$folder/cache" -oAPT::Sandbox::User=root -oAcquire::Check-Valid-Until=false "$@"
}

# update_apart FOLDER LINE...: reads the lists of these lines of a sources.list for apt_apart
update_apart() {
    local folder=$1
    shift
    mkdir -p "$folder/lists/partial" "$folder/cache/archives/partial"
    printf '%s\n' "$@" > "$folder/sources.list"
    apt_apart "$folder" apt-get -q update
}

# ubuntu_mirror LOG: the mirror of Ubuntu in apt's configuration, else the one that debootstrap knows
ubuntu_mirror() {
    local scripts=/usr/share/debootstrap/scripts
    mirror ubuntu && return
    need "$1" "$scripts=debootstrap" || return 1
    (
        # shellcheck disable=SC2034  # the script asks for both
        ARCH=$(dpkg --print-architecture) SUITE=noble
        # the script calls the first with the mirror's address, and the second right after that
        default_mirror() { echo "$1"; }
        mirror_style() { exit 0; }
        # shellcheck disable=SC1091  # part of debootstrap; this one does for every suite
        . "$scripts/gutsy"
    )
}

# ubuntu_keys FOLDER LOG: Ubuntu's keys, those of this machine or of Debian's package, which FOLDER then keeps
ubuntu_keys() {
    local folder=$1 log=$2 keys=/usr/share/keyrings/ubuntu-archive-keyring.gpg url
    if [ -e $keys ]; then echo $keys; return; fi
    if ! [ -e "$folder$keys" ]; then
        # not every release of Debian has the package
        url=$(mirror) || return 1
        update_apart "$folder" "deb $url trixie main" >> "$log" 2>&1 || return 1
        (cd "$folder" && apt_apart . apt-get -q download ubuntu-keyring && dpkg -x ubuntu-keyring_*.deb .) >> "$log" 2>&1 || return 1
    fi
    echo "$folder$keys"
}

# uv_program FOLDER LOG: uv of PATH, else one that FOLDER then keeps
uv_program() {
    command -v uv && return
    [ -x "$1/bin/uv" ] || { python3 -m venv "$1" && "$1/bin/pip" -q install uv; } >> "$2" 2>&1 || return 1
    echo "$1/bin/uv"
}
