from __future__ import annotations

from collections import Counter

import pytest

from genolewm_assets.errors import ConfigurationError
from genolewm_assets.lewm.edit_mix import EditMix, EditSource

GNOMAD, SNV, INDEL, CLINVAR = tuple(EditSource)


@pytest.mark.parametrize("ordinal", [0, 1, 7, 12_345])
def test_the_exact_mix_holds_in_every_window(ordinal):
    assert Counter(EditMix.named("exact").plan(ordinal, 8)) == {GNOMAD: 3, SNV: 3, INDEL: 1, CLINVAR: 1}


@pytest.mark.parametrize("first", [0, 1, 4, 999])
def test_the_rotating_mix_holds_over_any_five_windows(first):
    mix = EditMix.named("rotating")
    slots = Counter(source for ordinal in range(first, first + 5) for source in mix.plan(ordinal, 8))
    assert slots == {GNOMAD: 16, SNV: 12, INDEL: 8, CLINVAR: 4}


@pytest.mark.parametrize(("name", "wanted"), [("exact", (15, 15, 5, 5)), ("rotating", (16, 12, 8, 4))])
def test_other_numbers_of_edits_keep_the_shares_over_whole_cycles(name, wanted):
    mix = EditMix.named(name)
    slots = Counter(source for ordinal in range(8) for source in mix.plan(ordinal, 5))
    assert tuple(slots[source] for source in (GNOMAD, SNV, INDEL, CLINVAR)) == wanted


def test_an_unknown_mix_is_named():
    with pytest.raises(ConfigurationError, match=r"one of \['exact', 'rotating'\], got 'even'"):
        EditMix.named("even")
