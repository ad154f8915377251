"""A hub like huggingface.co, on two ports of this machine: the hub itself (API, small files, redirects for large ones)
and the host that large files come from. What goes wrong is chosen per test by `Hub.faults`."""
import collections, hashlib, json, re, socket, ssl, sys, threading, time, traceback, urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from harness import clients


class Repo:
    """One commit of a repository. Files of at least `lfs_from` bytes are in LFS."""

    def __init__(self, files, lfs_from=1000, gated=False, private=False, facts=None):
        self.files, self.lfs_from, self.gated, self.private = dict(files), lfs_from, gated, private
        self.facts = facts or {}
        names = sorted((path, hashlib.sha1(content).hexdigest()) for path, content in self.files.items())
        self.commit = hashlib.sha1(repr(names).encode()).hexdigest()

    def in_lfs(self, path):
        return len(self.files[path]) >= self.lfs_from

    def blob_id(self, path):
        """git's hash of what is in the repository: the file, or its LFS pointer."""
        content = self.pointer(path) if self.in_lfs(path) else self.files[path]
        return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()

    def pointer(self, path):
        content = self.files[path]
        return (b"version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n"
                % (hashlib.sha256(content).hexdigest().encode(), len(content)))

    def etag(self, path):
        return hashlib.sha256(self.files[path]).hexdigest() if self.in_lfs(path) else self.blob_id(path)

    def sibling(self, path, blobs):
        entry = {"rfilename": path}
        if blobs:
            entry.update(size=len(self.files[path]), blobId=self.blob_id(path))
            if self.in_lfs(path):
                entry["lfs"] = {"sha256": self.etag(path), "size": len(self.files[path]), "pointerSize": len(self.pointer(path))}
        return entry

    def tree_entry(self, path):
        entry = {"type": "file", "path": path, "size": len(self.files[path]), "oid": self.blob_id(path)}
        if self.in_lfs(path):
            entry["lfs"] = {"oid": self.etag(path), "size": len(self.files[path]), "pointerSize": len(self.pointer(path))}
        return entry


