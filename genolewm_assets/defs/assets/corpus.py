"""``corpus/records`` and ``corpus/windows``: the pretraining corpus, divided into pieces, and their windows."""

import hashlib
from functools import partial
from pathlib import Path

import dagster as dg

from genolewm_assets.defs.assets.observations import corpus_files, corpus_source, register_pieces
from genolewm_assets.defs.assets.reference import reference_genome
from genolewm_assets.defs.display import describe_published, made_here, of, plotted, same, share
from genolewm_assets.defs.runtime import (
    AUTOMATED,
    BY_CORPUS_PIECE,
    BY_CORPUS_SOURCE,
    GatedAsset,
    Plan,
    Workspace,
    on_every_partition,
)
from genolewm_assets.errors import ResourceError
from genolewm_assets.progress import Progress
from genolewm_assets.sources.corpus import (
    PART_BP,
    RECORD_CHECKS,
    GenomeSlices,
    MappyAligner,
    audit_corpus_windows,
    check_division,
    count_records,
    divide_source,
    needs_parts,
    piece_digests,
    read_piece,
    write_corpus_windows,
)
from genolewm_assets.store.artefacts import DERIVED, BuildReport, DerivedFiles, Published
from genolewm_assets.store.files import JsonValue, canonical_json, resolve_generation
from genolewm_assets.windows.corpus import (
    CORPUS_CHECKS,
    CORPUS_RECORDS,
    CORPUS_WINDOWS,
    FAULTS,
    CorpusPlacer,
    CorpusSource,
    PlacementHow,
    count_pieces,
    parse_piece,
    piece_keys,
)

#: What to do about a partition that is no piece any more.
_REMEDY = "Run observe_sources, which registers the pieces that there are"


def plan_corpus_records(workspace: Workspace, source_name: str, progress: Progress) -> Plan:
    """Plan the division of one corpus source into pieces."""
    settings, source = workspace.catalog.corpus, CorpusSource(source_name)
    files = corpus_files(workspace, source, progress)
    identities = [file.identity() for file in files]

    def write(work: Path) -> BuildReport:
        with workspace.borrow(files) as paths:
            pieces = count_pieces(count_records([str(path) for path in paths]), settings.records_per_piece)
            made_from = [[corpus_records.code_version, pieces, identity] for identity in identities]
            digests = [hashlib.sha256(canonical_json(each, source)).hexdigest()[:16] for each in made_from]
            named, most = dict(zip(digests, paths, strict=True)), settings.max_faulty_fraction
            report = divide_source(
                named,
                source,
                pieces,
                work,
                former=_former(workspace, source),
                max_faulty_fraction=most,
                progress=progress,
            )
            checks = check_division(work, named, source, pieces, max_faulty_fraction=most)
        return BuildReport(counts=report.counts, rows=report.rows, checks=checks)

    return Plan(
        recipe={
            "sources": identities,
            "records_per_piece": settings.records_per_piece,
            "max_faulty_fraction": settings.max_faulty_fraction,
            **settings.sources[source].pinned,
        },
        write=write,
    )


def _former(workspace: Workspace, source: str) -> Path | None:
    """Return the folder of the division that is published, whose unchanged files need not be read again."""
    try:
        return resolve_generation(workspace.root.link_of(corpus_records.location(workspace, source)))
    except ResourceError:
        return None


def describe_corpus_records(published: Published) -> dict[str, dg.MetadataValue]:
    """Return the metadata of a divided source: records, pieces, and the share of rows at fault."""
    counts = published.manifest.counts
    faulty = sum(counts[f"faulty.{fault}"] for fault in FAULTS)
    return {
        **describe_published(published, rows=counts["records_in"], stated=("pieces",)),
        **plotted(pieces=counts["pieces"], faulty_share=share(faulty, counts["records_in"])),
    }


