"""The mutants follow the code: `make mutants` runs them, here it is only seen that they could be made."""

from __future__ import annotations

import pytest

from tests.faults.mutant_list import MUTANTS, Mutant
from tests.faults.mutants import BEGIN, END, ROOT, TABLE, Verdict, noticed, short, table


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_mutant_still_finds_the_text_that_it_changes(mutant: Mutant) -> None:
    for name, old, new in mutant.edits:
        assert (ROOT / name).read_text().count(old) == 1, f"{name}: {old}"
        assert new != old


def test_no_two_bear_one_name() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 18


@pytest.mark.parametrize(
    "errors",
    [
        ["AssertionError: seed 1: 1 violations: I4: task 1: claim 2 began 3.1 ms before the last line of claim 1"],
        ["AssertionError: begun 9.1 s late", "assert 14 <= (4 + 5e9)"],
        ["assert {'FAILED'} == {'SUCCESSFUL'}"],
        ["AssertionError: waited 40 s in vain for the end of [('PENDING', 3)]", "assert 60.1 < 60.0"],
    ],
)
def test_a_mutant_is_noticed_by_an_invariant_or_a_bound(errors: list[str]) -> None:
    assert noticed(errors)


@pytest.mark.parametrize(
    "errors",
    [
        [],
        ["psycopg.errors.UndefinedFunction: function queues.claim() does not exist"],
        ["AssertionError: the worker ended without worker_started {}: SyntaxError", "assert (False or not True)"],
        ["AssertionError: waited 60 s in vain for 1 × worker_started", "assert 60.1 < 60.0"],
    ],
)
def test_a_tree_that_is_only_broken_proves_nothing(errors: list[str]) -> None:
    assert not noticed(errors)


def test_the_page_has_a_place_for_the_table() -> None:
    page = TABLE.read_text()
    assert page.count(BEGIN) == page.count(END) == 1
    assert page.index(BEGIN) < page.index(END)


def test_a_survivor_stands_out_in_the_table() -> None:
    rows = table(
        [Verdict("no guard", "s04", False, "seed 1: 8 violations: I4: task 1 | 2", 1), Verdict("x", "s05", True, "", 1)]
    )
    assert "| no guard | `s04` | I4: task N \\| N |" in rows
    assert "| x | `s05` | **it survives** |" in rows


def test_what_differs_from_run_to_run_is_left_out() -> None:
    assert (
        short("seed 3: 12 violations: I9: execution (5, 1) wrote beat 12.5 ms")
        == "I9: execution (N, N) wrote beat N ms"
    )
