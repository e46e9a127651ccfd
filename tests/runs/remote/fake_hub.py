"""A Hugging Face Hub in a thread: the routes that huggingface_hub uses for models, with commits.

Files that are not text go through the LFS routes (batch, upload, verify), as on the real one.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit


class FakeHub:
    """Repositories: branches of commits, each a dictionary of files."""

    def __init__(self):
        self.address = ""
        self.token = "hf_secretsecretsecret"  # noqa: S105
        self.repositories = {}
        self.objects = {}
        self.private = set()
        self.gated = set()
        self.asked = []
        # Route → status, or a function that changes the answer.
        self.faults = {}

    def repository(self, name):
        return self.repositories.setdefault(name, {"main": [{}]})

    def commit_id(self, name, number, branch):
        return hashlib.sha1(f"{name} {branch} {number}".encode(), usedforsecurity=False).hexdigest()

    def find(self, name, revision):
        """Return (branch, number) of a branch or commit."""
        for branch, commits in self.repositories.get(name, {}).items():
            if branch == revision:
                return branch, len(commits) - 1
            for number in range(len(commits)):
                if self.commit_id(name, number, branch) == revision:
                    return branch, number
        return None

    def files(self, name, revision="main"):
        branch, number = self.find(name, revision)
        return self.repositories[name][branch][number]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: FakeHub

    def log_message(self, *_):
        pass

    def _route(self):
        path = unquote(urlsplit(self.path).path)
        self.hub.asked.append((self.command, path))
        length = int(self.headers.get("Content-Length") or 0)
        self.body = self.rfile.read(length)
        for pattern, fault in self.hub.faults.items():
            if re.search(pattern, f"{self.command} {path}"):
                if callable(fault):
                    fault(self)
                else:
                    text = f"no: {self.headers.get('Authorization')}"
                    self._answer({"error": text}, fault, {"X-Error-Message": text})
                return
        for pattern, action in ROUTES:
            if match := re.fullmatch(pattern, f"{self.command} {path}"):
                action(self, *match.groups())
                return
        self._answer({"error": f"no route {path}"}, 404)

    do_GET = do_HEAD = do_POST = do_PUT = _route  # noqa: N815

    def _answer(self, content, status=200, headers=None):
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _is_allowed(self, name):
        is_member = self.headers.get("Authorization") == f"Bearer {self.hub.token}"
        if name not in self.hub.repositories or (name in self.hub.private and not is_member):
            self._answer({"error": "x"}, 401, {"X-Error-Code": "RepoNotFound"})
        elif name in self.hub.gated:
            self._answer({"error": "x"}, 403, {"X-Error-Code": "GatedRepo"})
        else:
            return True
        return False

    def _may_write(self):
        if self.headers.get("Authorization") == f"Bearer {self.hub.token}":
            return True
        self._answer({"error": "x"}, 401)
        return False

    def info(self, name, revision="main"):
        if not self._is_allowed(name):
            return
        if (found := self.hub.find(name, revision)) is None:
            self._answer({"error": "x"}, 404, {"X-Error-Code": "RevisionNotFound"})
            return
        files = self.hub.repositories[name][found[0]][found[1]]
        siblings = [{"rfilename": file, "size": len(text)} for file, text in files.items()]
        sha = self.hub.commit_id(name, found[1], found[0])
        self._answer({"id": name, "modelId": name, "sha": sha, "siblings": siblings})

    def resolve(self, name, revision, file):
        if not self._is_allowed(name):
            return
        found = self.hub.find(name, revision)
        content = None if found is None else self.hub.files(name, revision).get(file)
        if content is None:
            self._answer({"error": "x"}, 404, {"X-Error-Code": "EntryNotFound"})
            return
        etag = f'"{hashlib.sha256(content).hexdigest()}"'
        sha = self.hub.commit_id(name, found[1], found[0])
        self._answer(content, 200, {"ETag": etag, "X-Repo-Commit": sha})

    def create_repository(self):
        if not self._may_write():
            return
        wanted = json.loads(self.body)
        name = "/".join(filter(None, (wanted.get("organization"), wanted["name"])))
        if name in self.hub.repositories:
            self._answer({"error": "exists", "url": f"{self.hub.address}/{name}"}, 409)
            return
        self.hub.repository(name)
        visibility = wanted.get("visibility") or ("private" if wanted.get("private") else "public")
        if visibility == "private":
            self.hub.private.add(name)
        self._answer({"url": f"{self.hub.address}/{name}", "name": name})

    def create_branch(self, name, branch):
        if self._may_write():
            start = self.hub.repositories[name]["main"][-1]
            self.hub.repositories[name].setdefault(branch, [dict(start)])
            self._answer({})

    def validate(self):
        self._answer({"errors": [], "warnings": []})

    def preupload(self, name, revision):
        if not self._may_write() or not self._is_allowed(name):
            return
        files = json.loads(self.body)["files"]
        kinds = (
            "regular" if _is_text(base64.b64decode(file["sample"])) else "lfs" for file in files
        )
        self._answer(
            {
                "files": [
                    {"path": file["path"], "uploadMode": kind, "shouldIgnore": False}
                    for file, kind in zip(files, kinds, strict=True)
                ]
            }
        )

    def batch(self, name):
        objects = [
            {
                "oid": item["oid"],
                "size": item["size"],
                "actions": {"upload": {"href": f"{self.hub.address}/upload/{item['oid']}"}},
            }
            for item in json.loads(self.body)["objects"]
        ]
        answer = {"transfer": "basic", "objects": objects}
        self._answer(answer, 200, {"Content-Type": "application/vnd.git-lfs+json"})

    def upload(self, oid):
        assert hashlib.sha256(self.body).hexdigest() == oid
        self.hub.objects[oid] = self.body
        self._answer({})

    def commit(self, name, revision):
        if not self._may_write() or not self._is_allowed(name):
            return
        commits = self.hub.repositories[name][revision]
        files = dict(commits[-1])
        for line in self.body.decode().splitlines():
            operation = json.loads(line)
            value = operation["value"]
            if operation["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif operation["key"] == "lfsFile":
                files[value["path"]] = self.hub.objects[value["oid"]]
            elif operation["key"] == "deletedFile":
                del files[value["path"]]
        commits.append(files)
        sha = self.hub.commit_id(name, len(commits) - 1, revision)
        url = f"{self.hub.address}/{name}/commit/{sha}"
        self._answer({"commitUrl": url, "commitOid": sha, "pullRequestUrl": None})


def _is_text(sample):
    return b"\0" not in sample and not sample.startswith(b"PAR1")


NAME = r"([\w.-]+/[\w.-]+)"
ROUTES = [
    (rf"GET /api/models/{NAME}", _Handler.info),
    (rf"GET /api/models/{NAME}/revision/(.+)", _Handler.info),
    (rf"(?:GET|HEAD) /{NAME}/resolve/([^/]+)/(.+)", _Handler.resolve),
    (r"POST /api/repos/create", _Handler.create_repository),
    (rf"POST /api/models/{NAME}/branch/(.+)", _Handler.create_branch),
    (r"POST /api/validate-yaml", _Handler.validate),
    (rf"POST /api/models/{NAME}/preupload/(.+)", _Handler.preupload),
    (rf"POST /{NAME}\.git/info/lfs/objects/batch", _Handler.batch),
    (r"PUT /upload/(\w+)", _Handler.upload),
    (rf"POST /api/models/{NAME}/commit/(.+)", _Handler.commit),
]


@contextmanager
def fake_hub():
    hub = FakeHub()
    handler = type("Handler", (_Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    hub.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
