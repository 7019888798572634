"""One target under atheris: ``python -m fuzz.worker TARGET [libFuzzer options] CORPUS...``; only this needs atheris."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from fuzz.check import Target


class Atheris(Protocol):
    """What is used of atheris, which has no types of its own."""

    def instrument_imports(self, include: Sequence[str]) -> AbstractContextManager[None]: ...

    def Setup(
        self,
        args: Sequence[str],
        test_one_input: Callable[[bytes], None],
        *,
        custom_mutator: Callable[[bytes, int, int], bytes] | None = None,
    ) -> Sequence[str]: ...

    def Fuzz(self) -> None: ...

    def Mutate(self, data: bytes, max_size: int) -> bytes: ...


def main(arguments: Sequence[str]) -> None:
    atheris = cast("Atheris", importlib.import_module("atheris"))
    with atheris.instrument_imports(include=["svir_core"]):
        targets = importlib.import_module("fuzz.targets")
    target: Target = targets.TARGETS[arguments[1]]
    mutator = target.mutator

    def mutate(data: bytes, max_size: int, seed: int) -> bytes:
        return atheris.Mutate(data, max_size) if mutator is None else mutator(data, max_size, seed, atheris.Mutate)

    options = [arguments[0], f"-max_len={target.max_size}", *arguments[2:]]
    atheris.Setup(options, target.check, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv)
