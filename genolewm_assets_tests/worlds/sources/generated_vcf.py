"""VCF files made by Hypothesis: everything that a well-formed one may hold."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

from hypothesis import strategies as st

from genolewm_assets_tests.worlds.sources.vcf_files import COLUMNS

CHROMS = ("chr17", "17", "chrM", "chrUn_KI270302v1", "HLA-A*01:01")
BASES = st.text("ACGTNacgt", min_size=1, max_size=5)


class InfoKey(NamedTuple):
    """A declared field; ``number`` is ``0`` for a flag, ``1`` or ``A``."""

    name: str
    number: str
    type: str


#: Names of which some begin as others do.
KEYS = st.lists(
    st.builds(
        lambda name, kind: InfoKey(name, *kind),
        st.sampled_from(["AF", "AFR", "AF_afr", "AC", "A", "AN", "F", "vep", "X_1", "DB", "_", "A.B"]),
        st.sampled_from([("0", "Flag"), *product("1A", ("Integer", "Float", "String"))]),
    ),
    max_size=7,
    unique_by=lambda key: key.name,
)

_COUNTS = st.integers(0, 2**31 - 1).map(str) | st.sampled_from(["007", "0"])
_SHARES = (
    st.floats(0, 1).map(repr)
    | st.floats(0, 1, width=32).map(lambda value: f"{value:.6g}")
    | st.floats(0, 1).map(lambda value: f"{value:.5e}")
    | st.sampled_from(
        ["0", "1", "0.0", "1.", ".5", "1e-5", "1E-05", "2.5e-1", "1.00000e+00", "+0.5", "0.30000000000000004"]
    )
)
_TEXTS = st.text("abcXYZ019.-_|:/()%é", min_size=1, max_size=12).filter(lambda text: text != ".") | st.sampled_from(
    ["a%3Bb", "%25", "%2C%3D", "%zz", "50%", "x" * 700]
)
_VALUES = {"Integer": _COUNTS, "Float": _SHARES, "String": _TEXTS}
_ALTS = st.lists(
    BASES | st.sampled_from(["*", "<DEL>", "<DUP:TANDEM>", "G]17:198982]", "]13:123456]T", ".A"]),
    min_size=1,
    max_size=4,
) | st.just(["."])


@st.composite
def _info(draw: st.DrawFn, keys: list[InfoKey], alleles: int) -> str:
    """Any of the declared keys in any order, and keys that the header does not declare."""
    chosen = draw(st.permutations(keys))[: draw(st.integers(0, len(keys)))]
    items = []
    for key in chosen:
        value = _VALUES.get(key.type, st.nothing()) | st.just(".")
        if key.number == "0":
            items.append(key.name)
        elif key.number == "1" or draw(st.integers(0, 5)) == 0:
            items.append(f"{key.name}={draw(value) if key.number == '1' else '.'}")
        else:
            items.append(f"{key.name}={','.join(draw(value) for _ in range(alleles))}")
    return ";".join(items) or "."


@st.composite
def _line(draw: st.DrawFn, keys: list[InfoKey], samples: int) -> str:
    alts = draw(_ALTS)
    columns = [
        *(draw(st.sampled_from(CHROMS)), str(draw(st.integers(1, 10**6) | st.sampled_from([1, 2**29, 2**31 - 2])))),
        *(draw(st.sampled_from([".", "rs1", "rs1;rs22", "4242"])), draw(BASES), ",".join(alts)),
        *(draw(st.sampled_from([".", "30", "1e3"])), draw(st.sampled_from([".", "PASS", "AC0", "AC0;RF"]))),
        draw(_info(keys, len(alts))),
    ]
    if samples:
        columns += ["GT", *(draw(st.sampled_from(["0/1", "./.", "0|0"])) for _ in range(samples))]
    return "\t".join(columns)


@st.composite
def generated_vcfs(draw: st.DrawFn, *, ends: tuple[str, ...] = ("\n", "\r\n")) -> str:
    """Header, records in any order, sample columns, either line end, which the last line may lack."""
    keys, samples = draw(KEYS), draw(st.integers(0, 2))
    version = draw(st.sampled_from(["4.1", "4.2", "4.3"]))
    meta = [f"##fileformat=VCFv{version}", *(f"##contig=<ID={name}>" for name in CHROMS)]
    meta += [f'##INFO=<ID={k.name},Number={k.number},Type={k.type},Description="of a, test=1">' for k in keys]
    meta += ['##FILTER=<ID=AC0,Description="x">', '##FILTER=<ID=RF,Description="x">']
    meta += [
        '##FORMAT=<ID=GT,Number=1,Type=String,Description="x">',
        f"##long={'x' * draw(st.sampled_from([0, 3000]))}",
    ]
    columns = [COLUMNS, *(["FORMAT"] if samples else []), *(f"S{at}" for at in range(samples))]
    lines = [*meta, "\t".join(columns), *draw(st.lists(_line(keys, samples), min_size=1, max_size=8))]
    end = draw(st.sampled_from(ends))
    return end.join(lines) + draw(st.sampled_from([end, ""]))
