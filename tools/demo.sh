#!/usr/bin/env bash
# Shows a standalone Heddle at work on this machine: two commands that share a card, one that waits and why, one that is refused
# memory beyond its share. On real NVIDIA cards where there are any, else on simulated ones. Takes about half a minute, leaves
# nothing running. Exit 1 when anything did not behave.
set -uo pipefail
cd "$(dirname "$0")/.."
bin=${HEDDLE_BIN:-build/release/bin}
heddle=$bin/heddle
state=$(mktemp -d /tmp/heddle-demo-XXXXXX)
export HEDDLE_STATE_DIR=$state
if [ -t 1 ]; then bold=$'\e[1m'; dim=$'\e[2m'; plain=$'\e[0m'; else bold=; dim=; plain=; fi
trouble=0

say() { printf '\n%s== %s%s\n' "$bold" "$*" "$plain"; }
shown() { printf '%s$ heddle %s%s\n' "$dim" "$*" "$plain"; }
wrong() { printf '%sNOT AS IT SHOULD BE: %s%s\n' "$bold" "$*" "$plain"; trouble=1; }
ps_now() { shown ps; "$heddle" ps; }
clean() { "$heddle" down --kill >/dev/null 2>&1; rm -rf "$state"; }
trap clean EXIT
trap 'exit 130' INT TERM

# state_of NAME: waiting, granted, running or nothing.
state_of() {
  "$heddle" ps -o json 2>/dev/null |
    python3 -c 'import json,sys; print(next((j["state"] for j in json.load(sys.stdin)["jobs"] if j["name"] == sys.argv[1]), ""))' "$1"
}
# cards_of WHICH: how many cards the running Heddle has, of nvidia or in all.
cards_of() {
  "$heddle" ps -o json |
    python3 -c 'import json,sys; print(sum(sys.argv[1] in (c["vendor"], "all") for c in json.load(sys.stdin)["cards"]))' "$1"
}
await() { # NAME STATE
  local i
  for ((i = 0; i < 100; i++)); do
    [ "$(state_of "$1")" = "$2" ] && return 0
    sleep 0.2
  done
  wrong "'$1' did not become $2"
  return 1
}

say "Heddle on this machine, without Kubernetes"
kind=real
why=
"$heddle" up --dashboard-port 0 >"$state/up" 2>&1 || why=$(cat "$state/up")
if [ -z "$why" ] && [ "$(cards_of nvidia)" = 0 ]; then
  why="This machine has cards, but none of NVIDIA, and the commands of this demo call CUDA."
  "$heddle" down >/dev/null 2>&1
fi
if [ -n "$why" ]; then
  kind=simulated
  echo "$why"
  echo "So this demo runs on SIMULATED cards. Nothing below is real hardware; Heddle itself is the same."
  shown "up --simulate h100x1"
  "$heddle" up --simulate h100x1 --dashboard-port 0 >"$state/up" 2>&1 || { cat "$state/up"; exit 1; }
else
  shown up
fi
cat "$state/up"
memory=$("$heddle" ps -o json | python3 -c 'import json,sys; print(next(c["memoryBytes"] for c in json.load(sys.stdin)["cards"] if c["vendor"] == "nvidia") >> 20)') || exit 1
# A machine with cards of several vendors has to be told which are meant.
vendor=()
if [ "$(cards_of all)" != "$(cards_of nvidia)" ]; then vendor=(--vendor nvidia); fi
part() { echo $((memory * $1 / 100))Mi; }

# run_job NAME SHARE... -- STEPS...: in the background, its messages in a file.
declare -A jobs
run_job() {
  local name=$1
  shift
  local share=()
  while [ "$1" != -- ]; do share+=("$1"); shift; done
  shift
  share+=("${vendor[@]}")
  shown "run --name $name ${share[*]} -- nvsim-run $*"
  "$heddle" run --name "$name" "${share[@]}" -- "$bin/nvsim-run" "$@" >"$state/$name.out" 2>&1 &
  jobs[$name]=$!
}
ended_well() { # NAME
  wait "${jobs[$1]}" || { wrong "'$1' ended with $?"; cat "$state/$1.out"; }
}

say "Two commands share a card, each inside its own limits"
run_job trainer --memory "$(part 45)" --cores 50 -- --expect-total "$(part 45)" --alloc "$(part 30)" --hold 9s
run_job server --memory "$(part 30)" --cores 30 -- --expect-total "$(part 30)" --alloc "$(part 10)" --hold 16s
await trainer running && await server running
sleep 1
ps_now

say "A third does not fit on that card: it waits, and Heddle says why"
others=$(($(cards_of nvidia) - 1))
# On a machine with more cards, whole ones are taken first, so that the third really has to wait.
if [ "$others" -gt 0 ]; then run_job others --count "$others" -- --hold 12s; await others running; fi
run_job late --memory "$(part 50)" --cores 20 -- --expect-total "$(part 50)" --alloc "$(part 40)" --hold 5s
await late waiting
shown "explain late"
"$heddle" explain late || wrong "explain failed"

say "A program that wants more than its share gets an out-of-memory error from the driver, and nobody else notices"
run_job greedy --memory "$(part 10)" -- --totals --alloc "$(part 8)" --expect-oom "$(part 5)"
ended_well greedy
cat "$state/greedy.out"

say "What can never fit is refused at once"
shown "run --memory $((memory * 2))Mi -- true"
"$heddle" run "${vendor[@]}" --memory "$((memory * 2))Mi" -- true
[ $? = 2 ] || wrong "it was not refused with exit code 2"

say "Who has what, as the first one ends and the one that waited starts"
for frame in 1 2 3; do
  printf '\n%s-- frame %s, %s%s\n' "$dim" "$frame" "$(date +%T)" "$plain"
  ps_now
  if [ "$frame" = 1 ]; then ended_well trainer; await late running; fi
  if [ "$frame" = 2 ]; then ended_well late; fi
done
if [ "$others" -gt 0 ]; then ended_well others; fi
ended_well server

say "All done"
shown "ps --all"
"$heddle" ps --all
used=$("$heddle" ps -o json | python3 -c 'import json,sys; print(sum(c["grantedBytes"] for c in json.load(sys.stdin)["cards"]))')
[ "$used" = 0 ] || wrong "$used bytes are still granted"
shown down
"$heddle" down || wrong "down failed"

if [ "$trouble" != 0 ]; then
  printf '\n%sSomething did not behave; the log of the daemon:%s\n' "$bold" "$plain"
  tail -20 "$state/heddle.log"
  exit 1
fi
up=up
[ "$kind" = simulated ] && up='up --simulate h100x2'
printf '\nWhere to look next:\n'
printf '  %-47s%s\n' "$heddle $up" "start it for yourself" "$heddle run --help" "ask for a share" \
  docs/standalone.md "all about this form of it" README.md "what this is, and the same on a Kubernetes cluster" \
  "make test" "everything, with a real cluster"
