#!/usr/bin/python3
"""Writes FILE to URL under a ZooKeeper lock. Needs kazoo.

    ./worker.py 127.0.0.1:2181 LOCK URL FILE

The token is the czxid of the lock's node: the number of the transaction that
made it, which ZooKeeper counts up for all nodes.

Traps:
  - The number at the end of the node's name is not it. It counts the changes
    of one parent in 32 bits, and begins again at 0 when that parent is made anew.
  - mzxid and pzxid change while the lock is held; czxid does not.
  - Another lock object of the same client is another holder, with a node of its
    own. Ask for the node of the lock that you hold, and not for the first child.
  - kazoo prints czxid in decimal, zkCli.sh in hex. The rule's format has to be
    one of them, for all clients: here decimal.
  - lock.is_acquired stays true when the session is lost. The fence knows better.
"""
import sys
import time
import urllib.error
import urllib.request

from kazoo.client import KazooClient


def write(url, token, body):
    """Returns when the write was applied. Never repeats one that may have been."""
    request = urllib.request.Request(url, data=body, method="PUT", headers={"X-Fencing-Token": str(token)})
    for attempt in range(1, 6):
        try:
            with urllib.request.urlopen(request, timeout=120):
                return
        except urllib.error.HTTPError as answer:
            text = answer.read().decode(errors="replace")
            forwarded = answer.headers.get("Fencing-Forwarded")  # the proxy's; the API may answer 409, too
            if answer.headers.get("Fencing-Result") == "rejected;reason=stale-token":
                print("lost the lease:", text, file=sys.stderr)  # stop; take the lock again before the next write
                sys.exit(4)
            if forwarded == "unknown":
                print("it may have happened, look before you repeat it:", text, file=sys.stderr)
                sys.exit(5)
            if answer.code != 503 or forwarded != "no":
                sys.exit("refused: %s %s" % (answer.code, text))
            time.sleep(float(answer.headers.get("Retry-After", attempt)))  # not forwarded: the same token may come again
    sys.exit("not forwarded, for too long")


def main():
    if len(sys.argv) != 5:
        sys.exit("usage: worker.py SERVERS LOCK URL FILE")
    servers, name, url, file = sys.argv[1:]
    client = KazooClient(hosts=servers, timeout=10)
    client.start()
    try:
        lock = client.Lock("/locks/" + name)
        with lock:
            stat = client.exists(lock.path + "/" + lock.node)
            if stat is None:
                sys.exit("the lock is lost already")
            print("token", stat.czxid, file=sys.stderr, flush=True)
            with open(file, "rb") as f:  # the work
                body = f.read()
            write(url, stat.czxid, body)
    finally:
        client.stop()


if __name__ == "__main__":
    main()
