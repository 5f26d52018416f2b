"""Answers with what WSGI applications make of a request, on the standard
library's server. Its argument: the mark that parts the fields of an answer.
It says its port in one line and ends when its standard input does."""
import json, os, posixpath, socketserver, sys, threading
import xml.etree.ElementTree as ElementTree
from urllib.parse import parse_qs
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

MARK = sys.argv[1].encode()


def application(environ, start_response):
    path = environ["PATH_INFO"]
    try:  # as Django and Flask read a query: the last one, the first one
        ids = parse_qs(environ["QUERY_STRING"], keep_blank_values=True, errors="surrogateescape").get("id", [""])
    except ValueError:
        ids = [""]
    host = environ.get("HTTP_HOST", "").lower()
    fields = {
        "path": path,
        "normal": "/" + posixpath.normpath(path).lstrip("/"),
        "id": ids[0],
        "last-id": ids[-1],
        "host": host.removesuffix(":80").removesuffix("."),
        "token": environ.get("HTTP_X_FENCING_TOKEN", ""),
        "box": environ.get("HTTP_X_BOX", ""),
    }
    length = int(environ.get("CONTENT_LENGTH") or 0)
    if length:
        fields.update(read(environ["wsgi.input"].read(length), environ["QUERY_STRING"]))
    body = MARK.join(k.encode() + b"=" + text(v) for k, v in fields.items())
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]


def read(body, query):
    """What the common readers of a body find in it."""
    found = {
        "query": lambda: parse_qs(query, strict_parsing=False)["order_id"][-1],
        "form": lambda: parse_qs(body.decode(), max_num_fields=1000)["order_id"][-1],
        "json": lambda: scalar(json.loads(body)["order_id"]),
        "xml": lambda: element(body).find("id").text,
        "attribute": lambda: element(body).attrib["id"],
    }
    for name, look in found.items():
        try:
            value = look()
            if value is not None:
                # As bytes are in WSGI, or text() would take them for those.
                yield name, value.encode().decode("latin-1")
        except Exception:
            pass  # it is none to this reader


def scalar(value):
    return str(value) if isinstance(value, (str, int, float)) else None


def element(body):
    root = ElementTree.fromstring(body)
    if root.tag != "order":
        raise ValueError(root.tag)
    return root


def text(value):
    """WSGI's strings have one byte in each character; parse_qs's have not."""
    try:
        return value.encode("latin-1")
    except UnicodeEncodeError:
        return value.encode("utf-8", "surrogateescape")


class Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 128

    def server_bind(self):  # without looking its own name up in the DNS
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "localhost", self.server_address[1]
        self.setup_environ()


class Quiet(WSGIRequestHandler):
    def log_message(self, *args):
        pass


server = make_server("127.0.0.1", 0, application, Server, Quiet)
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
print(server.server_address[1], flush=True)
server.serve_forever()
