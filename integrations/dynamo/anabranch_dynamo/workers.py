"""A client of one `anabranch serve`."""

import asyncio
import json

import aiohttp

from . import translate

CONNECT_SECONDS = 5
POLL_SECONDS = 3


class Lost(Exception):
    """The worker cannot be reached, or left in the middle of an answer."""


class Failed(Exception):
    """The worker answered with an error."""

    def __init__(self, status, message, code):
        super().__init__(message)
        self.status, self.code = status, code


class Worker:
    def __init__(self, url, key=None):
        self.url = url.rstrip("/")
        self.headers = {"Authorization": f"Bearer {key}"} if key else {}
        self.session = None
        self.running = 0
        self.failures = 0  # polls in a row
        self.metrics = ""  # of the last poll
        self.bytes_per_token = 0

    @property
    def reachable(self):
        return self.failures == 0

    def open(self):
        if self.session is None:
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)
            self.session = aiohttp.ClientSession(headers=self.headers, timeout=timeout,
                                                 connector=aiohttp.TCPConnector(limit=0))

    async def close(self):
        if self.session is not None:
            await self.session.close()
            self.session = None

    async def get(self, path):
        try:
            async with self.session.get(self.url + path, allow_redirects=False, timeout=aiohttp.ClientTimeout(total=POLL_SECONDS)) as response:
                text = await response.text()
        except (aiohttp.ClientError, OSError, asyncio.TimeoutError) as error:
            raise Lost(f"{self.url}: {error or type(error).__name__}")
        if response.status != 200:
            raise Failed(response.status, f"{self.url}{path}: {response.status}: {translate.error_message(text)[0]}", None)
        return text

    async def health(self):
        return json.loads(await self.get("/health"))

    async def poll(self):
        """Reads the metrics; notes whether the worker could be reached."""
        try:
            self.metrics = await self.get("/metrics")
            self.failures = 0
        except (Lost, Failed):
            self.failures += 1

    async def events(self, body):
        """The events of a streamed answer."""
        reader, ended = translate.EventReader(), False
        try:
            async with self.session.post(self.url + "/v1/generate", json=body, allow_redirects=False) as response:
                if response.status != 200:
                    message, code = translate.error_message(await response.text())
                    raise Failed(response.status, message, code)
                async for data in response.content.iter_any():
                    for payload in reader.feed(data):
                        if payload == b"[DONE]":
                            continue
                        event = json.loads(payload)
                        if "error" in event:
                            message, code = translate.error_message(payload.decode())
                            raise Failed(500, message, code)
                        ended |= bool(event.get("finish_reason"))
                        yield event
        except (aiohttp.ClientError, OSError, asyncio.TimeoutError, ValueError) as error:
            if not ended:
                raise Lost(f"{self.url}: {error or type(error).__name__}")
        if not ended:
            raise Lost(f"{self.url}: the answer ended without a reason")

    async def cancel(self, request_id):
        """True: the request is being cancelled; False: it is not known (it may have ended)."""
        try:
            async with self.session.post(f"{self.url}/v1/generate/{request_id}/cancel", json={}, allow_redirects=False,
                                         timeout=aiohttp.ClientTimeout(total=POLL_SECONDS)) as response:
                return response.status == 200
        except (aiohttp.ClientError, OSError, asyncio.TimeoutError):
            return False
