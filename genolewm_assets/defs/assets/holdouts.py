"""``holdouts/manifest``: intervals, alleles and corpus windows excluded from training, one partition per release."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import dagster as dg
import pyarrow as pa

from genolewm_assets.defs.assets.clinvar import clinvar_shard
from genolewm_assets.defs.assets.corpus import corpus_windows
from genolewm_assets.defs.assets.gnomad import gnomad_shard
from genolewm_assets.defs.assets.observations import haplotype_source, haplotype_sources
from genolewm_assets.defs.assets.release_inputs import RELEASE_DEPS, ReleaseInputs, clinvar_by_contig, holdout_policy
from genolewm_assets.defs.assets.windows import windows_index
from genolewm_assets.defs.display import describe_published, made_here, of, plotted, same, share
from genolewm_assets.defs.runtime import (
    BY_PACKAGED_RELEASE,
    NO_SOURCE,
    REBUILT,
    GatedAsset,
    Plan,
    Workspace,
    on_every_partition,
    reference_opener,
)
from genolewm_assets.errors import CorruptResourceError, MissingResourceError, RejectedResourceError
from genolewm_assets.genome import EVALUATION, Holdout
from genolewm_assets.holdouts import (
    BY_REPEATS,
    CLINVAR_COLUMNS,
    EARLIER_COLUMNS,
    HOLDOUT_ALLELES,
    HOLDOUT_CHECKS,
    HOLDOUT_COMPARED,
    HOLDOUT_CORPUS,
    HOLDOUT_HAPLOTYPES,
    HOLDOUT_INTERVALS,
    HOLDOUT_SIMILAR,
    ORIGINS,
    CorpusReason,
    EarlierSides,
    HoldoutInputs,
    HoldoutPolicy,
    Kept,
    PhasedGenotypes,
    SequenceInputs,
    SimilarReason,
    WindowKey,
    build_holdouts,
    check_holdouts,
    describe_temporal,
    merge_intervals,
)
from genolewm_assets.package_build import WINDOWS_SUFFICE, check_windows_suffice, count_training_windows
from genolewm_assets.packages import check_audited, read_latest, released
from genolewm_assets.progress import Progress
from genolewm_assets.sources.files import CHECKSUM_MATCHES, SourceFile
from genolewm_assets.sources.haplotypes import read_phased
from genolewm_assets.sources.reference import FastaReader
from genolewm_assets.sources.similarity import ALIGNER, SequenceSearch
from genolewm_assets.store.artefacts import BuildReport, CheckResult, Published, read_manifest
from genolewm_assets.store.files import JsonValue, resolve_generation
from genolewm_assets.store.tables import map_parquet, memory_given_back, read_table, write_table
from genolewm_assets.variants import ALLELE_KEY, CONTIGS_KNOWN, check_contigs_known, is_before
from genolewm_assets.windows.corpus import parse_piece

#: Label of held-out corpus windows in the picture: they are excluded from training and have no role.
_NO_ROLE = "not trained on"


def earlier_package(workspace: Workspace, release: str) -> str | None:
    """Return the release whose holdouts a release keeps, or None.

    It is the one that the published holdouts name, else the newest earlier one whose package passed its audit.
    """
    link = workspace.root.link_of(holdouts_manifest.location(workspace, release))
    with suppress(MissingResourceError, CorruptResourceError):
        named = read_manifest(resolve_generation(link)).recipe
        if "keeps" in named:
            return None if named["keeps"] is None else str(named["keeps"])
    for earlier in released(workspace.root.path):
        if is_before(earlier, release):
            with suppress(MissingResourceError, CorruptResourceError, RejectedResourceError):
                check_audited(workspace.root.path, earlier, read_latest(workspace.root.path, earlier).manifest_sha256)
                return earlier
    return None


def _open_before(
    workspace: Workspace, release: str, policy: HoldoutPolicy, progress: Progress
) -> tuple[Published, Published] | None:
    """Open holdouts and ClinVar shard of the earlier package; None without one that was made under the policy."""
    earlier = earlier_package(workspace, release)
    if earlier is None:
        return None
    with suppress(MissingResourceError):
        held = holdouts_manifest.open(workspace, earlier, progress=progress)
        if policy.keeps_sides_of(held.manifest.recipe.get("policy")):
            return held, clinvar_shard.open(workspace, earlier, progress=progress)
    return None


def _kept_of(inputs: ReleaseInputs, before: tuple[Published, Published] | None, search: str) -> Kept | None:
    """Return what the earlier package's holdouts found, for pieces that have not changed; None if it cannot be used."""
    if before is None:
        return None
    held = before[0].manifest
    code, genome = held.code_version == holdouts_manifest.code_version, inputs.genome.ref in held.inputs
    if not code or not genome or held.recipe["search"] != search:
        return None
    pieces = {**inputs.windows, **inputs.corpus}
    return Kept(
        read_table(before[0].file("compared.parquet")),
        merge_intervals(read_table(before[0].file("intervals.parquet"))),
        frozenset(name for name, piece in pieces.items() if piece.ref in held.inputs),
    )


