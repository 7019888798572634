from __future__ import annotations

import subprocess
import sys


def test_the_example_runs() -> None:
    command = [sys.executable, "-m", "examples.tools"]
    done = subprocess.run(command, check=False, timeout=60, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        '  price({"fruit": "apple"}) -> 0.5',
        '  price({"fruit": "plum"}) -> there are only apple, pear',
        '  add({"numbers": [0.5, "0.5"]}) -> the arguments of add: does not fit the schema: '
        "$.numbers[1]: expected a number, got a string",
        '  add({"numbers": [0.5, 0.5]}) -> 1.0',
        "Two apples are 1 euro.",
    ]
