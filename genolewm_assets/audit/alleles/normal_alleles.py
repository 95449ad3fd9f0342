"""Alleles as Arrow tables of :data:`KEY`, and the normal form that ``bcftools norm`` gives them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pysam.bcftools
from pysam.utils import SamtoolsError
from pysam.version import __bcftools_version__, __version__

from genolewm_assets.audit.reading.contig_names import canonical_name
from genolewm_assets.audit.reading.intervals import rows_by_contig
from genolewm_assets.audit.reading.reference import Reference, unmasked
from genolewm_assets.audit.reading.window_bases import Bases
from genolewm_assets.errors import ResourceError

#: Columns of an allele as VCF writes it: canonical contig, 1-based position, upper-case bases.
KEY = ("chrom", "pos", "ref", "alt")
#: Records that bcftools reads at once.
_BATCH = 100_000
#: The program, for reports.
BCFTOOLS = f"bcftools {__bcftools_version__} norm (of pysam {__version__})"

#: Columns of :data:`KEY`.
ALLELES = pa.schema([("chrom", pa.string()), ("pos", pa.int64()), ("ref", pa.string()), ("alt", pa.string())])
_HEADER = "##fileformat=VCFv4.2\n"
#: Columns of a VCF without genotypes, whose identities are numbers.
VCF_SCHEMA = pa.schema(
    [
        (name, pa.int64() if name in {"POS", "ID"} else pa.string())
        for name in ("CHROM", "POS", "ID", "REF", "ALT", "QUAL", "FILTER", "INFO")
    ]
)
_KNOWN = "^[ACGT]+$"
#: Bytes of VCF that are parsed at once; a line is never longer.
_BLOCK_BYTES = 1 << 22


def alleles_of(table: pa.Table | pa.RecordBatch) -> pa.Table:
    """Return the alleles of rows as they are written, in upper case and with the canonical names of their contigs."""
    upper = (pc.utf8_upper(_plain(table[name]).cast(pa.string())) for name in ("ref", "alt"))
    columns = (canonical_names(table["chrom"]), _plain(table["pos"]).cast(pa.int64()), *upper)
    return pa.table(list(columns), schema=ALLELES)


def canonical_names(names: Any) -> pa.Array:
    """Return names of contigs as canonical ones; what is null stays so."""
    return map_values(names, canonical_name)


def map_values(values: Any, function: Callable[[str], str | None]) -> pa.Array:
    """Return texts as a function spells them, which is called once for each different text."""
    coded = _plain(values).cast(pa.string()).dictionary_encode()
    spelt = pa.array([function(text) for text in coded.dictionary.to_pylist()], pa.string())
    return spelt.take(coded.indices)


def keys_of(alleles: pa.Table) -> pa.Array:
    """Return ``chrom:pos:ref:alt`` of each allele; null where it has none."""
    columns = (_plain(alleles[name]) for name in KEY)
    return pc.binary_join_element_wise(*(column.cast(pa.string()) for column in columns), ":")


def add_keys(keys: Mapping[str, list[pa.Array]], alleles: pa.Table) -> None:
    """Add the keys of alleles to those of their contigs."""
    for contig, rows in rows_by_contig(_plain(alleles["chrom"])):
        keys[contig].append(keys_of(alleles.take(pa.array(rows))))


def normalise_alleles(alleles: pa.Table, reference: Reference) -> pa.Table:
    """Return the normal form of every allele; null if it does not fit the reference.

    bcftools makes it. It is not asked for alleles that are in normal form already.
    """
    known = [pc.match_substring_regex(alleles[name], _KNOWN) for name in ("ref", "alt")]
    in_reference = pc.is_in(alleles["chrom"], value_set=pa.array(list(reference), pa.string()))
    is_usable = pc.and_(pc.and_(*known), pc.and_(in_reference, pc.not_equal(alleles["ref"], alleles["alt"])))
    is_usable = pc.and_(is_usable, pc.greater_equal(alleles["pos"], 1)).to_numpy()
    is_normal = are_normal(alleles)
    place = np.full(alleles.num_rows, -1, dtype=np.int64)
    done, usable = np.flatnonzero(is_usable & is_normal), np.flatnonzero(is_usable & ~is_normal)
    fitting = done[_fit(alleles.take(done), reference)]
    place[fitting] = fitting
    given = alleles.take(usable).append_column("row", pa.array(usable))
    given = given.sort_by([("chrom", "ascending"), ("pos", "ascending")])
    parts = [_run(given.slice(at, _BATCH), reference) for at in range(0, given.num_rows, _BATCH)]
    normal = pa.concat_tables([pa.table([[]] * 5, schema=ALLELES.append(pa.field("row", pa.int64()))), *parts])
    place[normal["row"].to_numpy()] = alleles.num_rows + np.arange(normal.num_rows)
    forms = pa.concat_tables([alleles.select(KEY), normal.select(KEY)])
    return forms.take(pa.array(place, mask=place < 0)).combine_chunks()


def are_normal(alleles: pa.Table) -> npt.NDArray[np.bool_]:
    """Tell which alleles have no base to trim, so that none can be moved to the left either: all SNVs are among them.

    Source: Tan, Abecasis and Kang 2015, doi:10.1093/bioinformatics/btv112.
    """
    ref, alt = alleles["ref"], alleles["alt"]
    shortest = pc.min_element_wise(pc.binary_length(ref), pc.binary_length(alt))
    first, last = (
        pc.not_equal(pc.binary_slice(ref.cast(pa.binary()), *at), pc.binary_slice(alt.cast(pa.binary()), *at))
        for at in ((0, 1), (-1, None))
    )
    normal: npt.NDArray[np.bool_] = pc.and_(last, pc.or_(first, pc.equal(shortest, 1))).to_numpy(zero_copy_only=False)
    return normal


def _fit(alleles: pa.Table, reference: Reference) -> npt.NDArray[np.bool_]:
    """Tell which alleles have the reference's bases as REF; all are of its contigs, and of bases A, C, G and T."""
    fit, start = np.zeros(alleles.num_rows, np.bool_), alleles["pos"].to_numpy() - 1
    for contig, ours in rows_by_contig(_plain(alleles["chrom"])):
        codes, at = Bases.of(_plain(alleles["ref"]).take(pa.array(ours)))
        place = np.repeat(start[ours] - at[:-1], np.diff(at)) + np.arange(codes.size)
        theirs = unmasked(reference.codes(contig)[np.minimum(place, reference.length(contig) - 1)])
        is_inside = start[ours] + np.diff(at) <= reference.length(contig)
        fit[ours] = is_inside & np.logical_and.reduceat(theirs == codes, at[:-1])
    return fit


