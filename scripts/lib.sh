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