def plan_corpus_windows(workspace: Workspace, piece: str, progress: Progress) -> Plan:
    """Plan the windows of one piece; its recipe names the records of the piece, so that others may change."""
    settings, (source, number) = workspace.catalog.corpus, parse_piece(piece)
    genome, records = reference_genome.open(workspace), corpus_records.open(workspace, source, contents="sizes")
    if piece not in piece_keys(source, pieces := records.manifest.counts["pieces"]):
        raise ResourceError(piece, "is no piece of its source now", got=f"{pieces} pieces", remedy=_REMEDY)
    params = settings.params(workspace.catalog.window_profile)

    def write(work: Path) -> BuildReport:
        derived = DerivedFiles(workspace.root.path / DERIVED / genome.manifest.sha256[:12])
        slices = GenomeSlices(genome.file("genome.fa.gz"), workspace.contigs, derived)
        placer = CorpusPlacer(workspace.contigs, slices, MappyAligner(slices, spliced=source.is_transcribed))
        read = partial(read_piece, records.directory, source, number, progress)
        report = write_corpus_windows(read(), params=params, placer=placer, out_dir=work)
        checks = audit_corpus_windows(work, read(), params=params, placer=placer, counts=report.counts)
        return BuildReport(counts=report.counts, rows=report.rows, checks=checks)

    stated: dict[str, JsonValue] = {"aligner_part_bp": PART_BP} if needs_parts(genome.file("genome.fa.gz.fai")) else {}
    digests: list[JsonValue] = [*piece_digests(records.directory, number)]
    return Plan(recipe={"params": params.as_recipe(), "records": digests, **stated}, inputs=(genome,), write=write)


def describe_corpus_windows(published: Published) -> dict[str, dg.MetadataValue]:
    """Return the metadata of corpus windows: rows, records and bases used, and windows by kind of placement."""
    from genolewm_assets.defs.display import draw_placements

    counts = published.manifest.counts
    placed = {str(how): counts[f"placed.{how}"] for how in PlacementHow}
    return {
        **describe_published(published, rows=counts["windows"], stated=("windows", "records_used")),
        **plotted(
            records_used=counts["records_used"],
            base_share_in_windows=share(counts["bases_in_windows"], counts["bases_in"]),
            maybe_human_share=share(counts["maybe_human"], counts["windows"]),
            placed_share=share(counts["windows"] - placed[PlacementHow.NONE], counts["windows"]),
        ),
        "placements": draw_placements(placed, source=str(published.artefact.partition)),
    }


corpus_records = GatedAsset(
    key="corpus/records",
    description="""
    One row per record of a source of the pretraining corpus, in the piece that the hash of its id names.

    A piece is built, embedded and kept by itself: a changed file makes those pieces again that have other records now.
    A source of few records is one piece.
    """,
    kinds={"arrow"},
    place=lambda _, source: f"corpus/records/{source}",
    deps=(on_every_partition(corpus_source),),
    partitions=BY_CORPUS_SOURCE,
    automation=AUTOMATED,
    table=CORPUS_RECORDS,
    checks=RECORD_CHECKS,
    plan=plan_corpus_records,
    entries={
        "pieces": "pieces of the source, each a partition of `corpus/windows` and `embeddings/corpus`",
        "faulty_share": "share of the rows of the source that are at fault, 0 to 1; counts has the reasons",
    },
    describe=describe_corpus_records,
    pictured=False,
    resumable=True,
    registers=register_pieces,
)

_SEQUENCE = of(corpus_records, "sequence")
_PLACED = (
    *("placement_how", "placed_contig", "placed_start", "placed_end", "strand", "placement_exact", "identity"),
    *("coverage", "stated_contig", "stated_start", "stated_end"),
)

corpus_windows = GatedAsset(
    key="corpus/windows",
    description="""
    One row per window of the pretraining corpus, with its placement on the reference if one was found.

    The encoder was trained on these sequences, so its states are most reliable here. The placement decides which
    windows the holdouts exclude from training; what a record states of itself counts only where the bases agree.
    """,
    kinds={"parquet", "minimap2"},
    code_version="7",
    place=lambda _, piece: f"corpus/{piece}",
    deps=(on_every_partition(reference_genome), on_every_partition(corpus_records)),
    partitions=BY_CORPUS_PIECE,
    automation=AUTOMATED,
    table=CORPUS_WINDOWS,
    sources={
        **made_here("source", "window_index", "start", "end", "window_bp"),
        **same(("record_id", "taxonomy", "note"), corpus_records),
        **dict.fromkeys(("sequence", "left_flank", "right_flank", "window_hash", "window_id", "gc"), _SEQUENCE),
        "maybe_human": of(corpus_records, "taxonomy"),
        "spliced": of(corpus_records, "junctions"),
        **dict.fromkeys(
            _PLACED, _SEQUENCE + of(corpus_records, "contig", "start", "end", "strand", "junctions", "note")
        ),
    },
    checks=CORPUS_CHECKS,
    plan=plan_corpus_windows,
    entries={
        "records_used": "records of the piece of which there are windows",
        "base_share_in_windows": "share of the bases of its records that windows cover, 0 to 1",
        "maybe_human_share": "share of the windows whose record may be human, 0 to 1",
        "placed_share": "share of the windows with a place on the reference, 0 to 1",
        "placements": "windows by how they were placed",
    },
    describe=describe_corpus_windows,
)
