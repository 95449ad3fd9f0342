"""A tiny catalogue with real files: three linear contigs of 24 kb with gaps, chrM, gnomAD and ClinVar VCFs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pysam
import yaml

from genolewm_assets.definitions import defs
from genolewm_assets.defs.assets.graph import GATED
from genolewm_assets.defs.runtime.settings import WorkspaceResource
from genolewm_assets.defs.runtime.workspace import Workspace
from genolewm_assets.store.artefacts.published import Published

LINEAR = ("chr17", "chr20", "chr21")
CONTIGS = (*LINEAR, "chrM")
LENGTH = 24_000
GAP = (9_000, 9_500)
CORPUS = ("eukaryote_generator", "mrna_evo2", "mrna_splice_evo2", "prokaryote_evo2")
RELEASES = ("2024-01-07", "2025-01-05")


def simulate_contig(seed: int, length: int = LENGTH) -> bytes:
    """Return random upper-case bases with one gap of N."""
    bases = np.frombuffer(b"ACGT", dtype=np.uint8)[np.random.default_rng(seed).integers(0, 4, length)].copy()
    bases[slice(*GAP)] = ord("N")
    return bases.tobytes()


def simulate_genome() -> dict[str, bytes]:
    linear = {name: simulate_contig(seed) for seed, name in enumerate(LINEAR)}
    return {**linear, "chrM": simulate_contig(9, 12_000)}


@dataclass
class TinyWorld:
    """Sources under ``folder``, a root under ``folder/root``, and the graph over both."""

    folder: Path
    sequences: dict[str, bytes] = field(default_factory=dict)
    instance: dg.DagsterInstance = field(init=False)

    def __post_init__(self) -> None:
        self.sequences = simulate_genome()
        (self.folder / "dagster").mkdir(parents=True, exist_ok=True)
        self.instance = dg.DagsterInstance.ephemeral(tempdir=str(self.folder / "dagster"))
        self.write_fasta(self.sequences)
        for name in LINEAR:
            self.write_gnomad(name, self.gnomad_records(name))
        for release in RELEASES:
            self.write_clinvar(release, header_date=release)
        self.write_corpus()
        self.write_catalog()
        self.instance.add_dynamic_partitions("clinvar_release", list(RELEASES))
        self.instance.add_dynamic_partitions("corpus_piece", list(CORPUS))

    @property
    def root(self) -> Path:
        return self.folder / "root"

    @property
    def catalog(self) -> Path:
        return self.folder / "catalog.yaml"

    def workspace(self) -> Workspace:
        return Workspace.open(self.root, str(self.catalog))

    def open(self, asset: str, partition: str | None = None) -> Published:
        """Open what an asset published, as what reads it does."""
        return GATED[asset].open(self.workspace(), partition)

    def write_fasta(self, sequences: dict[str, bytes], *, width: int = LENGTH) -> None:
        lines = []
        for name, bases in sequences.items():
            lines += [f">{name}", *(bases[at : at + width].decode() for at in range(0, len(bases), width))]
        self._bgzip("genome.fa.gz", "\n".join(lines) + "\n")

    def write_catalog(self, name: str = "tiny", **encoder: object) -> None:
        contigs = [
            {"name": contig, "length": len(bases), "md5": hashlib.md5(bases).hexdigest(), "circular": contig == "chrM"}
            for contig, bases in self.sequences.items()
        ]
        sources = {name: {"url": f"gnomad.{name}.vcf.bgz", "release": "4.1", "md5": "published"} for name in LINEAR[:2]}
        catalog = {
            "name": name,
            "genome": {"name": "tiny", "fasta": "genome.fa.gz", "contigs": contigs},
            "windows": {"profile": "tiny", "window_bp": 1_200, "stride_bp": 800, "margin_bp": 96},
            "gnomad": {"sources": sources},
            "clinvar": {"listing": "clinvar", "predecessors": {RELEASES[1]: RELEASES[0]}, "freshness": "off"},
            "corpus": {"short_windows": True, "sources": {name: {"url": f"corpus/{name}"} for name in CORPUS}},
            "encoder": {"model": "tiny-llama-random", "dtype": "float32", **encoder},
            "holdouts": {"clinvar_genes": [], "temporal": RELEASES[0]},
            "packages": {"mix_declared": True, "max_visits": 40, "audit_tuples": 3_000, "audit_planted": 2},
        }
        self.catalog.write_text(yaml.safe_dump(catalog))

    def edit_catalog(self, **sections: Mapping[str, Any]) -> None:
        """Set keys of sections, at any depth; None removes one."""
        self.catalog.write_text(yaml.safe_dump(_merged(yaml.safe_load(self.catalog.read_text()), sections)))

    def write_corpus(self) -> None:
        """Write genes of chr17 with coordinates, a transcript, and bacteria."""
        genes = [(2_000 + 3_000 * n, 4_500 + 3_000 * n) for n in range(2)]
        rows: dict[str, list[dict[str, object]]] = {
            "eukaryote_generator": [
                {
                    "record_id": f"SIM{n}",
                    "sequence": self.sequences["chr17"][start:end].decode(),
                    "taxonomy": "Homo sapiens",
                    "species_type": "vertebrate_mammalian",
                    "gene_type": "protein_coding",
                    "chrom": "chr17",
                    "start": start,
                    "end": end,
                    "strand": "+",
                }
                for n, (start, end) in enumerate(genes)
            ]
        }
        for seed, name in enumerate(CORPUS[1:]):
            text = simulate_contig(50 + seed, 5_000)[: GAP[0]].decode()
            metadata = {"source": "bacteria_simulated", "note": "simulated, complete genome"}
            rows[name] = [{"text": text, "record": f"{name}:1", "metadata": metadata}]
        for name, records in rows.items():
            folder = self.folder / "corpus" / name
            folder.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.Table.from_pylist(records), folder / "part-00000.parquet")

    def write_foreign(self, source: str, numbers: Iterable[int]) -> None:
        """Replace the records of a source by some that are not human, one for each number."""
        note = {"source": "bacteria_simulated", "note": "simulated"}
        rows = [
            {"record": f"t{n}", "text": simulate_contig(500 + n, 1_400).decode(), "metadata": note} for n in numbers
        ]
        pq.write_table(pa.Table.from_pylist(rows), self.folder / "corpus" / source / "part-00000.parquet")

    def gnomad_records(self, name: str, *, wrong_ref: int = 0) -> list[str]:
        """Return one SNV every 100 bp, the first ``wrong_ref`` of them with a REF that the genome does not have."""
        records = []
        for index, at in enumerate(range(50, GAP[0], 100)):
            ref = chr(self.sequences[name][at])
            alt = "ACGT"[("ACGT".index(ref) + 1) % 4]
            if index < wrong_ref:
                ref, alt = alt, "ACGT"[("ACGT".index(ref) + 2) % 4]
            af, an = (0.25, 1000) if index % 2 else (0.001, 1000)
            info = f"AC={int(af * an)};AN={an};AF={af}"
            records.append(f"{name}\t{at + 1}\t.\t{ref}\t{alt}\t.\tPASS\t{info}")
        return records

    def write_gnomad(self, name: str, records: list[str]) -> None:
        header = [
            "##fileformat=VCFv4.2",
            '##FILTER=<ID=PASS,Description="passed">',
            '##FILTER=<ID=AC0,Description="no high-confidence carrier">',
            '##INFO=<ID=AC,Number=A,Type=Integer,Description="allele count">',
            '##INFO=<ID=AN,Number=1,Type=Integer,Description="allele number">',
            '##INFO=<ID=AF,Number=A,Type=Float,Description="allele frequency">',
            f"##contig=<ID={name},length={len(self.sequences[name])}>",
            "#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO",
        ]
        self._bgzip(f"gnomad.{name}.vcf.bgz", "\n".join([*header, *records]) + "\n", published=True)

    def clinvar_records(self, contig: str = "chr17") -> list[str]:
        """Return one SNV every 120 bp of a contig, its classes in turn."""
        classes = ("Pathogenic", "Likely_pathogenic", "Benign", "Likely_benign", "Uncertain_significance")
        records = []
        for index, at in enumerate(range(200, 8_000, 120)):
            ref = chr(self.sequences[contig][at])
            alt = "ACGT"[("ACGT".index(ref) + 3) % 4]
            info = (
                f"ALLELEID={9000 + index};CLNSIG={classes[index % 5]};"
                "CLNREVSTAT=criteria_provided,_single_submitter;GENEINFO=SIM1:1"
            )
            records.append(f"{contig.removeprefix('chr')}\t{at + 1}\t{index + 1}\t{ref}\t{alt}\t.\t.\t{info}")
        return records

    def write_clinvar(self, release: str, *, header_date: str, records: list[str] | None = None) -> Path:
        header = [
            *("##fileformat=VCFv4.1", f"##fileDate={header_date}", "##source=ClinVar", "##reference=GRCh38"),
            '##INFO=<ID=ALLELEID,Number=1,Type=Integer,Description="the ClinVar Allele ID">',
            '##INFO=<ID=CLNSIG,Number=.,Type=String,Description="classification">',
            '##INFO=<ID=CLNREVSTAT,Number=.,Type=String,Description="review status">',
            *('##INFO=<ID=GENEINFO,Number=1,Type=String,Description="genes">', "##contig=<ID=17>"),
            "#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO",
        ]
        records = self.clinvar_records() if records is None else records
        return self._bgzip(str(self.vcf(release)), "\n".join([*header, *records]) + "\n", published=True)

    def vcf(self, release: str) -> Path:
        return self.folder / "clinvar" / f"clinvar_{release.replace('-', '')}.vcf.gz"

    def _bgzip(self, name: str, text: str, *, published: bool = False) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        plain = path.with_name(f"{path.name}.plain")
        plain.write_text(text)
        pysam.tabix_compress(str(plain), str(path), force=True)
        plain.unlink()
        if published:
            self.publish_md5(path)
        return path

    def publish_md5(self, path: Path) -> None:
        path.with_name(f"{path.name}.md5").write_text(f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.name}\n")

    def materialize(
        self,
        *keys: str,
        partition: str | None = None,
        ops: dict[str, object] | None = None,
        tags: dict[str, str] | None = None,
        assets: Sequence[Any] = defs.assets or (),
    ) -> dg.ExecuteInProcessResult:
        """Run assets for one partition in one run, as the UI's Materialize button would; ``ops`` is their config."""
        return dg.materialize(
            list(assets),
            instance=self.instance,
            partition_key=partition,
            selection=dg.AssetSelection.assets(*[dg.AssetKey(key.split("/")) for key in keys]),
            resources={"workspace": WorkspaceResource(root=str(self.root), catalog=str(self.catalog))},
            run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}, "ops": ops or {}},
            tags=tags,
            raise_on_error=False,
        )

    def make(self, asset: str, partition: str | None = None) -> dg.AssetMaterialization:
        """Run one asset, which succeeds; returns what its page then shows."""
        result = self.materialize(asset, partition=partition)
        assert result.success, asset
        return shown_of(result, asset)


