#!/usr/bin/env bash
# Shows the live broker at work in a test network of its own, in about a minute.
#
#   scripts/demo-live.sh FOREBAY    path of the built command; takes root
#
#   generator ──► broker ──► switch ──► three sensors: unmodified tools, each started
#                                       by `forebay sensor-hello`
#
# Everything is in network namespaces called forebay-demo-*, and in a folder below /tmp;
# both are gone at the end, also after Ctrl-C. Nothing is sent outside of them. The exit
# status is 0 if everything was as expected.
set -euo pipefail

script=$(realpath "$0")
forebay=$(realpath "${1:?usage: scripts/demo-live.sh FOREBAY}")
export PATH="$PATH:/usr/sbin:/sbin"
if [[ $(id -u) -ne 0 ]]; then
    echo 'network namespaces take root: asking sudo'
    exec sudo --preserve-env=TERM,NO_COLOR "$script" "$forebay"
fi
for needed in ip bridge pgrep tcpdump; do
    if ! command -v $needed >/dev/null; then
        echo "no $needed here: \`scripts/setup.sh live\` installs what this takes" >&2
        exit 1
    fi
done

readonly prefix=forebay-demo
readonly spaces=(gen broker switch s1 s2 s3)
readonly broker_mac=02:00:00:00:00:fe
readonly rate=8000
declare -A tool_of=([s1]='' [s2]='' [s3]='')
declare -A hello_of=()
broker='' load='' problems=0
work=$(mktemp -d /tmp/$prefix.XXXXXX)
socket=$work/control.sock

# ---------------------------------------------------------------- words and colours

if [[ -t 1 && -z ${NO_COLOR:-} ]]; then
    bold=$'\e[1m' dim=$'\e[2m' good=$'\e[32m' bad=$'\e[1;31m' plain=$'\e[0m'
else
    bold='' dim='' good='' bad='' plain=''
fi
stages=0
stage() {
    stages=$((stages + 1))
    printf '\n%s%s. %s%s\n' "$bold" "$stages" "$*" "$plain"
}
say() { printf '   %s\n' "$*"; }
well() { printf '   %s✓ %s%s\n' "$good" "$*" "$plain"; }
wrong() {
    printf '   %s✗ %s%s\n' "$bad" "$*" "$plain"
    problems=$((problems + 1))
}

# Runs a command in one of the namespaces.
in_space() {
    local space=$1
    shift
    ip netns exec "$prefix-$space" "$@"
}

ctl() { "$forebay" ctl -s "$socket" "$@"; }

# ---------------------------------------------------------------- the end

# Ends the processes in the namespaces, and removes the namespaces, including those of an
# earlier run.
tear_down() {
    local space pids
    for space in "${spaces[@]}"; do
        pids=$(ip netns pids "$prefix-$space" 2>/dev/null || true)
        # shellcheck disable=SC2086  # one word a process
        [[ -z $pids ]] || kill -KILL $pids 2>/dev/null || true
        ip netns delete "$prefix-$space" 2>/dev/null || true
    done
}
at_exit() {
    local status=$?
    trap - EXIT INT TERM HUP
    # Suppress the shell's message about each killed process.
    exec 2>/dev/null
    tear_down
    wait 2>/dev/null || true
    rm -rf "$work"
    exit "$status"
}
trap at_exit EXIT
trap 'printf "\ninterrupted: cleaning up\n"; exit 130' INT TERM HUP

# ---------------------------------------------------------------- the network

sensors() { printf '%s\n' s1 s2 s3; }
mac_of() { printf '02:00:00:00:01:0%s' "${1#s}"; }
name_of() { printf '%s-%s' "${tool_of[$1]%Reader}" "${1#s}"; }

# Joins two namespaces: SPACE DEVICE SPACE DEVICE.
connect() {
    ip link add "$2" netns "$prefix-$1" type veth peer name "$4" netns "$prefix-$3"
    local end
    for end in "$1 $2" "$3 $4"; do
        # shellcheck disable=SC2086  # two words
        set -- $end
        in_space "$1" ip link set dev "$2" arp off multicast off up
    done
}