class Hub:
    """faults: a function of (kind, path, request number of this kind and path from 0, range start) that answers None, or
    a dict with some of: status, headers, body, truncate (bytes of the body that are sent before the connection breaks),
    stall (seconds without a byte in the middle), drip (seconds from byte to byte), change (a function of the content), ignore_range, location, endless (zeros
    follow a part for as long as the client reads, up to 100 MB; Hub.too_much counts them).
    kind: "api", "list", "resolve" (a file, at the hub) or "cdn" (a large one, at the other host)."""

    def __init__(self, repos, token=None, faults=None, bytes_per_second=None, tls=None):
        self.repos, self.token, self.faults, self.rate = repos, token, faults or (lambda *_: None), bytes_per_second
        self.errors = []
        self.moved = {}  # old name -> new name
        self.log = []    # (kind, path, range or None, whether a token came)
        self.counts = collections.Counter()
        self.lock = threading.Lock()
        self.busy = self.most_busy = self.cut = self.too_much = 0
        self.servers = [self._serve(tls if which == "hub" else None, which) for which in ("hub", "cdn")]
        scheme = "https" if tls else "http"
        # Two names of this machine: another host and another port, as with the real hub.
        self.url = f"{scheme}://127.0.0.1:{self.servers[0].server_address[1]}"
        self.cdn_url = f"http://localhost:{self.servers[1].server_address[1]}"

    def _serve(self, tls, which, port=0):
        hub = self

        class Handler(_Handler):
            pass

        Handler.hub, Handler.which = hub, which
        server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        server.daemon_threads = True
        server.handle_error = self._note_error
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return server

    def outage(self, seconds):
        """Nothing listens for so long, and connections break."""
        server = self.servers[1]
        address = server.server_address
        with self.lock:
            self.cut += 1
        server.shutdown()
        server.server_close()
        clients.free_port(address[1])  # nobody else gets it
        time.sleep(seconds)
        self.servers[1] = self._serve(None, "cdn", address[1])

    def _note_error(self, request, address):
        if not isinstance(sys.exc_info()[1], (ConnectionError, ssl.SSLError)):
            self.errors.append(traceback.format_exc())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for server in self.servers:
            server.shutdown()
            server.server_close()
        assert not self.errors, self.errors[0]

    def requests(self, kind, path=None):
        with self.lock:
            return [entry for entry in self.log if entry[0] == kind and path in (None, entry[1])]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub = which = None

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        parts = urllib.parse.urlsplit(self.path)
        path, query = urllib.parse.unquote(parts.path), dict(urllib.parse.parse_qsl(parts.query))
        try:
            self.route(parts.path, path, query)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def route(self, raw, path, query):
        if self.which == "cdn":
            match = re.fullmatch(r"/cdn/([^/]+/[^/]+)/([0-9a-f]{64})/(.*)", path)
            return self.file("cdn", self.hub.repos[match[1]], match[3])
        if path == "/api/models":
            return self.models(query)
        if match := re.fullmatch(r"/api/models/([^/]+/[^/]+)/tree/([^/]+)/?", path):
            return self.tree(match[1], match[2])
        if match := re.fullmatch(r"/api/models/([^/]+/[^/]+?)(?:/revision/(.+))?", urllib.parse.unquote(raw)):
            return self.model(match[1], match[2] or "main", "blobs" in query)
        if match := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.*)", path):
            return self.resolve(match[1], match[2], match[3])
        if match := re.fullmatch(r"/api/resolve-cache/models/([^/]+/[^/]+)/([^/]+)/(.*)", path):
            return self.file("resolve", self.hub.repos[match[1]], match[3])
        self.refuse(404, "EntryNotFound", "no such page")

    # ---- what the hub knows

    def range(self):
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        return (int(match[1]), int(match[2]) if match[2] else None) if match else None

    def fault(self, kind, path):
        hub, wanted = self.hub, self.range()
        with hub.lock:
            number = hub.counts[kind, path]
            hub.counts[kind, path] += 1
            hub.log.append((kind, path, wanted, "Authorization" in self.headers))
        fault = hub.faults(kind, path, number, wanted[0] if wanted else 0) or {}
        if "status" in fault or "location" in fault:
            headers = dict(fault.get("headers", {}))
            if "location" in fault:
                headers["Location"] = fault["location"]
            self.reply(fault.get("status", 302), fault.get("body", b""), headers)
            return None
        return fault

    def refuse(self, status, code, message):
        self.reply(status, json.dumps({"error": message}).encode(), {"X-Error-Code": code, "X-Error-Message": message})

    def find(self, name):
        """The repository, or None after an answer that says why not."""
        hub = self.hub
        repo = hub.repos.get(name)
        allowed = hub.token and self.headers.get("Authorization") == f"Bearer {hub.token}"
        if repo is None or (repo.private and not allowed):
            # Who shows no token does not learn whether a repository is missing or private.
            status = 404 if allowed else 401
            self.refuse(status, "RepoNotFound", "Repository not found" if allowed else "Invalid username or password.")
            return None
        return repo

    def check_gate(self, repo):
        if not repo.gated or (self.hub.token and self.headers.get("Authorization") == f"Bearer {self.hub.token}"):
            return True
        status = 403 if "Authorization" in self.headers else 401
        self.refuse(status, "GatedRepo", "Access to this model is restricted. You must have access to it and be authenticated.")
        return False

    def redirect_moved(self, name):
        new = self.hub.moved.get(name)
        if new:
            self.reply(307, b"Temporary Redirect", {"Location": self.path.replace(name, new)})
        return bool(new)

    def check_revision(self, repo, revision):
        if revision in ("main", "refs/pr/1", repo.commit):
            return True
        self.refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return False

    def models(self, query):
        if self.fault("list", "") is None:
            return
        names = [n for n in sorted(self.hub.repos)
                 if n.split("/")[0] == query.get("author", n.split("/")[0]) and query.get("search", "").lower() in n.lower()]
        self.reply_json([{"_id": "x", "id": n, "modelId": n} for n in names[:int(query.get("limit", 1000))]])

    def model(self, name, revision, blobs):
        if (fault := self.fault("api", name)) is None or self.redirect_moved(name):
            return
        repo = self.find(name)
        if not repo or not self.check_revision(repo, revision):
            return
        answer = {"_id": "x", "id": name, "modelId": name, "sha": repo.commit, "private": repo.private,
                  "gated": "manual" if repo.gated else False, "disabled": False, "tags": [], "downloads": 1,
                  "siblings": [repo.sibling(path, blobs) for path in repo.files], **repo.facts}
        if "change" in fault:
            answer = fault["change"](answer)
        self.reply_json(answer, fault)

    def tree(self, name, revision):
        repo = self.find(name)
        if repo and self.check_revision(repo, revision):
            self.reply_json([repo.tree_entry(path) for path in repo.files])

    def resolve(self, name, revision, path):
        if self.redirect_moved(name):
            return
        repo = self.find(name)
        if not repo or not self.check_revision(repo, revision) or not self.check_gate(repo):
            return
        if path not in repo.files:
            return self.refuse(404, "EntryNotFound", "Entry not found")
        headers = {"X-Repo-Commit": repo.commit, "X-Linked-Size": str(len(repo.files[path])),
                   "X-Linked-Etag": f'"{repo.etag(path)}"', "ETag": f'"{repo.blob_id(path)}"'}
        if not repo.in_lfs(path):  # by way of another address of the hub, as it does
            headers["Location"] = urllib.parse.quote(f"/api/resolve-cache/models/{name}/{repo.commit}/{path}")
            return self.reply(307, b"", headers)
        if self.fault("resolve", path) is None:
            return
        headers["Location"] = f"{self.hub.cdn_url}/cdn/{name}/{repo.etag(path)}/{urllib.parse.quote(path)}?Expires=1"
        self.reply(302, b"Found. Redirecting", headers)

    # ---- content

    def file(self, kind, repo, path):
        if (fault := self.fault(kind, path)) is None:
            return
        content = fault.get("change", lambda c: c)(repo.files[path])
        headers = {"ETag": f'"{repo.etag(path)}"', "X-Repo-Commit": repo.commit, "Accept-Ranges": "bytes"}
        wanted = None if fault.get("ignore_range") else self.range()
        if not wanted:
            return self.reply(200, content, headers, fault)
        start, end = wanted[0], min(wanted[1] if wanted[1] is not None else len(content) - 1, len(content) - 1)
        if start >= len(content):
            return self.reply(416, b"", {"Content-Range": f"bytes */{len(content)}"})
        headers["Content-Range"] = f"bytes {start}-{end}/{len(content)}"
        if fault.get("endless"):
            return self.endless(content[start:], headers)
        self.reply(206, content[start:end + 1], headers, fault)

    def endless(self, content, headers):
        self.close_connection = True
        self.send_response(206)
        for name, value in {**headers, "Connection": "close"}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)
        while self.hub.too_much < 100_000_000:
            self.wfile.write(bytes(100_000))
            self.hub.too_much += 100_000

    def reply_json(self, value, fault=None):
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.reply(200, body, {"Content-Type": "application/json"}, fault)

    def reply(self, status, body, headers, fault=None):
        fault = fault or {}
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.send_body(body, fault)

    def send_body(self, body, fault):
        hub = self.hub
        with hub.lock:
            hub.busy += 1
            hub.most_busy = max(hub.most_busy, hub.busy)
        try:
            end = fault.get("truncate", len(body))
            if "stall" in fault:
                self.wfile.write(body[:end // 2])
                self.wfile.flush()
                time.sleep(fault["stall"])
                self.close_connection = True
                return
            if "drip" in fault:  # seconds from byte to byte
                for at in range(end):
                    self.wfile.write(body[at:at + 1])
                    time.sleep(fault["drip"])
                return
            step = max(1, hub.rate // 50) if hub.rate else max(1, end)
            cut = hub.cut
            for at in range(0, end, step):
                if hub.cut != cut:
                    self.close_connection = True
                    return self.connection.shutdown(socket.SHUT_RDWR)
                self.wfile.write(body[at:min(at + step, end)])
                time.sleep(0.02 if hub.rate else 0)
            if end < len(body):
                self.wfile.flush()
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
        finally:
            with hub.lock:
                hub.busy -= 1
