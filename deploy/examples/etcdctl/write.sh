#!/bin/sh
# Writes FILE to URL under an etcd lock. Needs etcdctl and curl.
#
#   ETCDCTL_ENDPOINTS=http://127.0.0.1:2379 ./write.sh LOCK URL FILE
#
# The token is the create_revision of the lock's key: etcd counts it up with
# every change, for all keys, and it stays the same for as long as the lock is held.
#
# Traps:
#   - ETCD_LOCK_REV is not it: that is etcd's revision when the lock was got.
#   - `etcdctl lock` does not end its command when the lease is lost. This script
#     may be one that sleeps; the fence is what stops it.
#   - It gives the command no standard input: hence a FILE.
#   - A restored snapshot takes revisions back: restore with --bump-revision, or
#     raise the rule's epoch.
set -eu
[ $# -eq 3 ] || { echo "usage: write.sh LOCK URL FILE" >&2; exit 2; }

# Outside of the lock: come in again, under it.
[ -n "${ETCD_LOCK_KEY:-}" ] || exec etcdctl lock --ttl 10 "$1" -- "$0" "$@"

token=$(etcdctl get "$ETCD_LOCK_KEY" -w fields | sed -n 's/^"CreateRevision" : \([0-9]*\)$/\1/p')
[ -n "$token" ] || { echo "the lock is lost already" >&2; exit 1; }
echo "token $token" >&2

answer=$(mktemp)
trap 'rm -f "$answer"' EXIT
for try in 1 2 3 4 5; do
	status=$(curl -s -i -o "$answer" -w '%{http_code}' -X PUT -H "X-Fencing-Token: $token" --data-binary "@$3" "$2") || status=000
	said() { grep -qi "^$1: $2" "$answer"; } # by the proxy: the API may answer 409, too
	case $status in
	2??) exit 0 ;;
	000) break ;;
	esac
	if said Fencing-Result 'rejected;reason=stale-token'; then # stop; take the lock again before the next write
		echo "lost the lease: $(tail -n 1 "$answer")" >&2
		exit 4
	elif said Fencing-Forwarded unknown; then
		break
	elif [ "$status" != 503 ] || ! said Fencing-Forwarded no || [ ! -f "$3" ]; then # a FILE that is a pipe is read up
		echo "refused: $(cat "$answer")" >&2
		exit 1
	fi
	sleep "$try" # not forwarded: the same token may come again
done
echo "the write may have happened, look before you repeat it: $(cat "$answer")" >&2
exit 5
