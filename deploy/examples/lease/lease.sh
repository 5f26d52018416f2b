#!/bin/sh
# Writes each line of standard input to a URL through fenceproxy, under a lease:
#   lease.sh KEY URL
# See README.md beside this file.
set -u
[ $# -eq 2 ] || { echo "usage: ${0##*/} KEY URL, and on standard input the lines to write" >&2 && exit 2; }
key=$1 url=$2
ttl=${TTL:-30} wait=${WAIT:-60}
server=${FENCEPROXY_SERVER:-http://127.0.0.1:9902}
token_file=${FENCEPROXY_LEASES_TOKEN_FILE-${FENCEPROXY_TOKEN_FILE:-}}
lease=$server/v1/leases/$(printf %s "$key" | od -An -v -tx1 | tr -d ' \n' | sed 's/../%&/g')
tmp=$(mktemp -d) || exit 1
nl='
'

# now is in hundredths of a second, and goes on while the machine is suspended.
now() { cut -d' ' -f1 /proc/uptime | tr -d .; }

# ask METHOD BODY SECONDS: asks the lease server; $status and $answer are what it says.
ask() {
	set -- "$@" -H 'Content-Type: application/json'
	[ -z "$token_file" ] || set -- "$@" -H "Authorization: Bearer $(cat "$token_file")"
	method=$1 body=$2 seconds=$3
	shift 3
	answer=$(curl -sS --noproxy '*' --max-time "$seconds" -X "$method" -d "$body" -w '\n%{http_code}' "$@" "$lease")
	status=${answer##*"$nl"} answer=${answer%"$nl"*}
}

# member NAME: a string of the answer.
member() { printf %s "$answer" | sed -n 's/.*"'"$1"'":"\([^"\\]*\)".*/\1/p'; }

# ends TIME: the end of the lease, by now; 0 when it is lost. The file is
# replaced in one step, so that nobody reads half of it.
ends() { echo "$1" >"$tmp/next" && mv "$tmp/next" "$tmp/until"; }

renew() {
	sent=$(now)
	ask PUT "{\"id\":\"$id\"}" "$ttl"
	case $status in
	200) ends $((sent + 100 * ttl)) ;;
	409) ends 0 && return 1 ;;
	esac
	return 0 # again, until its end
}

# The renewer ends with this shell, also where that is killed.
renewer() {
	while sleep "$(awk "BEGIN { print $ttl / 3 }")" && kill -0 $$ 2>/dev/null; do renew || return; done
}

finish() {
	[ -z "${renewer:-}" ] || kill "$renewer" 2>/dev/null
	[ -z "${id:-}" ] || ask DELETE "{\"id\":\"$id\"}" 5
	rm -rf "$tmp"
}
trap finish EXIT
trap 'exit 1' TERM INT HUP

ask POST "{\"holder\":\"$(hostname)/$$\",\"ttl\":\"${ttl}s\",\"wait\":\"${wait}s\"}" $((wait + 300))
case $status in
201) id=$(member id) token=$(member token) ;;
409) echo "$key is held by another: $answer" >&2 && exit 75 ;;
*) echo "no lease: $status $answer" >&2 && exit 1 ;;
esac
ends 0
renew
renewer >/dev/null & # it must not hold our standard output open
renewer=$!

while IFS= read -r line; do
	if [ "$(now)" -ge "$(cat "$tmp/until")" ]; then
		echo "the lease of $key is lost: stop" >&2
		exit 76
	fi
	status=$(printf %s "$line" | curl -sS --noproxy '*' -o "$tmp/answer" -w '%{http_code}' -X PUT -H "X-Fencing-Token: $token" --data-binary @- "$url")
	echo "$status"
	case $status in
	2*) ;;
	409) echo "stale, stop: $(cat "$tmp/answer")" >&2 && exit 76 ;;
	*) echo "not written, or nobody knows: $status" >&2 && exit 1 ;;
	esac
done
