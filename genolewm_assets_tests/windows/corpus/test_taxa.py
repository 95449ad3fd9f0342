from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.windows.corpus.records import NON_HUMAN_SPECIES, NON_HUMAN_TAXA, states_non_human
from genolewm_assets_tests.rows import each_row

#: Lineage of *Homo sapiens* as NCBI Taxonomy has it, without clades that have no rank.
HUMAN = "Eukaryota;Metazoa;Chordata;Craniata;Vertebrata;Mammalia;Primates;Hominidae;Homo;Homo sapiens"
LISTED = [*NON_HUMAN_TAXA, *NON_HUMAN_SPECIES]
IDS = [*NON_HUMAN_TAXA.values(), *NON_HUMAN_SPECIES.values()]


@each_row(
    "stated",
    [
        *("human", "Human", "9606", "taxon:9606", "NCBI:txid9606", "H. sapiens", "homo_sapiens", "Homo Sapiens"),
        *("Homo sapiens neanderthalensis", "Homo", "Hominidae", "Primates", "Mammalia", "Vertebrata", "Eukaryota"),
        *("k__Eukaryota;p__Chordata;c__Mammalia", HUMAN, "d__Eukaryota;s__Homo_sapiens", "Pan troglodytes"),
        *("unknown", "not stated", "", " ", ";", "Bacteria;Homo sapiens", "Bacteria|9606"),
        *("Mus musculus x Homo sapiens hybrid", "Mus musculus, transgenic", "synthetic Escherichia"),
        *("Human gammaherpesvirus 4", "Musculus", "Bacterial vector", "5620", "562 9606"),
    ],
)
def test_what_may_be_human(stated: str) -> None:
    assert not states_non_human(stated)


@each_row(
    "stated",
    [
        *("Bacteria", "bacteria_NC_008253.1_Ecoli_536"),
        *("d__Bacteria;p__Pseudomonadota;c__Gammaproteobacteria;o__Enterobacterales;f__Enterobacteriaceae",),
        *("|D__BACTERIA;P__PSEUDOMONADOTA|", "sk__Archaea; p__Halobacteriota"),
        *("r__Duplodnaviria;k__Heunggongvirae;p__Uroviricota;c__Caudoviricetes",),
        *("cellular organisms;Eukaryota;Opisthokonta;Fungi;Dikarya", "Eukaryota;Viridiplantae;Streptophyta"),
        *("Mus musculus C57BL/6", "mus_musculus", "10090", "taxid:10090", "NCBI:txid10090", "NCBITaxon:10090"),
        *("Escherichia coli 536",),
    ],
)
def test_what_is_listed(stated: str) -> None:
    assert states_non_human(stated)


def test_no_listed_taxon_is_an_ancestor_of_humans() -> None:
    assert not {name.casefold() for name in NON_HUMAN_TAXA} & set(HUMAN.casefold().split(";"))
    assert not {1, 2759, 33208, 7711, 40674, 9443, 9604, 9605, 9606, 131567} & set(IDS)
    assert len(IDS) == len(set(IDS))
    assert {name.partition(" ")[0] for name in NON_HUMAN_SPECIES} <= set(NON_HUMAN_TAXA)


@given(
    st.one_of(st.sampled_from(LISTED), st.sampled_from(IDS).map(str)),
    st.sampled_from(["{}", " {} ", "x__{}", "Eukaryota;{}", "{};unclassified", "|{}|", "no_rank; {}"]),
    st.sampled_from([str, str.upper, str.lower, str.title, lambda text: text.replace(" ", "_")]),
)
def test_spelling_and_lineage_do_not_matter(taxon: str, lineage: str, spell: object) -> None:
    stated = lineage.format(spell(taxon))  # type: ignore[operator]
    assert states_non_human(stated)
    assert not states_non_human(f"{stated};{spell('Homo sapiens')}")  # type: ignore[operator]
    assert not states_non_human(f"9606;{stated}")


@given(st.text(max_size=40))
def test_no_text_without_a_listed_name_or_number_exempts(text: str) -> None:
    named = any(name.casefold() in text.casefold() for name in NON_HUMAN_TAXA)
    assert named or any(str(number) in text for number in IDS) or not states_non_human(text)