def _merged(old: object, new: Mapping[str, Any]) -> dict[str, Any]:
    kept = dict(old) if isinstance(old, Mapping) else {}
    for key, value in new.items():
        kept[key] = _merged(kept.get(key), value) if isinstance(value, Mapping) else value
    return {key: value for key, value in kept.items() if value is not None}


def shown_of(result: dg.ExecuteInProcessResult, asset: str) -> dg.AssetMaterialization:
    (event,) = result.asset_materializations_for_node(asset.replace("/", "__"))
    return event


def check_of(result: dg.ExecuteInProcessResult, name: str) -> dg.AssetCheckEvaluation:
    (check,) = (check for check in result.get_asset_check_evaluations() if check.check_name == name)
    return check


def refusal_of(result: dg.ExecuteInProcessResult) -> str:
    """Return why a run did not accept its inputs, which is all that failed."""
    assert failed_checks(result) == {"inputs_accepted"}
    return str(check_of(result, "inputs_accepted").metadata["error"].value)


def failure_of(result: dg.ExecuteInProcessResult) -> str:
    """Return what the one failed step of a run states."""
    (event,) = result.get_step_failure_events()
    assert event.step_failure_data.user_failure_data is not None, event.step_failure_data.error
    return str(event.step_failure_data.user_failure_data.description)


def failed_checks(result: dg.ExecuteInProcessResult) -> set[str]:
    """Return the names of the blocking checks that a run evaluated and recorded as failed."""
    failed = dg.AssetCheckSeverity.ERROR
    return {check.check_name for check in blocking_checks(result) if not check.passed and check.severity is failed}


def blocking_checks(result: dg.ExecuteInProcessResult) -> list[dg.AssetCheckEvaluation]:
    return [check for check in result.get_asset_check_evaluations() if check.blocking]


def bytes_of(root: Path) -> dict[str, bytes]:
    """Return every file that a manifest covers, and the manifests, by root-relative path."""
    files = sorted(
        path for path in root.rglob("*") if ".gen" in path.parts and path.is_file() and not path.is_symlink()
    )
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in files
        if not path.name.endswith(("provenance.json", ".digests"))
    }
