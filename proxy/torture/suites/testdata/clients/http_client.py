"""Python's own http.client, one connection for as long as it lasts."""

import http.client
import json
import sys

host, body, chunk = sys.argv[1], b"0123456789abcdef" * (10 << 16), 1 << 16
conn = http.client.HTTPConnection(host, timeout=20)


def ask(method, path, token=None, body=None, headers=(), **how):
    headers = dict(headers)
    if token:
        headers["X-Fencing-Token"] = token
    fresh = conn.sock is None
    try:
        conn.request(method, path, body, headers, **how)
    except (BrokenPipeError, ConnectionResetError):
        pass  # refused while it uploaded: the answer is there
    answer = conn.getresponse()
    return answer, "fresh" if fresh else "kept"


def problem(answer):
    return json.loads(answer.read())["type"].rpartition(":")[2]


def say(*words):
    print(*words, flush=True)


answer, _ = ask("PUT", "/things/a", "5", body)
say("upload", answer.status, answer.read().decode())

chunks = (body[i : i + chunk] for i in range(0, len(body), chunk))
answer, _ = ask("PUT", "/things/a", "5", chunks, {"Transfer-Encoding": "chunked"}, encode_chunked=True)
say("chunked", answer.status, answer.read().decode())

answer, _ = ask("HEAD", "/things/head")
say("head", answer.status, answer.getheader("Content-Length"), len(answer.read()))

answer, _ = ask("GET", "/things/parts")
say("parts", answer.status)
while part := answer.read1():
    say("part", part.decode())

answer, _ = ask("GET", "/things/large")
say("download", answer.status, len(answer.read()))

answer, at = ask("DELETE", "/things/a", "4")
say("refused", answer.status, problem(answer), at)
answer, at = ask("PUT", "/things/a", "5", b"x")
say("again", answer.status, answer.read().decode(), at)

for _ in range(3):
    answer, _ = ask("PUT", "/things/a", "4", body)
    say("stale", answer.status, problem(answer))
    answer, _ = ask("PUT", "/things/a", "5", b"x")
    say("again", answer.status, answer.read().decode())

answer, _ = ask("PUT", "/things/full", "5", body)
say("full", answer.status, answer.read().decode())
answer, _ = ask("PUT", "/things/a", "5", b"x")
say("again", answer.status, answer.read().decode())
