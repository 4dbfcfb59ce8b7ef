"""Calls the Plant Store, and repeats requests as docs/api.md describes; it needs only Python's standard library."""

import io
import json
import os
import random
import time
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.request import Request, urlopen


def call(method, path, body=None, retries=3):
    """Returns the response's JSON, or None without a body. Raises HTTPError for status 400 and above."""
    headers = {"Authorization": "Bearer " + os.environ["PLANT_STORE_TOKEN"], "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    unknown = False  # whether an earlier attempt may have taken effect
    for attempt in range(retries + 1):
        wait = random.uniform(0.05, 0.1) * 2**attempt
        try:
            request = Request(os.environ["PLANT_STORE_URL"] + path, data, headers, method=method)
            with urlopen(request, timeout=30) as response:
                text = response.read()
            return json.loads(text) if response.status == 200 else None
        except HTTPError as failure:
            text = failure.read()
            failure = HTTPError(failure.url, failure.code, failure.msg, failure.headers, io.BytesIO(text))
            if unknown and failure.code == 400 and b"40011" in text:
                return {field: body[field] for field in ("name", "tag") if field in body}
            if unknown and failure.code == 404 and method == "DELETE":
                return None
            if failure.code not in (429, 500, 502, 503, 504) or attempt == retries:
                raise failure from None
            unknown = unknown or failure.code >= 500 and b"50300" not in text and b"50301" not in text
            seconds = failure.headers.get("Retry-After", "1")
            wait += int(seconds) if seconds.isdigit() else 60  # a proxy may send a date
        except (OSError, HTTPException, ValueError):  # no response, or only a part of it
            if attempt == retries:
                raise
            unknown = True
        time.sleep(wait)