def _read_before(before: tuple[Published, Published] | None, contigs: Iterable[str], scratch: Path) -> EarlierSides:
    if before is None:
        return EarlierSides()
    held, shard = before
    return EarlierSides(
        str(held.artefact.partition),
        read_table(held.file("intervals.parquet")),
        map_parquet(held.file("alleles.parquet"), scratch),
        clinvar_by_contig(shard, contigs, EARLIER_COLUMNS),
    )


def plan_holdouts(workspace: Workspace, release: str, progress: Progress) -> Plan:
    """Plan the holdouts of one release."""
    inputs = ReleaseInputs.open(workspace, release, progress=progress)
    policy = holdout_policy(workspace, inputs)
    sources = haplotype_sources(workspace, progress)
    before = _open_before(workspace, release, policy, progress)

    @memory_given_back()
    def write(work: Path) -> BuildReport:
        gnomad = inputs.gnomad_on_demand(ALLELE_KEY)
        phased, counts, checksum = _read_phased(workspace, inputs, sources, gnomad, progress)
        fasta = inputs.genome.file("genome.fa.gz")
        with FastaReader(fasta, workspace.contigs) as reader:
            given = HoldoutInputs(
                contigs=workspace.contigs,
                genome=read_table(inputs.genome.file("contigs.parquet")),
                windows=inputs.window_tables(),
                gnomad=gnomad,
                clinvar=inputs.clinvar_on_demand(CLINVAR_COLUMNS),
                clinvar_earlier=inputs.earlier_on_demand(CLINVAR_COLUMNS),
                corpus=_CorpusPlacements(inputs, progress),
                profile=workspace.catalog.window_profile,
                phased=phased,
                sequences=SequenceInputs(
                    SequenceSearch(reader, progress=progress),
                    inputs.packed_bases,
                    inputs.corpus_pieces,
                    _kept_of(inputs, before, ALIGNER),
                ),
                before=_read_before(before, inputs.windows, work.parent),
                scratch=work.parent,
            )
            held = build_holdouts(given, policy)
        rows = {
            f"{noun}.parquet": write_table([table], work / f"{noun}.parquet", schema)
            for noun, table, schema in (
                ("intervals", held.intervals, HOLDOUT_INTERVALS),
                ("alleles", held.alleles, HOLDOUT_ALLELES),
                ("corpus", held.corpus, HOLDOUT_CORPUS),
                ("similar", held.similar, HOLDOUT_SIMILAR),
                ("compared", held.compared, HOLDOUT_COMPARED),
                ("haplotypes", held.haplotypes, HOLDOUT_HAPLOTYPES),
            )
        }
        sizes = Counter[str]()
        for piece, each in inputs.corpus.items():
            sizes[parse_piece(piece)[0]] += each.manifest.counts["windows"]
        counts |= count_training_windows(
            given.windows,
            sizes,
            held.intervals,
            held.similar,
            held.corpus,
            margin_bp=given.profile.margin_bp,
            buffer=policy.buffer,
        )
        checks = (checksum, *check_holdouts(held, given, policy))
        return BuildReport(counts={**held.counts, **counts}, rows=rows, checks=checks)

    recipe: dict[str, JsonValue] = {
        "policy": policy.as_recipe(),
        "search": ALIGNER,
        "haplotypes": {name: dict(source.identity()) for name, source in sources.items()},
        "keeps": before and before[0].artefact.partition,
    }
    # The shard of T0 may be that of the earlier package.
    known = {each.ref for each in inputs.published}
    more = [each for each in before or () if each.ref not in known]
    return Plan(recipe=recipe, inputs=(*inputs.published, *more), write=write)


def _read_phased(
    workspace: Workspace,
    inputs: ReleaseInputs,
    sources: Mapping[str, SourceFile],
    gnomad: Mapping[str, pa.Table],
    progress: Progress,
) -> tuple[dict[str, PhasedGenotypes], dict[str, int], CheckResult]:
    """Read the phased genotypes of the common alleles; return them by contig, counts, and the check of the files."""
    reference = reference_opener(inputs.genome, workspace.contigs)
    phased: dict[str, PhasedGenotypes] = {}
    counts: dict[str, int] = {}
    figures: dict[str, JsonValue] = {}
    differing: list[dict[str, object]] = []
    for name, source in sources.items():
        with source.local() as local:
            checked = local.checksum_check()
            figures[name] = dict(checked.figures)
            differing += [{"contig": name, **row} for row in checked.rows]
            found = read_phased(
                local.path,
                workspace.contigs[name],
                gnomad[name],
                contigs=workspace.contigs,
                reference=reference,
                progress=progress,
            )
        phased[name] = found.genotypes
        counts.update({f"haplotypes.{name}.{what}": n for what, n in found.counts.items()})
    figures = figures or {"source": NO_SOURCE}
    return phased, counts, CheckResult(CHECKSUM_MATCHES, not differing, figures, differing)


