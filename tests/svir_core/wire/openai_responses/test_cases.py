"""Every stream of the conformance cases, cut in two, cut in many, and cut off.

The small ones among the tricky cases are cut at every byte, the others at a hundred places and all of their last bytes.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svir_core.errors import ErrorKind, SvirError
from svir_core.response import Completion
from svir_core.wire.openai_responses import Decoder
from tests.svir_core.wire.openai_responses.streams import MODES, case_streams, see, split

STREAMS = dict(case_streams())
SMALL = {name: data for name, data in STREAMS.items() if len(data) < 5_000}


def test_there_are_streams() -> None:
    assert len(STREAMS) > 150
    assert len(SMALL) > len(STREAMS) - 3


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", STREAMS)
def test_the_cut_does_not_matter(name: str, mode: str) -> None:
    data = STREAMS[name]
    whole = see([data], mode, extra=True)
    for stride in (1, 7):
        assert see(split(data, stride), mode, extra=True) == whole
    step = 1 if name.startswith("00") and len(data) < 1500 else max(1, len(data) // 60)
    for cut in range(0, len(data) + 1, step):
        assert see([data[:cut], data[cut:]], mode, extra=True) == whole, cut


@settings(max_examples=40)
@given(data=st.data(), name=st.sampled_from(sorted(SMALL)), mode=st.sampled_from(MODES))
def test_drawn_cuts_do_not_matter(data: st.DataObject, name: str, mode: str) -> None:
    stream = STREAMS[name]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    pieces = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert see(pieces, mode) == see([stream], mode)


def outcome(data: bytes, mode: str) -> Completion | SvirError:
    decoder = Decoder(mode=mode, clock=lambda: 0.0)
    decoder.push(data)
    if not decoder.done:
        decoder.finish()
    found = decoder.completion or decoder.error
    assert found is not None
    return found


EARLY = (ErrorKind.TRUNCATED_STREAM, ErrorKind.UNSUPPORTED, ErrorKind.SERVER)
"""A cut document is no stream; of an event named ``error`` that is cut, nothing is known but that it is one."""


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", SMALL)
def test_a_prefix_is_truncated_until_its_outcome_stands(name: str, mode: str) -> None:
    data = STREAMS[name]
    whole = outcome(data, mode)
    step = 1 if name.startswith("00") and len(data) < 1500 else max(1, len(data) // 120)
    stood = False
    for end in sorted({*range(0, len(data) + 1, step), *range(max(0, len(data) - 40), len(data) + 1)}):
        found = outcome(data[:end], mode)
        if found == whole:
            stood = True
        elif isinstance(found, SvirError):
            assert found.kind in EARLY or (found.kind is getattr(whole, "kind", None)), (end, found)
            assert found.partial is not None
            assert not any(getattr(part, "complete", False) for part in found.partial.parts)
            # what stands in a prefix stands in all longer ones, but for the words of a body that is no stream
            assert not stood or found.kind is getattr(whole, "kind", None), end
        else:
            pytest.fail(f"the first {end} bytes are another answer: {found}")
    assert stood
