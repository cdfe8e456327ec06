#!/usr/bin/env bash
# Makes the dataset of examples/endpoints/pipeline.yaml: starts its two servers and a PostgreSQL server, runs the pipeline to its
# report, and leaves nothing running:
#   run_endpoints.sh BINARY [FOLDER [RECORDS]]
# PORTS ("8001 8002"): of the servers.
# DATABASE_URL (postgresql://...): the cells are kept there, and a later run goes on with them; without it, in a database that
# is made for this run and gone with it.
set -euo pipefail
if (($# < 1 || $# > 3)); then
  echo "usage: $0 BINARY [FOLDER [RECORDS]]" >&2
  exit 2
fi
binary=$(realpath "$1")
out=${2:+$(realpath -m "$2")}
records=${3:-}
read -r solver_port judge_port <<<"${PORTS:-8001 8002}"
cd "$(dirname "$0")/.."
example=examples/endpoints/pipeline.yaml

fail() {
  echo "run_endpoints: $1" >&2
  exit 1
}

[[ "$solver_port $judge_port" =~ ^[0-9]+\ [0-9]+$ && $solver_port != "$judge_port" ]] || fail "PORTS is to name two ports, like '8001 8002': '$PORTS'"
servers=()
run=
work=$(mktemp -d "${TMPDIR:-/tmp}/dovetail-endpoints.XXXXXX")

clean_up() {
  trap '' INT TERM HUP
  if ((${#servers[@]})); then
    kill -TERM "${servers[@]}" 2>/dev/null || true
    # PostgreSQL waits for its clients after SIGTERM, and not after SIGQUIT.
    [[ -z ${database_server:-} ]] || kill -QUIT "$database_server" 2>/dev/null || true
    wait "${servers[@]}" 2>/dev/null || true
  fi
  rm -rf "$work"
}

# Once: the run finishes what is under way. Twice: it stops at once. Before it has begun: the end.
interrupted() {
  [[ -n $run ]] || exit "$1"
  kill -TERM "$run" 2>/dev/null || true
}

trap clean_up EXIT
trap 'interrupted 129' HUP
trap 'interrupted 130' INT
trap 'interrupted 143' TERM

# Starts a program in the background that no Ctrl-C reaches, and that gets a signal when this script is gone: SIGNAL COMMAND...
begin() {
  setsid setpriv --pdeathsig="$1" "${@:2}" </dev/null &
  servers+=($!)
}

# Waits until a command succeeds, as long as a server lives: PID LOG COMMAND...
wait_for() {
  for ((tries = 0; tries < 600; ++tries)); do
    "${@:3}" >/dev/null 2>&1 && return
    kill -0 "$1" 2>/dev/null || break
    sleep 0.1
  done
  cat "$2" >&2
  fail "a server did not start; above is what it said"
}

# NAME PORT
start_model() {
  local log=$work/$1.log
  ! (: <>"/dev/tcp/127.0.0.1/$2") 2>/dev/null || fail "port $2 is taken; choose others, like this: PORTS='9001 9002' make run-endpoints"
  begin TERM "$binary" serve models/demo-arith --port "$2" --drain-limit 5 >"$log" 2>&1
  wait_for "${servers[-1]}" "$log" grep -q 'listening on ' "$log"
  echo "$1: $(sed -n 's/.*listening on //p' "$log")"
}

# Sets DATABASE_URL.
start_database() {
  local programs folder=$work/database owner=()
  programs=$(find /usr/lib/postgresql -path '*/bin/initdb' -printf '%h\n' 2>/dev/null | sort -V | tail -n 1)
  [[ -n $programs ]] || fail "there is no PostgreSQL server here: install Debian's package postgresql, or name a database in DATABASE_URL"
  # A socket's path is short.
  ((${#folder} < 90)) || fail "the path of the folder for temporary files is too long for a socket, choose another in TMPDIR: ${TMPDIR:-/tmp}"
  mkdir "$folder"
  if ((EUID == 0)); then
    id postgres >/dev/null 2>&1 || fail "a PostgreSQL server does not run as root, and there is no user postgres; name a database in DATABASE_URL"
    owner=(--reuid=postgres --regid=postgres --clear-groups)
    chmod 711 "$work"
    chown postgres:postgres "$folder"
  fi
  chmod 700 "$folder"
  (cd / && setpriv "${owner[@]}" --pdeathsig=TERM "$programs/initdb" -D "$folder/data" -U dovetail -A trust -E UTF8 --no-locale --no-sync) \
    >"$work/database.log" 2>&1 || { cat "$work/database.log" >&2; fail "the database could not be made"; }
  # Gone with the run: nothing of it has to survive the machine.
  begin QUIT "${owner[@]}" "$programs/postgres" -D "$folder/data" -k "$folder" -c listen_addresses= -c fsync=off >>"$work/database.log" 2>&1
  database_server=${servers[-1]}
  wait_for "$database_server" "$work/database.log" "$programs/pg_isready" -h "$folder" -d postgres
  DATABASE_URL="postgresql:///postgres?user=dovetail&host=$folder"
  echo "database: made for this run"
}

if [[ -z $out ]]; then
  out=build/endpoints
  rm -rf "$out"
fi
DOVETAIL_API_KEY=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
export DOVETAIL_API_KEY
own_database=
case ${DATABASE_URL:-} in
  "") own_database=yes; start_database ;;
  postgresql://* | postgres://*) ;;
  *) fail "DATABASE_URL is to begin with postgresql:// or postgres://" ;;
esac
start_model solver "$solver_port"
start_model judge "$judge_port"

mkdir -p "$out"
file=$out/pipeline.yaml
sed -e "s#127\.0\.0\.1:8001/#127.0.0.1:$solver_port/#" -e "s#127\.0\.0\.1:8002/#127.0.0.1:$judge_port/#" "$example" >"$file"
options=(--output "$out" --database "$DATABASE_URL")
[[ -z $records ]] || options+=(--records "$records")
command=run
if [[ -z $own_database ]] && "$binary" pipeline status "$file" "${options[@]}" >/dev/null 2>&1; then
  echo "database: it has this run already, which goes on"
  command=resume
fi

echo "Sums that one server answers and the other one judges, by $example:"
# When this script is killed, a run whose database goes with it has nothing left to finish.
setsid setpriv --pdeathsig="$([[ -n $own_database ]] && echo KILL || echo TERM)" \
  "$binary" pipeline "$command" "$file" "${options[@]}" </dev/null &
run=$!
code=0
wait "$run" || code=$?
# A signal ends the waiting, not the run.
while kill -0 "$run" 2>/dev/null; do
  code=0
  wait "$run" || code=$?
done
run=
if ((code != 0)); then
  [[ -z $own_database ]] || echo "run_endpoints: the database was made for this run and is gone with it; begin again" >&2
  exit "$code"
fi
echo "The first records, all are in $out/results.jsonl:"
head -n 3 "$out/results.jsonl"
echo "Open $out/report.html in a browser."