build_network() {
    local space
    for space in "${spaces[@]}"; do
        ip netns add "$prefix-$space"
        in_space "$space" sysctl -qw net.ipv6.conf.all.disable_ipv6=1 \
            net.ipv6.conf.default.disable_ipv6=1 2>/dev/null || true
    done
    in_space switch ip link add sw type bridge mcast_snooping 0
    in_space switch ip link set dev sw arp off multicast off up
    connect gen g0 broker tap
    connect broker out switch p0
    for space in $(sensors); do
        connect switch "p${space#s}" "$space" eth0
        in_space "$space" ip link set dev eth0 address "$(mac_of "$space")"
    done
    local port
    for port in p0 p1 p2 p3; do
        in_space switch ip link set dev "$port" master sw
    done
    switch_is_told
}

# Lasting entries, and no learning.
switch_is_told() {
    local space port
    for port in p0 p1 p2 p3; do
        in_space switch ip link set dev "$port" type bridge_slave learning off
    done
    in_space switch bridge fdb replace "$broker_mac" dev p0 master static
    for space in $(sensors); do
        in_space switch bridge fdb replace "$(mac_of "$space")" dev "p${space#s}" master static
    done
}

# No entries but those it learns, forgotten after two seconds.
switch_learns() {
    local space port
    for port in p0 p1 p2 p3; do
        in_space switch ip link set dev "$port" type bridge_slave learning on
    done
    in_space switch ip link set dev sw type bridge ageing_time 200
    in_space switch bridge fdb del "$broker_mac" dev p0 master
    for space in $(sensors); do
        in_space switch bridge fdb del "$(mac_of "$space")" dev "p${space#s}" master
    done
}

# ---------------------------------------------------------------- participants

# The installed tools. tcpdump is always there.
choose_tools() {
    tool_of[s1]=tcpdump tool_of[s2]=tcpdump tool_of[s3]=tcpdump
    command -v tshark >/dev/null && tool_of[s2]=tshark
    command -v ndpiReader >/dev/null && tool_of[s3]=ndpiReader
    return 0
}

# The command line of a sensor's unmodified tool.
command_of() {
    case ${tool_of[$1]} in
    tcpdump) echo tcpdump -i eth0 -n -w /dev/null ;;
    tshark) echo tshark -i eth0 -q -w /dev/null ;;
    ndpiReader) echo ndpiReader -i eth0 -s 3600 -q ;;
    esac
}

start_sensor() {
    local space=$1 words
    read -ra words <<<"$(command_of "$space")"
    ip netns exec "$prefix-$space" "$forebay" -q sensor-hello -i eth0 --interval 200ms \
        --to "$broker_mac" --name "$(name_of "$space")" -- "${words[@]}" \
        >"$work/$space.log" 2>&1 &
    hello_of[$space]=$!
    # Suppress the shell's message about killed processes.
    disown
}

# The process of a sensor's tool.
tool_process() { pgrep -P "${hello_of[$1]}" | head -n 1; }

configure() {
    local space
    {
        printf '[broker]\ncontrol = "%s"\n[flow]\nidle_timeout = "2s"\n' "$socket"
        printf '[health]\nhello_timeout = "1s"\n'
        printf '[[input]]\nname = "tap"\ntype = "af_packet"\ninterface = "tap"\n'
        printf '[[output]]\nname = "switch"\ntype = "af_packet"\ninterface = "out"\n'
        printf '[[group]]\nname = "tools"\nsource_mac = "%s"\n' "$broker_mac"
        for space in $(sensors); do
            printf '[[group.sensor]]\nname = "%s"\nmac = "%s"\nhello = true\n' \
                "$(name_of "$space")" "$(mac_of "$space")"
            [[ $space != "${1:-}" ]] || printf 'limit_pps = %s\n' $((rate / 6))
        done
    } >"$work/run.toml"
}

start_broker() {
    ip netns exec "$prefix-broker" "$forebay" run -c "$work/run.toml" >"$work/broker.out" 2>"$work/broker.log" &
    broker=$!
    wait_until 10 "the broker" ctl -q status
}

# Sends traffic for some seconds in the background.
traffic() {
    ip netns exec "$prefix-gen" "$forebay" -q gen -i g0 --rate $rate --flows 2000 --life 1s --even \
        --duration "$1s" &
    load=$!
}

