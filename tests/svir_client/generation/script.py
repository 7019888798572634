"""A model that says what a test tells it to."""

from __future__ import annotations

from svir_core import Completion, Request, SvirError


class Script:
    """A model that gives one answer after the other, or raises it, and keeps what it was asked."""

    def __init__(self, *answers: Completion | str | SvirError) -> None:
        self.requests: list[Request] = []
        self._answers = list(answers)

    def __call__(self, request: Request) -> Completion | str:
        self.requests.append(request)
        answer = self._answers.pop(0)
        if isinstance(answer, SvirError):
            raise answer
        return answer
