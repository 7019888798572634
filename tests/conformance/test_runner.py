from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from conformance.__main__ import main

CHUNK = 'data: {"id":"c","model":"m","choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\n'
HI: dict[str, Any] = {"completion": {"finish": "stop", "text": "Hi"}}
GOOD: dict[str, Any] = {
    "description": "A greeting",
    "chunks": [CHUNK, "data: [DONE]\n\n"],
    "expect": {"strict": HI, "lenient": "same"},
}


def bad(**fields: Any) -> dict[str, Any]:
    return GOOD | {"expect": {"strict": {"error": "protocol"}, "lenient": "same"}} | fields


def write(folder: Path, cases: dict[str, object]) -> Path:
    for name, case in cases.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(case if isinstance(case, str) else json.dumps(case), encoding="utf-8")
    return folder


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str]:
    code = main(["run", *map(str, arguments)])
    return code, capsys.readouterr().out


def test_a_run_that_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write(tmp_path, {"decoder/a.json": GOOD, "deep/decoder/01-x/b.json": GOOD})
    assert run(capsys, folder) == (0, "4 passed, 0 failed\n")


def test_a_failure_names_its_case_mode_line_ending_and_stride(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write(tmp_path, {"decoder/a.json": bad(line_endings=["lf", "crlf"], strides=[3]), "decoder/b.json": GOOD})
    code, out = run(capsys, folder)
    assert code == 1
    assert f"FAILED {folder / 'decoder/a.json'} [lenient, crlf, stride 3]" in out
    assert "expected the error protocol, got completion stop" in out
    assert out.endswith("\n2 passed, 4 failed\n")


OUTSIDE: list[tuple[Any, str]] = [
    (GOOD | {"stride": [1]}, "unknown field 'stride'"),
    (GOOD | {"expect": {"strict": HI | {"visible": []}, "lenient": "same"}}, "unknown field 'visible'"),
    (GOOD | {"options": {"limits": {"lines": 1}}}, "unknown field 'lines'"),
    (GOOD | {"strides": []}, "an empty list runs nothing"),
    (GOOD | {"strides": [0]}, "a number above zero"),
    (GOOD | {"line_endings": ["cr"]}, "one of lf, crlf"),
    (GOOD | {"file": "a.sse"}, "exactly one of file, chunks"),
    (GOOD | {"chunks": [{"hex": "zz"}]}, "hexadecimal digits"),
    (GOOD | {"chunks": ["\ud83d"]}, "a lone surrogate has no bytes"),
    (GOOD | {"chunks": "text"}, "a list is expected"),
    (GOOD | {"description": 5}, "a string is expected"),
    (GOOD | {"expect": {"strict": HI}}, "the field 'lenient' is missing"),
    (GOOD | {"expect": {"strict": {"error": "oops"}, "lenient": "same"}}, "one of transport"),
    (GOOD | {"expect": {"strict": {"completion": {"finish": "eos"}}, "lenient": "same"}}, "one of stop"),
    ({key: value for key, value in GOOD.items() if key != "description"}, "'description' is missing"),
    ([], "an object is expected"),
    ("{", "not JSON"),
    ('{"description": "a", "description": "b"}', "a key stands twice"),
    ('{"description": "\u00e9"}', "byte 17 is not ASCII"),
    ("[" * 100_000, "not JSON"),
]


@pytest.mark.parametrize(("case", "problem"), OUTSIDE)
def test_a_case_outside_of_the_notation_fails(
    case: object, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write(tmp_path, {"decoder/a.json": case})
    code, out = run(capsys, folder)
    assert code == 1
    assert problem in out
    assert out.endswith("\n0 passed, 1 failed\n")


def test_a_folder_without_cases_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "decoder").mkdir()
    code, out = run(capsys, tmp_path)
    assert code == 1
    assert "there are no cases" in out
    code, out = run(capsys, tmp_path / "nowhere")
    assert code == 1
    assert "there is no such folder" in out
    assert out.endswith("\n0 passed, 1 failed\n")


def test_every_folder_needs_cases_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, {"full/decoder/a.json": GOOD})
    (tmp_path / "empty").mkdir()
    code, out = run(capsys, tmp_path / "full", tmp_path / "empty")
    assert code == 1
    assert out.endswith("\n2 passed, 1 failed\n")