def known_forms(alleles: pa.Table, normal: pa.Table) -> pa.Table:
    """Return normal forms, and alleles as they are written where there is none."""
    return pa.table([pc.coalesce(normal[name], alleles[name]) for name in KEY], schema=ALLELES)


def _run(alleles: pa.Table, reference: Reference) -> pa.Table:
    names = {name: reference.own_name(name) for name in pc.unique(alleles["chrom"]).to_pylist()}
    canonical = {own: name for name, own in names.items()}
    own_names, dots = map_values(alleles["chrom"], names.get), pa.array(["."] * alleles.num_rows)
    columns = [own_names, alleles["pos"], alleles["row"], alleles["ref"], alleles["alt"], dots, dots, dots]
    with tempfile.TemporaryDirectory(prefix="genolewm-audit-") as folder:
        given, written = Path(folder) / "alleles.vcf", Path(folder) / "normal.vcf"
        with given.open("wb") as out:
            lines = [f"##contig=<ID={own},length={reference.length(name)}>\n" for name, own in names.items()]
            out.write("".join([_HEADER, *lines, "#", "\t".join(VCF_SCHEMA.names), "\n"]).encode())
            form = pa_csv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none")
            pa_csv.write_csv(pa.table(columns, names=VCF_SCHEMA.names), out, form)
        # A REF that differs from the FASTA is left out (x) and has no normal form.
        options = ("--check-ref", "x", "--fasta-ref", str(reference.path), "--output", str(written), str(given))
        try:
            pysam.bcftools.norm(*options, catch_stdout=False)
        except SamtoolsError as err:
            raise ResourceError(str(reference.path), f"bcftools norm failed ({err})") from err
        with written.open("rb") as file:
            found = pa.Table.from_batches(read_vcf(file))
    bases = (pc.utf8_upper(found[name]) for name in ("REF", "ALT"))
    columns = [map_values(found["CHROM"], canonical.get), found["POS"], *bases, found["ID"]]
    return pa.table(columns, schema=ALLELES.append(pa.field("row", pa.int64())))


def read_vcf(file: Any) -> Iterator[pa.RecordBatch]:
    """Yield the records of a VCF's text, many at once, and an empty batch first; ``POS`` and ``ID`` are int64."""
    yield pa.RecordBatch.from_pylist([], VCF_SCHEMA)
    line = b"#"
    while line.startswith(b"#"):
        at, line = file.tell(), file.readline()
    if line:
        file.seek(at)
        for batch in pa_csv.open_csv(
            file,
            pa_csv.ReadOptions(column_names=VCF_SCHEMA.names, block_size=_BLOCK_BYTES, use_threads=False),
            pa_csv.ParseOptions(delimiter="\t", quote_char=False),
            pa_csv.ConvertOptions(column_types=VCF_SCHEMA),
        ):
            yield batch
            # Else Arrow keeps what the texts of INFO took.
            pa.default_memory_pool().release_unused()


def _plain(column: Any) -> pa.Array:
    """Return a column as one array."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