class _CorpusPlacements:
    """Placements of the corpus windows, read anew by each iteration, which reports how many have been compared."""

    def __init__(self, inputs: ReleaseInputs, progress: Progress) -> None:
        self._inputs, self._progress = inputs, progress

    def __iter__(self) -> Iterator[pa.Table]:
        total = sum(each.manifest.counts["windows"] for each in self._inputs.corpus.values())
        done = 0
        for table in self._inputs.corpus_placements():
            yield table
            self._progress.advance(done := done + table.num_rows, total, "corpus windows")


def advise_on_holdouts(workspace: Workspace, published: Published) -> tuple[CheckResult, ...]:
    """Return the checks that block nothing: of the contigs of the phased files, and of the windows left for the mix."""
    counts = published.manifest.counts
    return check_contigs_known(counts), check_windows_suffice(counts, workspace.catalog.packages.policy)


def describe_holdouts(published: Published) -> dict[str, dg.MetadataValue]:
    """Return the metadata of holdouts: rows, and the windows and alleles that each holdout excludes from training."""
    from genolewm_assets.defs.display import PART_COLOURS, draw_composition

    counts = published.manifest.counts
    alleles = read_table(published.file("alleles.parquet"), columns=["holdout", "role"])
    grouped = alleles.group_by(["holdout", "role"]).aggregate([([], "count_all")]).to_pylist()
    held = Counter({(row["holdout"], row["role"]): row["count_all"] for row in grouped})
    panels: dict[str, dict[str, dict[str, int]]] = {
        "windows": {name: {role: counts[f"windows.{name}.{role}"] for role in EVALUATION} for name in Holdout},
        "alleles": {name: {role: held[name, role] for role in EVALUATION} for name in Holdout},
        "corpus windows": {
            name: {_NO_ROLE: sum(counts[f"corpus_windows.{name}.{reason}"] for reason in CorpusReason)}
            for name in Holdout
        },
    }
    title = f"{counts['windows.held_out']:,} of {counts['windows']:,} reference windows are held out"
    return {
        **describe_published(published, rows=sum(entry.rows or 0 for entry in published.manifest.files)),
        **_describe_t0(published),
        **_describe_kept(published),
        **plotted(
            window_share_held_out=share(counts["windows.held_out"], counts["windows"]),
            corpus_share_held_out=share(counts["corpus_windows.held_out"], counts.get("corpus_windows", 0)),
            alleles_held_out=alleles.num_rows,
            windows_similar=sum(_similar(counts, reason) for reason in SimilarReason),
            windows_similar_by_repeats=_similar(counts, BY_REPEATS),
        ),
        "composition": draw_composition(
            panels, title=title, parts={part: PART_COLOURS[part] for part in (*EVALUATION, _NO_ROLE)}
        ),
    }


def _describe_t0(published: Published) -> dict[str, dg.MetadataValue]:
    """Return T0 and its reason; empty if the recipe states no policy."""
    policy, release = published.manifest.recipe.get("policy"), published.artefact.partition
    if not isinstance(policy, Mapping):
        return {}
    return {"temporal": dg.MetadataValue.text(describe_temporal(policy, str(release)))}


def _describe_kept(published: Published) -> dict[str, dg.MetadataValue]:
    """Return the release whose sides are kept, and how many alleles moved, or would have."""
    earlier, counts = published.manifest.recipe.get("keeps"), published.manifest.counts
    if earlier is None:
        return {}
    moves = {name: counts.get(f"moves.{name}", 0) for name in ("to_training", "from_training", "genes_changed")}
    return {"keeps_sides_of": dg.MetadataValue.text(str(earlier)), **plotted(**moves)}


def _similar(counts: Mapping[str, int], reason: str) -> int:
    return sum(counts[f"similar.{origin}.{reason}"] for origin in ORIGINS)


