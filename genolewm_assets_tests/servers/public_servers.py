"""NCBI, gnomAD's bucket, ENCODE and the hub on 127.0.0.1: real slices at the real paths, for catalogue grch38-chr21."""

from __future__ import annotations

import gzip
import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from genolewm_assets.sources.catalog.catalog import BUILT_IN_FOLDER
from genolewm_assets_tests.encoders.hybrid_model import write_hybrid_fixture
from genolewm_assets_tests.servers.hub import Hub
from genolewm_assets_tests.servers.web_server import WebServer

#: Contig of the slices with alleles of both gnomAD and ClinVar, at its true length; N outside of 1.2 Mbp.
CONTIG = {"name": "chr17", "length": 83257441, "md5": "5657f229f26ba23dafb50a0d96a24023"}
RELEASES = ("clinvar_20201107.vcf.gz", "clinvar_20260226.vcf.gz")
_CORPUS = "HuggingFaceBio/carbon-pretraining-corpus"


@dataclass(frozen=True)
class PublicServers:
    """A copy of the shipped catalogue over loopback servers, and paths of its VCFs there."""

    site: WebServer
    hub: Hub
    catalog: Path
    gnomad: str
    newest: str


def serve_slices(site: WebServer, hub: Hub, data: Path, folder: Path) -> PublicServers:
    """Serve the slices of ``data`` where catalogue grch38-chr21 looks for its files, and write its copy to ``folder``.

    Changed are the hosts, the contig with its digests, the size of blocks, and what slices cannot give.
    """
    catalog: dict[str, Any] = yaml.safe_load((BUILT_IN_FOLDER / "grch38-chr21.yaml").read_text())
    served = _Served(site)
    genome, source = catalog["genome"], catalog["gnomad"]["sources"].pop("chr21")
    fasta = (data / "reference/GRCh38.slices.fa.gz").read_bytes()
    genome |= {"fasta": served.add(genome["fasta"], fasta), "contigs": [CONTIG], "md5": _md5(fasta)}
    beds = ((42_500_000, 42_512_000), (43_300_000, 43_310_000))
    tracks = [(name, value) for name, value in genome["tracks"].items() if value.startswith("https://")]
    for (name, url), (start, end) in zip(tracks, beds, strict=True):
        genome["tracks"][name] = served.add(url, gzip.compress(f"chr17\t{start}\t{end}\n".encode(), mtime=0))
    vcf = (data / "gnomad/release/4.1/vcf/joint/gnomad.joint.v4.1.sites.chr17.vcf.bgz").read_bytes()
    url = source["url"].replace("chr21", "chr17")
    catalog["gnomad"]["sources"]["chr17"] = source | {"url": served.add(url, vcf), "md5": _md5(vcf)}
    listing = catalog["clinvar"]["listing"]
    for name in RELEASES:
        content = (data / "clinvar/vcf_GRCh38" / name).read_bytes()
        served.add(f"{listing}{name}", content)
        served.add(f"{listing}{name}.md5", f"{_md5(content)}  /panfs/{name}\n".encode())
    links = "".join(f'<a href="{name}{end}">{name}{end}</a>\n' for name in RELEASES for end in ("", ".md5"))
    catalog["clinvar"] |= {"listing": served.add(listing, links.encode()), "freshness": False}
    _serve_hub(hub, catalog, data, folder)
    # One gene, in 1.2 Mbp: blocks of a tenth, no held-out gene, and the rest of the genome is N.
    catalog["holdouts"] |= {"block_bp": 100_000, "clinvar_genes": [], "haplotype_fraction": 0.0}
    catalog["packages"] |= {"audit_tuples": 5_000, "audit_planted": 5, "audit_may_lack": ["held_sequence"]}
    catalog["corpus"] |= {"slice_fraction": 1.0}
    file = folder / "catalog.yaml"
    file.write_text(yaml.safe_dump(catalog, sort_keys=False))
    return PublicServers(site, hub, file, served.path(url), f"{served.path(listing)}{RELEASES[1]}")


def _serve_hub(hub: Hub, catalog: dict[str, Any], data: Path, folder: Path) -> None:
    """Serve the corpus's real records and an encoder with Carbon's kind of vocabulary at the commits of a catalogue."""
    source = catalog["corpus"]["sources"]["eukaryote_generator"]
    shutil.copytree(data / "corpus/eukaryote_generator", folder / "corpus/eukaryote_generator_10B_subset/human")
    commit = source["url"].partition("@")[2].partition("/")[0]
    hub.add("datasets", _CORPUS, commit, folder / "corpus")
    write_hybrid_fixture(folder / "model")
    hub.add("models", "HuggingFaceBio/Carbon-500M", catalog["encoder"]["revision"], folder / "model")


@dataclass
class _Served:
    site: WebServer

    def path(self, url: str) -> str:
        """Return the path of a file of a server: its host is the first folder."""
        return url.removeprefix("https://")

    def add(self, url: str, content: bytes) -> str:
        """Serve a file; return its URL."""
        self.site.files[self.path(url)] = content
        return self.site.url(self.path(url))


def _md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()
