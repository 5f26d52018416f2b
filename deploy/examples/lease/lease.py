#!/usr/bin/env python3
"""Writes each line of standard input to a URL through fenceproxy, under a lease:

    lease.py KEY URL

See README.md beside this file.
"""
import json
import os
import socket
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

SERVER = os.environ.get("FENCEPROXY_SERVER", "http://127.0.0.1:9902")
TOKEN_FILE = os.environ.get("FENCEPROXY_LEASES_TOKEN_FILE", os.environ.get("FENCEPROXY_TOKEN_FILE"))
TTL = float(os.environ.get("TTL", "30"))
WAIT = float(os.environ.get("WAIT", "60"))


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


# Goes to the servers directly, whatever proxy the environment names.
web = urllib.request.build_opener(urllib.request.ProxyHandler({}), NoRedirect)


def now():
    """Goes on while the machine is suspended, where the system has such a clock."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def send(method, url, body, headers, timeout):
    """Returns the status and the body of the answer, whatever it is."""
    request = urllib.request.Request(url, data=body, headers=headers, method=method)
    try:
        with web.open(request, timeout=timeout) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as answer:
        with answer:
            return answer.code, answer.read()


class Held(Exception):
    """Another holds the lease."""


class Lost(Exception):
    """The lease is, or may be, another's."""


class Lease:
    """The lease of a key, renewed until the end of the with block."""

    def __init__(self, key):
        self.url = SERVER + "/v1/leases/" + urllib.parse.quote(key, safe="").replace(".", "%2E")
        self.key, self.over, self.until = key, threading.Event(), 0.0

    def ask(self, method, timeout, **body):
        headers = {"Content-Type": "application/json"}
        if TOKEN_FILE:
            with open(TOKEN_FILE) as f:
                headers["Authorization"] = "Bearer " + f.read().strip()
        return send(method, self.url, json.dumps(body).encode(), headers, timeout)

    def __enter__(self):
        status, answer = self.ask("POST", WAIT + 300, holder=f"{socket.gethostname()}/{os.getpid()}", ttl=f"{TTL}s", wait=f"{WAIT}s")
        if status == 409:
            raise Held(answer.decode())
        if status != 201:
            raise RuntimeError(f"no lease: {status} {answer.decode()}")
        lease = json.loads(answer)
        self.id, self.token = lease["id"], lease["token"]
        self.try_renew()  # the question may have waited for long
        threading.Thread(target=self.keep, daemon=True).start()
        return self

    def keep(self):
        while not self.over.wait(TTL / 3):
            self.try_renew()

    def try_renew(self):
        try:
            self.renew()
        except OSError as e:  # again, until its end
            print(f"renewing the lease: {e}", file=sys.stderr)

    def renew(self):
        sent = now()  # the server counts from later
        status, answer = self.ask("PUT", TTL, id=self.id)
        if status == 200:
            self.until = sent + TTL
        elif status == 409:
            self.until = 0.0
            self.over.set()

    def check(self):
        if now() >= self.until:
            raise Lost(f"the lease of {self.key} is lost: stop")

    def __exit__(self, *_):
        self.over.set()
        try:
            self.ask("DELETE", 5, id=self.id)
        except OSError as e:
            print(f"the lease runs out by itself: {e}", file=sys.stderr)


def main(key, url):
    with Lease(key) as lease:
        for line in sys.stdin:
            lease.check()
            status, answer = send("PUT", url, line.rstrip("\n").encode(), {"X-Fencing-Token": lease.token}, 300)
            print(status, flush=True)
            if status == 409:
                raise Lost("stale, stop: " + answer.decode())
            if not 200 <= status < 300:
                raise RuntimeError(f"not written, or nobody knows: {status}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        print(f"usage: {os.path.basename(sys.argv[0])} KEY URL, and on standard input the lines to write", file=sys.stderr)
        sys.exit(2)
    try:
        main(*sys.argv[1:])
    except Held as e:
        print("held by another:", e, file=sys.stderr)
        sys.exit(75)
    except Lost as e:
        print(e, file=sys.stderr)
        sys.exit(76)
