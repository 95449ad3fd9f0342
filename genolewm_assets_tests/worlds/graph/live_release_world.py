"""A catalogue whose sources come from a web server, and ClinVar releases that are published there one by one."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pysam
import yaml

from genolewm_assets_tests.places import CATALOGS
from genolewm_assets_tests.servers.web_directory import WebDirectory
from genolewm_assets_tests.worlds.graph.tiny_world import RELEASES, TinyWorld

#: Folder of the web server that is the ClinVar listing.
LISTING = "clinvar"
INTERVAL_S = 5


@dataclass(frozen=True)
class ReleaseWorld:
    """Sources and releases in order: only ``old`` is published at first; ``changes`` are those from it to ``new``."""

    root: Path
    catalog: Path
    site: WebDirectory
    old: str
    new: str
    corrupt: str
    later: str
    hostile: str
    last: str
    files: Mapping[str, Path]
    changes: Mapping[str, int]

    def publish(self, key: str) -> None:
        """Upload a release completely, its checksum last."""
        self.site.publish(self.files[key], f"{LISTING}/{self.files[key].name}")

    def publish_half(self, key: str) -> None:
        """Leave a release as an upload that is still going on: the first half of the file, and no checksum."""
        content = self.files[key].read_bytes()
        (self.site.folder / LISTING / self.files[key].name).write_bytes(content[: len(content) // 2])

    def publish_corrupt(self, key: str) -> None:
        """Upload a release with one bit of its bytes flipped beside the checksum of the intact file."""
        self.publish(key)
        file = self.site.folder / LISTING / self.files[key].name
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)


def real_world(folder: Path, shared: Path, site: WebDirectory) -> ReleaseWorld:
    """Return BRCA1 of the two real releases, with chr17 and chrM and a few windows of the corpus."""
    catalog = yaml.safe_load((CATALOGS / "shared_data.yaml").read_text())
    contigs = ("chr17", "chrM")
    catalog["base"] = str(shared)
    catalog["genome"]["contigs"] = [each for each in catalog["genome"]["contigs"] if each["name"] in contigs]
    catalog["gnomad"]["sources"] = {name: catalog["gnomad"]["sources"][name] for name in contigs}
    catalog["corpus"] |= {
        "sources": {"eukaryote_generator": catalog["corpus"]["sources"]["eukaryote_generator"]},
        "slice_fraction": 0.2,
    }
    # Six years apart, the releases name other genes for a tenth of their alleles.
    moved = {"max_moved_fraction": 0.2}
    catalog["holdouts"] = {"contigs_validation": [], "contigs_test": [], "clinvar_genes": [], **moved}
    places = {
        key: shared / "clinvar/vcf_GRCh38" / f"clinvar_{key.replace('-', '')}.vcf.gz"
        for key in ("2020-11-07", "2026-02-26")
    }
    return _world(folder, site, catalog, places, {"text_changed": 5_238, "class_changed": 2_789, "id_changed": 2})


def simulated_world(folder: Path, site: WebDirectory) -> ReleaseWorld:
    """Return the tiny world with a second ClinVar release whose changes are planted; gnomAD comes by HTTP too."""
    tiny = TinyWorld(folder / "sources")
    old, new = RELEASES
    records, changes = change_records(tiny.clinvar_records())
    places = {
        old: tiny.write_clinvar(old, header_date=old),
        new: tiny.write_clinvar(new, header_date=new, records=records),
    }
    catalog = yaml.safe_load(tiny.catalog.read_text())
    catalog["base"] = str(tiny.folder)
    for source in catalog["gnomad"]["sources"].values():
        site.publish(tiny.folder / source["url"])
        source["url"] = site.url + source["url"]
    return _world(folder, site, catalog, places, changes)


def change_records(records: list[str]) -> tuple[list[str], dict[str, int]]:
    """Return records of a later release: two gone, three new, and others with another class, text or id."""
    fields = [record.split("\t") for record in records[2:]]
    for record in fields[:3]:
        record[7] = record[7].replace("Likely_benign", "Benign").replace("Uncertain_significance", "Likely_benign")
    classes = sum(record != before.split("\t") for record, before in zip(fields, records[2:], strict=True))
    texts = 0
    for record in fields[3:]:
        if "=Pathogenic;" in record[7] and texts < 4:
            record[7] = record[7].replace("=Pathogenic;", "=Pathogenic|risk_factor;")
            texts += 1
    fields[20][2] = "900001"
    added = []
    for record in fields[30:33]:
        others = [base for base in "ACGT" if base not in (record[3], record[4])]
        added.append([*record[:2], f"9{record[2]}0", record[3], others[0], *record[5:]])
    rows = sorted([*fields, *added], key=lambda record: int(record[1]))
    counts = {"text_changed": texts + classes, "class_changed": classes, "id_changed": 1, "added": 3, "removed": 2}
    return ["\t".join(record) for record in rows], counts


def _world(
    folder: Path, site: WebDirectory, catalog: dict[str, Any], places: dict[str, Path], changes: dict[str, int]
) -> ReleaseWorld:
    old, new = places
    weeks = (date.fromisoformat(new) + timedelta(weeks=number) for number in range(1, 5))
    corrupt, later, hostile, last = (day.isoformat() for day in weeks)
    for key in (corrupt, later, last):
        places[key] = _redated(places[new], new, key, folder)
    places[hostile] = _redated(places[new], new, hostile, folder, change=_spoilt)
    (site.folder / LISTING).mkdir(parents=True)
    listing = {"listing": f"{site.url}{LISTING}", "listing_interval_s": INTERVAL_S}
    catalog["clinvar"] = {**listing, "freshness": "off"}
    written = folder / "catalog.yaml"
    written.write_text(yaml.safe_dump(catalog))
    world = ReleaseWorld(folder / "root", written, site, old, new, corrupt, later, hostile, last, places, changes)
    world.publish(old)
    return world


def _spoilt(record: str) -> str:
    fields = record.split("\t")
    fields[3] = fields[3].translate(str.maketrans("ACGT", "CGTA"))
    fields[7] += ";NOTE=\x1b[31m<script>alert(1)</script>"
    return "\t".join(fields)


def _redated(file: Path, day: str, other: str, folder: Path, change: Callable[[str], str] = str) -> Path:
    """Write a release again as that of another day, in its name and its header."""
    text = gzip.decompress(file.read_bytes()).decode()
    assert f"##fileDate={day}\n" in text
    plain = folder / "plain.vcf"
    lines = text.replace(f"##fileDate={day}\n", f"##fileDate={other}\n", 1).splitlines()
    plain.write_text("".join(f"{line if line.startswith('#') else change(line)}\n" for line in lines))
    written = folder / f"clinvar_{other.replace('-', '')}.vcf.gz"
    pysam.tabix_compress(str(plain), str(written), force=True)
    plain.unlink()
    return written
