# test/bench/session.sh: a psql session that lasts for a whole contest, so that timings are those
# of a warm session: buffers mapped, catalogs read; sourced by lib.sh.
# shellcheck shell=bash

session_pid=''

# tell_session is the last command of pipelines, and must not run in a subshell: the session would
# end with it.
shopt -s lastpipe

# Errors end the session; close_session and tell_session detect that.
open_session() {
    mkfifo "$work/session.in" "$work/session.out"
    sql <"$work/session.in" >"$work/session.out" 2>"$log/session.txt" &
    session_pid=$!
    exec {session_in}>"$work/session.in" {session_out}<"$work/session.out"
    rm "$work/session.in" "$work/session.out"
}

# Commands come from standard input; psql's output is left in $work/said.
tell_session() {
    local line
    [ -n "$session_pid" ] || open_session
    # Writing to a session that has ended would kill this shell before it could report why.
    (trap '' PIPE; cat; printf '\\o\n\\echo @done\n') 1>&"$session_in" 2>/dev/null || true
    : >"$work/said"
    while IFS= read -r line <&"$session_out"; do
        [ "$line" != @done ] || return 0
        echo "$line" >>"$work/said"
    done
    die "a statement failed: $(grep -m 1 -E 'ERROR|FATAL' "$log/session.txt")"
}

close_session() {
    [ -n "$session_pid" ] || return 0
    # Closing its input is not enough: a server started meanwhile may hold the pipe open.
    printf '\\q\n' >&"$session_in"
    exec {session_in}>&- {session_out}<&-
    wait "$session_pid" || die "a session ended with an error: $(tail -n 1 "$log/session.txt")"
    session_pid=''
}
