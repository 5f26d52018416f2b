"""A legacy API on the standard library's WSGI server that keeps a record of
each request that it saw. Its argument: the file of the record. It says its port
in one line and ends when its standard input does."""
import json, os, socketserver, sys, threading
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

RECORD = open(sys.argv[1], "a", buffering=1)
LOCK = threading.Lock()


def seen(**fields):
    with LOCK:
        RECORD.write(json.dumps(fields) + "\n")


def application(environ, start_response):
    environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    start_response("200 OK", [("Content-Length", "5")])
    return [b"done\n"]


class Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 128

    def server_bind(self):  # without looking its own name up in the DNS
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "localhost", self.server_address[1]
        self.setup_environ()


class Recorder(WSGIRequestHandler):
    def parse_request(self):
        ok = super().parse_request()
        if ok:
            tokens = self.headers.get_all("X-Fencing-Token") or []
            seen(method=self.command, target=self.path, token=" & ".join(tokens), line=self.requestline, status=200)
        else:
            seen(method="", target="", token="", line=str(self.raw_requestline), status=400)
        return ok

    def log_message(self, *args):
        pass


server = make_server("127.0.0.1", 0, application, Server, Recorder)
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
print(server.server_address[1], flush=True)
server.serve_forever()
