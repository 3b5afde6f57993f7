"""A page on a local port: `onward report m.onnx --serve`.

For a browser that cannot open the files of this machine, such as one at the other end of an SSH tunnel.
"""

from __future__ import annotations

import errno
import http.server
import socketserver

from onward.errors import InputError

HOST = "127.0.0.1"  # nobody else on the network
_NAMES = (HOST, "localhost")


class PageServer(socketserver.ThreadingTCPServer):
    """Has the port from the start; answers when `serve` is called."""

    allow_reuse_address = True  # of connections that are closing; a port that somebody listens on is still refused
    daemon_threads = True
    page = b""

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.server_address[1]}/"


def listen(port: int) -> PageServer:
    """Take a port, before any work is done for it; 0 is any that is free."""
    try:
        return PageServer((HOST, port), _Handler)
    except OSError as error:
        reason = {errno.EADDRINUSE: "is in use", errno.EACCES: "may not be used: it is reserved for the system"}
        what = reason.get(error.errno or 0, f"cannot be used: {error.strerror}")
        hint = "choose another with --port, or leave it out for a free one"
        raise InputError(f"port {port} {what}", hint=hint) from None


def serve(server: PageServer, page: str) -> None:
    """Answer with this page until the user ends it (Ctrl-C)."""
    server.page = page.encode()
    try:
        server.serve_forever(poll_interval=0.2)
    except KeyboardInterrupt:
        return
    finally:
        server.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
    """The page at /, and nothing else."""

    server: PageServer

    def do_GET(self) -> None:
        name = self.headers.get("Host", "").rpartition(":")[0] or self.headers.get("Host", "")
        if name not in _NAMES:  # a site elsewhere that has its name point here
            self.send_error(403, "This page is for localhost")
        elif self.path != "/":
            self.send_error(404)
        else:
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(self.server.page)))
            self.end_headers()
            self.wfile.write(self.server.page)

    def log_message(self, format: str, *values: object) -> None:
        """Requests are nothing to talk about."""
