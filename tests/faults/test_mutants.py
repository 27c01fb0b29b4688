"""The mutants follow the code: `make mutants` runs them, here it is only seen that they could be made."""

from __future__ import annotations

import pytest

from tests.faults.mutant_list import MUTANTS, Mutant
from tests.faults.mutants import BEGIN, END, ROOT, TABLE, Verdict, short, table


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_mutant_still_finds_the_text_that_it_changes(mutant: Mutant) -> None:
    for name, old, new in mutant.edits:
        assert (ROOT / name).read_text().count(old) == 1, f"{name}: {old}"
        assert new != old


def test_all_thirteen_are_there() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 13


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
