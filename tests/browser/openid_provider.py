"""A small OpenID Connect provider on loopback: discovery, authorisation, tokens and keys, for whoever a test names."""

from __future__ import annotations

import base64
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256

CLIENT_ID, CLIENT_SECRET = "flcontrib-test", "not-a-secret"


@dataclass
class Provider:
    """Signs in ``account`` whenever it is asked; notes what went wrong in a request."""

    address: str
    account: str = ""
    faults: list[str] = field(default_factory=list)
    _key: RSAPrivateKey = field(default_factory=lambda: generate_private_key(65537, 2048))
    _codes: dict[str, dict[str, str]] = field(default_factory=dict)

    def metadata(self) -> dict[str, Any]:
        return {
            "issuer": self.address,
            "authorization_endpoint": f"{self.address}/authorize",
            "token_endpoint": f"{self.address}/token",
            "jwks_uri": f"{self.address}/keys",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
            "scopes_supported": ["openid", "profile", "email"],
        }

    def keys(self) -> dict[str, Any]:
        public = self._key.public_key().public_numbers()
        numbers = {"n": _text(public.n.to_bytes(256, "big")), "e": _text(public.e.to_bytes(3, "big"))}
        return {"keys": [{"kty": "RSA", "kid": "1", "alg": "RS256", "use": "sig", **numbers}]}

    def authorize(self, query: dict[str, str]) -> str:
        """Where the browser is sent back to, with a code that works once."""
        if query.get("client_id") != CLIENT_ID or query.get("response_type") != "code":
            self.faults.append(f"asked to authorise {query}")
        code = secrets.token_urlsafe(16)
        self._codes[code] = {"nonce": query.get("nonce", ""), "email": self.account}
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}"

    def token(self, form: dict[str, str], authorization: str) -> dict[str, Any]:
        known = self._codes.pop(form.get("code", ""), None)
        basic = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
        if known is None or (authorization != f"Basic {basic}" and form.get("client_secret") != CLIENT_SECRET):
            self.faults.append("asked for a token without a code or the secret")
            return {"error": "invalid_grant"}
        now = int(time.time())
        claims = {"iss": self.address, "aud": CLIENT_ID, "sub": known["email"], "iat": now, "exp": now + 600}
        claims |= {"nonce": known["nonce"], "email": known["email"], "email_verified": True, "name": known["email"]}
        parts = [_text(json.dumps(part).encode()) for part in ({"alg": "RS256", "kid": "1"}, claims)]
        signature = _text(self._key.sign(".".join(parts).encode(), PKCS1v15(), SHA256()))
        answer = {"access_token": secrets.token_urlsafe(16), "token_type": "Bearer", "expires_in": 600}
        return {**answer, "id_token": ".".join([*parts, signature])}


def _text(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


@contextmanager
def providing() -> Iterator[Provider]:
    """The provider, answering until the block ends."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urlsplit(self.path)
            if url.path == "/authorize":
                self.send_response(302)
                self.send_header("Location", provider.authorize({k: v[0] for k, v in parse_qs(url.query).items()}))
                self.end_headers()
                return
            self._json(provider.keys() if url.path == "/keys" else provider.metadata())

        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers["Content-Length"])).decode()
            form = {k: v[0] for k, v in parse_qs(text).items()}
            self._json(provider.token(form, self.headers.get("Authorization", "")))

        def _json(self, content: dict[str, Any]) -> None:
            body = json.dumps(content).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    provider = Provider(f"http://127.0.0.1:{server.server_port}")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