# Waits for a command to succeed: SECONDS WHAT COMMAND…
wait_until() {
    local end=$((SECONDS + $1)) what=$2
    shift 2
    until "$@" >/dev/null 2>&1; do
        if ((SECONDS > end)); then
            wrong "$what: waited in vain"
            return 0
        fi
        sleep 0.05
    done
}

# Succeeds if a sensor has the given standing.
stands() { ctl sensors | grep -q "^tools *$(name_of "$1") *$2 "; }

show_top() { echo && "$forebay" top -s "$socket" --once; }

# Prints the broker's notices about sensors since the last call.
told=0
show_events() {
    local lines
    lines=$(wc -l <"$work/broker.log")
    tail -n +$((told + 1)) "$work/broker.log" | grep '^group tools: sensor' |
        sed "s/^group tools:/   ${dim}broker:${plain}/" || true
    told=$lines
}

# Frames for other stations that reached the sensors, as counted in their hellos.
strays() {
    ctl --json sensors | grep -o '"frames_for_others": [0-9]*' |
        awk '{ all += $2 } END { print all + 0 }'
}

# ---------------------------------------------------------------- the steps

network() {
    stage "A network: generator, broker, a switch (Linux bridge), three sensors"
    tear_down
    choose_tools
    build_network
    configure
    start_broker
    local space
    for space in $(sensors); do
        start_sensor "$space"
        say "$(name_of "$space"): $(command_of "$space")"
    done
    for space in $(sensors); do
        wait_until 10 "$(name_of "$space")" stands "$space" up
    done
    well "three sensors say hello every 200 ms, through the switch"
    told=$(wc -l <"$work/broker.log")
}

balance() {
    stage "Traffic: $rate packets a second, 2,000 flows at a time that live 1 s on average"
    traffic 30
    sleep 4
    show_top
}

limited() {
    stage "$(name_of s2) may have half of its share from now on (ctl reload)"
    configure s2
    ctl -q reload
    say "flows that it has stay there until they end; new ones go elsewhere"
    sleep 7
    show_top
}

death() {
    stage "$(name_of s3) is killed; its port stays up"
    local process since
    process=$(tool_process s3)
    say "kill -KILL $process, which is ${tool_of[s3]}"
    since=$(date +%s%N)
    kill -KILL "$process"
    wait_until 10 "its death" stands s3 down
    since=$((($(date +%s%N) - since) / 1000000))
    show_events
    if ((since < 1000)); then
        well "its load is elsewhere after $since ms"
    else
        wrong "its load is elsewhere after $since ms only"
    fi
    sleep 2
    show_top
}

recovery() {
    stage "$(name_of s3) is started again, and takes new flows gradually"
    start_sensor s3
    wait_until 10 "its return" stands s3 up
    configure
    ctl -q reload
    show_events
    sleep 7
    show_top
    wait "$load" || wrong "the generator failed"
}

learning() {
    stage "The switch forgets stations after 2 s now; sensors are silent but for hellos"
    switch_learns
    sleep 1
    local before after
    before=$(strays)
    traffic 6
    wait "$load" || wrong "the generator failed"
    sleep 0.5
    after=$(strays)
    if ((after == before)); then
        well "no frame reached a sensor that it was not for"
    else
        wrong "$((after - before)) frames reached sensors that they were not for"
    fi
    show_events
    stage "$(name_of s1) keeps silent: the switch forgets it, and floods"
    kill -KILL "${hello_of[s1]}"
    ctl -q sensor "$(name_of s1)" up
    traffic 4
    wait "$load" || wrong "the generator failed"
    sleep 0.5
    show_events
    before=$after
    after=$(strays)
    if ((after > before)); then
        well "noticed: $((after - before)) frames reached sensors that they were not for"
    else
        wrong "the flood was not noticed"
    fi
}

account() {
    stage "The account: every packet is somewhere"
    ctl ledger
    kill -TERM "$broker"
    if wait "$broker"; then
        well "the ledger closes"
    else
        wrong "the broker did not end well:"
        cat "$work/broker.log"
    fi
}

network
balance
limited
death
recovery
learning
account
stage "Cleaning up"
tear_down
if ((problems > 0)); then
    wrong "$problems things were not as they should be"
    exit 1
fi
well "nothing is left behind"