def test_the_nearest_folder_names_the_component(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write(tmp_path, {"encoder/decoder/x/a.json": GOOD})
    assert run(capsys, folder / "encoder/decoder/x") == (0, "2 passed, 0 failed\n")
    monkeypatch.chdir(folder / "encoder/decoder")
    assert run(capsys, ".") == (0, "2 passed, 0 failed\n")
    assert run(capsys, "x/a.json") == (0, "2 passed, 0 failed\n")


def test_a_case_without_a_component_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = run(capsys, write(tmp_path, {"a.json": GOOD}))
    assert code == 1
    assert "no folder above it is named decoder, encoder, transport" in out


def test_a_case_runs_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write(tmp_path, {"decoder/a.json": GOOD})
    assert run(capsys, folder, folder / "decoder") == (0, "2 passed, 0 failed\n")


def test_a_fixture_is_no_case(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = {key: value for key, value in GOOD.items() if key != "chunks"} | {"file": "fixture.json", "strides": [8192]}
    folder = write(tmp_path, {"decoder/a.json": case, "decoder/fixture.json": CHUNK + "data: [DONE]\n\n"})
    assert run(capsys, folder) == (0, "4 passed, 0 failed\n")


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"file": "missing.sse"}, "'missing.sse' cannot be read: FileNotFoundError"),
        ({"file": "f.sse", "replace": [["absent", "x"]]}, "does not occur"),
        ({"file": "f.sse", "replace": [["Hi"]]}, "pairs of from and to"),
        ({"file": "f.sse", "cut_before": "absent"}, "does not occur"),
        ({"file": "f.sse", "replace": [["Hi", "Ho"]], "cut_before": "Hi"}, "does not occur"),
    ],
)
def test_a_fixture_that_does_not_fit_fails(
    fields: dict[str, object], problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = {key: value for key, value in GOOD.items() if key != "chunks"} | fields
    code, out = run(capsys, write(tmp_path, {"decoder/a.json": case, "decoder/f.sse": CHUNK}))
    assert code == 1
    assert problem in out


def test_a_fixture_is_replaced_cut_and_split(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = {key: value for key, value in GOOD.items() if key != "chunks"} | {
        "file": "f.sse",
        "replace": [["Hi", "Ho"], [{"hex": "73746f70"}, "length"]],
        "cut_before": "data: [D",
        "expect": {"strict": {"error": "truncated_stream", "partial": {"text": "Ho"}}, "lenient": "same"},
    }
    folder = write(tmp_path, {"decoder/a.json": case, "decoder/f.sse": CHUNK + "data: [DONE]\n\n"})
    assert run(capsys, folder) == (0, "12 passed, 0 failed\n")


def test_visible_by_chunk_is_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def case(*flags: bool) -> dict[str, Any]:
        return GOOD | {"expect": {"strict": HI | {"visible_by_chunk": flags}, "lenient": "same"}}

    assert run(capsys, write(tmp_path / "a", {"decoder/a.json": case(True, False)}))[0] == 0
    code, out = run(capsys, write(tmp_path / "b", {"decoder/a.json": case(False, True)}))
    assert code == 1
    assert "visible_by_chunk: expected [False, True], got [True, False]" in out


def test_visible_by_chunk_is_left_out_where_the_chunks_are_split_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = GOOD | {"expect": {"strict": HI | {"visible_by_chunk": [True, False]}, "lenient": "same"}, "strides": [1, 3]}
    assert run(capsys, write(tmp_path / "a", {"decoder/a.json": case})) == (0, "4 passed, 0 failed\n")
    whole = GOOD | {
        "chunks": [CHUNK + "data: [DONE]\n\n"],
        "expect": {"strict": HI | {"visible_by_chunk": [False]}, "lenient": "same"},
        "strides": [1, 8192],
    }
    code, out = run(capsys, write(tmp_path / "b", {"decoder/a.json": whole}))
    assert code == 1
    assert "visible_by_chunk: expected [False], got [True]" in out
    assert "2 passed, 2 failed" in out


def test_visible_by_chunk_needs_chunks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = {key: value for key, value in GOOD.items() if key != "chunks"} | {
        "file": "f.sse",
        "expect": {"strict": HI | {"visible_by_chunk": [True]}, "lenient": "same"},
    }
    code, out = run(capsys, write(tmp_path, {"decoder/a.json": case, "decoder/f.sse": CHUNK}))
    assert code == 1
    assert "visible_by_chunk needs chunks" in out


# --- what is expected to fail, and what is open ------------------------------------------------------------


def test_an_expected_failure_is_no_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write(tmp_path, {"decoder/x/a.json": bad(), "decoder/b.json": GOOD})
    write(folder, {"decoder/expected-failures.toml": '"x/a.json" = "not yet"\n'})
    code, out = run(capsys, folder)
    assert code == 0
    assert "EXPECTED FAILURE" in out
    assert out.endswith("\n2 expected failure\n2 passed, 0 failed\n")


def test_an_expected_failure_that_passes_fails_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write(tmp_path, {"decoder/a.json": GOOD, "expected-failures.toml": '"decoder/a.json" = "not yet"\n'})
    code, out = run(capsys, folder)
    assert code == 1
    assert "take it off the list" in out
    assert out.endswith("\n2 passed, 1 failed\n")


@pytest.mark.parametrize(
    ("listing", "problem"),
    [
        ('"decoder/none.json" = "not yet"', "'decoder/none.json' is no case of this folder"),
        ('"decoder/a.json" = " "', "'decoder/a.json' has no reason"),
        ('"decoder/a.json" = 5', "'decoder/a.json' has no reason"),
        ("nonsense", "cannot be read"),
        ('"decoder/a.json" = "\u00e9"', "cannot be read"),
    ],
)
def test_a_list_that_is_wrong_fails_the_run(
    listing: str, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write(tmp_path, {"decoder/a.json": GOOD, "expected-failures.toml": listing})
    code, out = run(capsys, folder)
    assert code == 1
    assert problem in out


def test_a_list_speaks_of_its_own_folder_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write(tmp_path, {"decoder/a.json": bad(), "decoder/x/b.json": GOOD})
    write(folder, {"decoder/x/expected-failures.toml": '"../a.json" = "not mine"\n'})
    code, out = run(capsys, folder)
    assert code == 1
    assert "'../a.json' is no case of this folder" in out
    assert out.endswith("\n2 passed, 3 failed\n")


def test_an_open_case_that_fails_is_pending(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write(tmp_path, {"decoder/a.json": bad(open=["which kind it is"]), "decoder/b.json": GOOD})
    code, out = run(capsys, folder)
    assert code == 0
    assert "open: which kind it is" in out
    assert out.endswith("\n2 pending\n2 passed, 0 failed\n")


def test_an_open_outcome_compares_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = GOOD | {"expect": {"strict": {"open": "undecided"}, "lenient": "same"}}
    assert run(capsys, write(tmp_path, {"decoder/a.json": case})) == (0, "2 passed, 0 failed\n")


def test_a_crash_is_a_failure_of_its_case(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object) -> None:
        raise ExceptionGroup("several", [RuntimeError("one"), ValueError("two")])

    monkeypatch.setattr("conformance.run_decoder.decode", crash)
    folder = write(tmp_path, {"decoder/a.json": GOOD})
    code, out = run(capsys, folder)
    assert code == 1
    assert "RuntimeError: one" in out
    assert "ValueError: two" in out
    assert out.endswith("\n0 passed, 2 failed\n")


# --- the report and the command ----------------------------------------------------------------------------


def test_the_report_has_every_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write(tmp_path / "cases", {"decoder/a.json": bad(), "decoder/b.json": GOOD})
    code, _ = run(capsys, "--json", tmp_path / "report.json", folder)
    report = json.loads((tmp_path / "report.json").read_bytes())
    assert code == 1
    assert (report["passed"], report["failed"], report["pending"], report["expected"]) == (2, 2, 0, 0)
    assert len(report["runs"]) == 4
    first = report["runs"][0]
    assert first["case"].endswith("a.json")
    assert first["variant"] == ["strict", "lf", "pieces as given"]
    assert first["status"] == "failed"
    assert first["problems"] == ["expected the error protocol, got completion stop"]


@pytest.mark.parametrize("arguments", [[], ["run"], ["walk", "x"]])
def test_a_wrong_command_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        main(arguments)
    assert refused.value.code == 2
    assert "usage" in capsys.readouterr().err


def test_a_folder_elsewhere_runs_as_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = Path(__file__).parents[2] / "conformance"
    for component in ("decoder/04-refusals", "encoder/05-clean"):
        shutil.copytree(source / component, tmp_path / component)
    code, out = run(capsys, tmp_path)
    assert code == 0, out
