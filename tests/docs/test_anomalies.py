"""docs/anomalies.md has every code, with what strict mode raises."""

from __future__ import annotations

import pathlib
import re

from svir_core.response import AnomalyCode
from svir_core.wire.policy import REFUSED

PAGE = (pathlib.Path(__file__).parents[2] / "docs" / "anomalies.md").read_text(encoding="utf-8")


def test_every_code_is_in_the_table_in_the_order_of_the_page_with_its_error() -> None:
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| `?(\w+)`? \| [^|]+ \|$", PAGE, re.MULTILINE)
    assert dict(rows) == {
        code.value: REFUSED[code][0].__name__ if code in REFUSED else "dropped" for code in AnomalyCode
    }
    assert len(rows) == len(AnomalyCode)
