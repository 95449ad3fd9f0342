"""``mito/genomes`` and ``mito/tokens``: complete mitochondrial genomes in reference coordinates, and their tokens."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path

import dagster as dg
import numpy as np

from genolewm_assets.defs.assets.observations import mito_source
from genolewm_assets.defs.assets.reference import reference_genome
from genolewm_assets.defs.display import describe_published, made_here, of, plotted
from genolewm_assets.defs.runtime import (
    AUTOMATED,
    NO_SOURCE,
    GatedAsset,
    Plan,
    Workspace,
    on_every_partition,
    reference_reader,
)
from genolewm_assets.genome import Contig, Split
from genolewm_assets.mito.genomes import GENOME_CHECKS, MITO_GENOME_REJECTS, MITO_GENOMES, majors, parse_names
from genolewm_assets.mito.tokens import (
    MITO_TOKENS,
    TOKEN_CHECKS,
    K,
    KmerVocabulary,
    StoredTokens,
    check_tokens,
    describe_tokens,
    write_tokens,
)
from genolewm_assets.progress import Progress
from genolewm_assets.sources.files import CHECKSUM_MATCHES, SourceFile
from genolewm_assets.sources.mito import (
    GENOMES_FILE,
    REJECTS_FILE,
    SAMPLE_CHECK,
    CollectionFile,
    CollectionFormat,
    SampleLevels,
    write_genomes,
)
from genolewm_assets.store.arrays import ArrayStoreReader
from genolewm_assets.store.artefacts import BuildReport, CheckResult, Published, stating_compared
from genolewm_assets.store.files import JsonValue
from genolewm_assets.store.tables import read_table

#: Threads for alignment; the results do not depend on their number.
_THREADS = os.cpu_count() or 1

_NO_FILES = f"{NO_SOURCE}: the catalogue names no file"


def plan_genomes(workspace: Workspace, _partition: str, progress: Progress) -> Plan:
    """Plan the table of genomes; it is empty if the catalogue names no collections."""
    mito, contig, genome = workspace.catalog.mito, workspace.mitochondrion, reference_genome.open(workspace)
    sources = [workspace.source(each.url, md5=each.md5, progress=progress) for each in mito.genomes]
    formats = [None if each.format is None else CollectionFormat(each.format) for each in mito.genomes]
    qc, split = mito.qc.policy, mito.split.policy

    def write(work: Path) -> BuildReport:
        with _borrowed(sources) as (paths, checksum):
            names = [source.name for source in sources]
            report = write_genomes(
                [CollectionFile(*each) for each in zip(paths, names, formats, strict=True)],
                work,
                reference=read_circle(workspace, genome, contig),
                qc=qc,
                split=split,
                threads=_THREADS,
                progress=progress,
            )
        checks = _of_genomes(report.checks, report.counts, named=bool(sources))
        return BuildReport(report.counts, report.rows, (checksum, *checks))

    identities: list[JsonValue] = [
        {**source.identity(), "format": None if form is None else form.value}
        for source, form in zip(sources, formats, strict=True)
    ]
    return Plan(
        recipe={"sources": identities or NO_SOURCE, "qc": asdict(qc), "split": asdict(split)},
        inputs=(genome,),
        write=write,
    )


def plan_tokens(workspace: Workspace, _partition: str, progress: Progress) -> Plan:
    """Plan the token store of all genomes."""
    mito, contig = workspace.catalog.mito, workspace.mitochondrion
    genome, genomes = reference_genome.open(workspace), mito_genomes.open(workspace)
    sources = [workspace.source(each.url, md5=each.md5, progress=progress) for each in mito.heteroplasmy]
    (table_file,) = (entry for entry in genomes.manifest.files if entry.path == GENOMES_FILE)
    config: dict[str, JsonValue] = {
        K: mito.k,
        "het_pool": mito.het_pool,
        "genomes_sha256": table_file.sha256,
        "heteroplasmy": [dict(source.identity()) for source in sources],
    }

    def write(work: Path) -> BuildReport:
        table, reference = read_table(genomes.file(GENOMES_FILE)), read_circle(workspace, genome, contig)
        with _borrowed(sources) as (paths, checksum):
            named = {source.name: path for source, path in zip(sources, paths, strict=True)}
            levels = SampleLevels(named, contig, reference)
        vocabulary = KmerVocabulary.build(mito.k)
        rows = write_tokens(
            work,
            config,
            levels.levelled(table),
            vocabulary,
            het_pool=mito.het_pool,
            max_tokens=max([1, len(reference), *table["length_bp"].to_pylist()]),
            sources={str(each.artefact): each.manifest.sha256 for each in (genomes, genome)},
        )
        rejects = read_table(genomes.file(REJECTS_FILE), columns=["name"])
        reached = levels.check({*rejects["name"].to_pylist()})
        found = check_tokens(work, table, reference, vocabulary)
        # The checks of the table of genomes have shown that it has no row.
        checks = [stating_compared(each, rows, "the table of genomes has no row", declared=True) for each in found]
        return BuildReport({"genomes": rows, **levels.counts}, {"index.parquet": rows}, (checksum, reached, *checks))

    return Plan(recipe=config, inputs=(genomes, genome), write=write)


def read_circle(workspace: Workspace, genome: Published, contig: Contig | None) -> str:
    """Return the upper-case bases of the mitochondrial reference; an empty text if ``contig`` is None."""
    return "" if contig is None else reference_reader(genome, workspace.contigs)(contig).decode("ascii")


def _of_genomes(checks: Iterable[CheckResult], counts: Mapping[str, int], *, named: bool) -> list[CheckResult]:
    """Return checks with the number of genomes that they compared; none is right if all were rejected or none named."""
    results = list(checks)
    rejected = counts["records"] > 0 and all(check.passed for check in results)
    nothing = "every record was rejected" if named else _NO_FILES
    return [
        check
        if check.name == "schema_as_declared"
        else stating_compared(
            check,
            counts["records" if check.name == "every_genome_accounted_for" else "kept"],
            nothing,
            declared=rejected or not named,
        )
        for check in results
    ]


@contextmanager
def _borrowed(sources: Sequence[SourceFile]) -> Iterator[tuple[list[Path], CheckResult]]:
    """Yield the local paths of sources, and one check of all their checksums."""
    with ExitStack() as stack:
        copies = [stack.enter_context(source.local()) for source in sources]
        checks = [copy.checksum_check() for copy in copies]
        figures = {source.name: copy.md5 for source, copy in zip(sources, copies, strict=True)}
        rows = [
            {**row, "file": source.name} for source, check in zip(sources, checks, strict=True) for row in check.rows
        ]
        whole = CheckResult(CHECKSUM_MATCHES, all(check.passed for check in checks), figures, rows)
        nothing = "neither the catalogue nor a publisher states an MD5" if copies else _NO_FILES
        n = sum(copy.expected_md5 is not None for copy in copies)
        yield [copy.path for copy in copies], stating_compared(whole, n, nothing, declared=True)


def describe_genomes(published: Published) -> dict[str, dg.MetadataValue]:
    """Return the metadata of genomes: rows, splits, haplogroups, and differences from the reference by position."""
    from genolewm_assets.defs.display import draw_haplogroups, draw_on_circle

    table = read_table(published.file(GENOMES_FILE), columns=["split", "haplogroup", "differences"])
    counts, splits = published.manifest.counts, {side.value: f"split.{side}" for side in Split}
    found = (d for names in table["differences"].to_pylist() for d in parse_names(names, where="genome"))
    # An insertion (start == end) counts at the base before it.
    at = [place for d in found for place in range(d.start - (d.start == d.end), d.end)]
    differing = np.bincount(np.array(at, dtype=np.int64), minlength=counts["reference_bp"]).astype(np.float64)
    return {
        **describe_published(published, rows=table.num_rows, stated=("kept", "clusters", *splits.values())),
        **plotted(
            rejected=counts["records"] - counts["kept"],
            clusters=counts["clusters"],
            **{side: counts.get(name, 0) for side, name in splits.items()},
        ),
        "haplogroups": draw_haplogroups(majors(table["haplogroup"].to_pylist()), table["split"].to_pylist()),
        "differences_along_circle": draw_on_circle(
            differing, title=f"Where {table.num_rows:,} genomes differ from the reference", unit="genomes a position"
        ),
    }


def describe_stored_tokens(published: Published) -> dict[str, dg.MetadataValue]:
    """Return the metadata of tokens: rows, k-mers seen, most frequent k-mers, unknown rate, entropy by position."""
    from genolewm_assets.defs.display import draw_on_circle

    reader = ArrayStoreReader(published.directory)
    vocabulary = KmerVocabulary.build(int(str(published.manifest.recipe[K])))
    rows = StoredTokens(reader, vocabulary)
    found = describe_tokens(
        map(rows.__getitem__, range(reader.n_rows)), vocabulary, length=reader.arrays["het"].shape[0]
    )
    frequent = "\n".join(f"| `{kmer}` | {count:,} |" for kmer, count in found.most_frequent)
    return {
        **describe_published(published, rows=reader.n_rows, stated=("genomes", "het.genomes")),
        **plotted(
            tokens=found.n_tokens,
            kmers_seen=found.n_kmers_seen,
            kmer_coverage=found.n_kmers_seen / found.n_kmers,
            unknown_rate=found.unknown_rate,
            genomes_with_heteroplasmy=published.manifest.counts.get("het.genomes", 0),
        ),
        "most_frequent_kmers": dg.MetadataValue.md(f"| k-mer | tokens |\n|---|---:|\n{frequent}"),
        "entropy_along_circle": draw_on_circle(
            found.entropy_bits, title=f"Entropy of k-mers among {found.n_genomes:,} genomes", unit="bits a position"
        ),
    }


mito_genomes = GatedAsset(
    key="mito/genomes",
    description="""
    One row per complete mitochondrial genome that passed quality control, rotated and numbered like the reference.

    Every base has a reference position or belongs to a named insertion (`309.1C`), so that positions are comparable
    between genomes. Near copies, and by default all genomes of a haplogroup, are in one split.
    """,
    kinds={"parquet", "fasta", "minimap2"},
    code_version="4",
    place=lambda *_: "mito/genomes",
    deps=(on_every_partition(reference_genome), on_every_partition(mito_source)),
    automation=AUTOMATED,
    table=MITO_GENOMES,
    tables={"rejects": MITO_GENOME_REJECTS},
    checks=(CHECKSUM_MATCHES, *GENOME_CHECKS),
    plan=plan_genomes,
    entries={
        "rejected": "genomes that did not pass quality control",
        "clusters": "groups of near copies",
        "train, validation, test": "genomes by split",
        "haplogroups": "genomes by haplogroup and split",
        "differences_along_circle": "where genomes differ from the reference",
    },
    describe=describe_genomes,
)

mito_tokens = GatedAsset(
    key="mito/tokens",
    description="""
    One row per mitochondrial genome: the k-mer ids, positions and heteroplasmy of all tokens of the circular sequence.

    `MtDNADataset.from_store` cuts training windows from these memory-mapped rows. Row i belongs to row i of
    `mito/genomes`.
    """,
    kinds={"numpy", "huggingface"},
    code_version="5",
    place=lambda *_: "mito/tokens",
    deps=(on_every_partition(mito_genomes), on_every_partition(reference_genome), on_every_partition(mito_source)),
    automation=AUTOMATED,
    table=MITO_TOKENS,
    sources={
        **made_here("row"),
        "key": of(mito_genomes, "name"),
        "split": of(mito_genomes, "split"),
        "het": of(mito_genomes, "name", "differences", "placeholders"),
        **dict.fromkeys(("n_tokens", "input_ids", "position_ids"), of(mito_genomes, "differences", "placeholders")),
    },
    checks=(CHECKSUM_MATCHES, SAMPLE_CHECK, *TOKEN_CHECKS),
    plan=plan_tokens,
    entries={
        "tokens": "tokens of all genomes",
        "kmers_seen, kmer_coverage": "k-mers of the vocabulary that occur, and their share of it, 0 to 1",
        "unknown_rate": "share of the tokens that hold another letter than A, C, G or T, 0 to 1",
        "genomes_with_heteroplasmy": "genomes with calls of heteroplasmy",
        "entropy_along_circle": "how much the k-mers at a position differ among genomes, in bits",
        "most_frequent_kmers": "the k-mers that occur most often",
    },
    describe=describe_stored_tokens,
    array_store=True,
)