_GENES = of(clinvar_shard, "gene_ids", "gene_symbols")
_BLOCK = of(gnomad_shard, *ALLELE_KEY)
_BASES = of(corpus_windows, "sequence", "right_flank") + of(windows_index, "start", "end")
_SIMILARITY = [name for name in HOLDOUT_SIMILAR.columns if name not in (*HOLDOUT_SIMILAR.key, "origin")]
_COMPARED = [name for name in HOLDOUT_COMPARED.columns if name not in WindowKey._fields]
_PLACED = tuple(f"{how}_{part}" for how in ("placed", "stated") for part in ("contig", "start", "end"))
_PLACEMENT = of(corpus_windows, *_PLACED, "placement_how", "maybe_human")

holdouts_manifest = GatedAsset(
    key="holdouts/manifest",
    description="""
    One row per interval, allele or window that is excluded from training, and per haplotype of a held-out block.

    A window is excluded by its place, or because its bases are similar to held-out sequence, wherever it is from.

    Scores on held-out data are valid only if no other spelling, overlapping window or copy of that data was trained on.
    `packages/split` filters by these tables and checks its splits against them.
    """,
    kinds={"parquet", "minimap2"},
    code_version="9",
    place=lambda _, release: f"holdouts/{release}",
    deps=(*RELEASE_DEPS, on_every_partition(haplotype_source)),
    partitions=BY_PACKAGED_RELEASE,
    automation=REBUILT,
    follows_releases=True,
    tables={
        "intervals": HOLDOUT_INTERVALS,
        "alleles": HOLDOUT_ALLELES,
        "corpus": HOLDOUT_CORPUS,
        "similar": HOLDOUT_SIMILAR,
        "compared": HOLDOUT_COMPARED,
        "haplotypes": HOLDOUT_HAPLOTYPES,
    },
    sources={
        **made_here("intervals.holdout", "intervals.role", "intervals.reason"),
        "intervals.contig": of(clinvar_shard, "chrom") + of(gnomad_shard, "chrom"),
        "intervals.start": of(clinvar_shard, "pos") + of(gnomad_shard, "pos"),
        "intervals.end": of(clinvar_shard, "pos", "ref") + of(gnomad_shard, "pos", "ref"),
        "intervals.unit": _GENES + _BLOCK,
        "intervals.name": of(clinvar_shard, "gene_symbols") + _BLOCK,
        **made_here("alleles.holdout", "alleles.role", "alleles.source"),
        **same(ALLELE_KEY, clinvar_shard, gnomad_shard, noun="alleles."),
        **same(("label", "stars", "clinvar_id", "gene_ids"), clinvar_shard, noun="alleles."),
        "alleles.unit": _GENES + _BLOCK,
        "alleles.reason": of(clinvar_shard, "label", "stars", "gene_ids"),
        **same(("source", "record_id", "window_index"), corpus_windows, noun="corpus."),
        "corpus.holdout": _PLACEMENT + _BASES,
        "corpus.reason": _PLACEMENT + _BASES,
        "similar.origin": of(corpus_windows, "source"),
        **same(("contig", "start"), windows_index, noun="similar."),
        **same(("record_id", "window_index"), corpus_windows, noun="similar."),
        **made_here("similar.holdout"),
        **{f"similar.{name}": _BASES + _GENES + _BLOCK for name in _SIMILARITY},
        "compared.origin": of(corpus_windows, "source"),
        **same(("contig", "start"), windows_index, noun="compared."),
        **same(("record_id", "window_index"), corpus_windows, noun="compared."),
        **{f"compared.{name}": _BASES + _GENES + _BLOCK for name in _COMPARED},
        **made_here("haplotypes.role", "haplotypes.number", "haplotypes.phased", "haplotypes.n_carriers"),
        "haplotypes.contig": of(gnomad_shard, "chrom"),
        "haplotypes.unit": _BLOCK,
        "haplotypes.alleles": of(gnomad_shard, *ALLELE_KEY[1:]),
    },
    checks=(CHECKSUM_MATCHES, *HOLDOUT_CHECKS),
    advisories=(CONTIGS_KNOWN, WINDOWS_SUFFICE),
    advise=advise_on_holdouts,
    plan=plan_holdouts,
    entries={
        "temporal": "releases T0 and T1 of the temporal holdout, and why T0 is the one",
        "keeps_sides_of": "release of the earlier package; what it held out stays held out",
        "to_training, from_training, genes_changed": (
            "alleles of both releases that would train now and are kept out, that train no more, whose genes changed"
        ),
        "window_share_held_out, corpus_share_held_out": (
            "share of the reference and of the corpus windows that training must not see, 0 to 1"
        ),
        "alleles_held_out": "rows of the table of alleles: one per allele and holdout",
        "windows_similar, windows_similar_by_repeats": (
            "windows that are similar to held-out sequence and excluded; and, estimated from one in 32 of a large "
            "piece, those that are similar by repeats alone"
        ),
        "composition": "windows and alleles by holdout and split",
    },
    describe=describe_holdouts,
)
