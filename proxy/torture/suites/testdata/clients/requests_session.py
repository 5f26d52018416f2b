"""requests, with the pool of connections of one session."""

import sys

import requests

base, body, chunk = "http://" + sys.argv[1], b"0123456789abcdef" * (10 << 16), 1 << 16
session = requests.Session()
session.trust_env = False
connects = []  # one for each connection that was made
sys.addaudithook(lambda event, _: event == "socket.connect" and connects.append(event))


def ask(method, path, token=None, data=None, **how):
    headers = {"X-Fencing-Token": token} if token else {}
    before = len(connects)
    answer = session.request(method, base + path, data=data, headers=headers, timeout=20, **how)
    return answer, "fresh" if len(connects) > before else "kept"


def problem(answer):
    return answer.json()["type"].rpartition(":")[2]


def say(*words):
    print(*words, flush=True)


answer, _ = ask("PUT", "/things/a", "5", body)
say("upload", answer.status_code, answer.text)

answer, _ = ask("PUT", "/things/a", "5", (body[i : i + chunk] for i in range(0, len(body), chunk)))
say("chunked", answer.status_code, answer.text)

answer, _ = ask("HEAD", "/things/head")
say("head", answer.status_code, answer.headers["Content-Length"], len(answer.content))

answer, _ = ask("GET", "/things/parts", stream=True)
say("parts", answer.status_code)
for part in answer.iter_content(None):
    say("part", part.decode())

answer, _ = ask("GET", "/things/large")
say("download", answer.status_code, len(answer.content))

answer, at = ask("DELETE", "/things/a", "4")
say("refused", answer.status_code, problem(answer), at)
answer, at = ask("PUT", "/things/a", "5", b"x")
say("again", answer.status_code, answer.text, at)

for _ in range(3):
    answer, _ = ask("PUT", "/things/a", "4", body)
    say("stale", answer.status_code, problem(answer))
    answer, _ = ask("PUT", "/things/a", "5", b"x")
    say("again", answer.status_code, answer.text)

answer, _ = ask("PUT", "/things/full", "5", body)
say("full", answer.status_code, answer.text)
answer, _ = ask("PUT", "/things/a", "5", b"x")
say("again", answer.status_code, answer.text)
