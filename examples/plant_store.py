"""Calls the Plant Store, and repeats requests as docs/api.md describes; it needs only Python's standard library."""

import io
import json
import os
import random
import time
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.request import Request, urlopen


def exchange(request):
    """Returns a response of any status, and its whole body."""
    try:
        with urlopen(request, timeout=30) as response:
            return response, response.read()
    except HTTPError as failure:
        return failure, failure.read()


def call(method, path, body=None, retries=3):
    """Returns the response's JSON, or None without a body. Raises HTTPError for status 400 and above."""
    headers = {"Authorization": "Bearer " + os.environ["PLANT_STORE_TOKEN"], "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    unknown = False  # whether an earlier attempt may have taken effect
    for attempt in range(retries + 1):
        wait = random.uniform(0.05, 0.1) * 2**attempt
        try:
            request = Request(os.environ["PLANT_STORE_URL"] + path, data, headers, method=method)
            response, text = exchange(request)
            if response.status < 400:
                return json.loads(text) if response.status == 200 else None
        except (OSError, HTTPException, ValueError):  # no response, or only a part of it
            if attempt == retries:
                raise
            unknown = True
        else:
            if unknown and response.status == 400 and b"40011" in text:
                return {field: body[field] for field in ("name", "tag") if field in body}
            if unknown and response.status == 404 and method == "DELETE":
                return None
            if response.status not in (429, 500, 502, 503, 504) or attempt == retries:
                raise HTTPError(response.url, response.status, response.reason, response.headers, io.BytesIO(text))
            unknown = unknown or response.status >= 500 and b"50300" not in text and b"50301" not in text
            seconds = response.headers.get("Retry-After", "1")
            wait += int(seconds) if seconds.isdigit() else 60  # a proxy may send a date
        time.sleep(wait)
