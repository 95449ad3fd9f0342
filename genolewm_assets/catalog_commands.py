"""Commands for catalogues: ``genolewm catalog check``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Column, Table

from genolewm_assets.artefact_commands import JsonOption
from genolewm_assets.console import out
from genolewm_assets.errors import counted

if TYPE_CHECKING:
    from genolewm_assets.genome import WindowProfile
    from genolewm_assets.holdouts import HoldoutPolicy
    from genolewm_assets.sources.catalog import Catalog, EncoderSection
    from genolewm_assets.sources.examination import Answers, Finding

catalog_app = typer.Typer(help="Catalogues: genome, contigs and sources of a root.", no_args_is_help=True)

#: Stands for the digest of a model's file, which is not read.
_UNREAD = "0" * 64


@catalog_app.command("check")
def catalog_check(
    catalog: Annotated[str, typer.Argument(help="Built-in catalogue or path of a YAML file.")],
    root: Annotated[
        Path | None,
        typer.Option("--root", help="Folder that {root} stands for; else places under it are not looked at."),
    ] = None,
    *,
    offline: Annotated[bool, typer.Option("--offline", help="Check the catalogue alone; open nothing else.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Print what a catalogue names, and every fault found in it or in a place that it names.

    Opened: FASTA (contigs by its index), BED tracks, VCFs (header, index), the ClinVar listing, corpus files (columns),
    the encoder's files, mitochondrial genomes (first record). Servers are asked for size and published MD5, the
    Hugging Face hub for commit, files and sizes of corpus and encoder, which are printed; config.json is read.
    Not checked: contents of files over 8 MiB (MD5, bases, records, tracks), contents of remote files, model weights.
    Exit code: that of the first fault, 3 for the catalogue itself.

    Example: `genolewm catalog check grch38 --offline`
    """
    from genolewm_assets.errors import CatalogError
    from genolewm_assets.sources.catalog import load_catalog
    from genolewm_assets.sources.examination import Examination, examine_catalog, invalid_keys

    try:
        loaded = load_catalog(catalog)
    except CatalogError as error:
        _report({"catalogue": catalog}, invalid_keys(error), as_json=as_json)
        return
    encoder, more = loaded.encoder, []
    if encoder is not None and encoder.source is not None:
        look = partial(_look_at_encoder, encoder, loaded.window_profile.window_bp)
        more.append(Examination("encoder.model", encoder.source, look))
    found = examine_catalog(loaded, root=root, offline=offline, more=more)
    _report(_facts(loaded), found, as_json=as_json)


def _facts(catalog: Catalog) -> dict[str, str]:
    return {
        "catalogue": catalog.name,
        "genome": catalog.genome.name,
        "genome digest": catalog.genome_digest,
        "contigs": ", ".join(catalog.contigs.names),
        "windows": _windows(catalog.window_profile),
        "gnomAD sources": ", ".join(f"{name} {entry.release}" for name, entry in catalog.gnomad.sources.items()),
        "phased genotypes": ", ".join(f"{name} {entry.release}" for name, entry in catalog.haplotypes.sources.items())
        or "none",
        "ClinVar listing": catalog.clinvar.listing,
        "corpus sources": ", ".join(catalog.corpus.sources) or "none",
        "encoder": "off: packages have no states" if catalog.encoder is None else catalog.encoder.summary,
        "held-out contigs": ", ".join((*catalog.holdouts.contigs_validation, *catalog.holdouts.contigs_test)) or "none",
        "held-out blocks": _blocks(catalog.holdouts.policy),
        "T0 of the temporal holdout": str(catalog.holdouts.temporal),
        "mitochondrial genomes": ", ".join(entry.url for entry in catalog.mito.genomes) or "none",
    }


def _windows(profile: WindowProfile) -> str:
    tails = ", and one at the end of each run" if profile.cover_tails else ""
    return f"{profile.window_bp:,} bp, every {profile.stride_bp:,} bp{tails}; {profile.margin_bp:,} bp around each"


def _blocks(policy: HoldoutPolicy) -> str:
    if policy.block_bp is None:
        return "none"
    shares = f"{policy.block_validation_fraction:.0%} for validation, {policy.block_test_fraction:.0%} for test"
    return f"{shares}, of {policy.block_bp:,} bp"


def _report(facts: Mapping[str, str], found: Sequence[Finding], *, as_json: bool) -> None:
    """Print facts and findings; exit with the code of the first fault."""
    faults = [finding for finding in found if finding.is_fault]
    if as_json:
        values = {name.lower().replace(" ", "_").replace("-", "_"): value for name, value in facts.items()}
        findings = [{"place": each.place, "fault": each.is_fault, "text": each.text} for each in found]
        out.print_json(data={**values, "findings": findings})
    else:
        table = Table("what", Column("value", overflow="fold"), show_header=False)
        for name, value in facts.items():
            table.add_row(name, escape(value))
        out.print(table)
        for each in found:
            out.say(str(each), style="red" if each.is_fault else None)
        out.print(f"{counted(len(faults), 'fault')}, {counted(len(found) - len(faults), 'other finding')}")
    if faults:
        raise typer.Exit(faults[0].exit_code)


def _look_at_encoder(section: EncoderSection, window_bp: int, place: str) -> Answers:
    """Look at the files of the encoder: configuration, vocabulary, names of the weights; at the hub if not here.

    Windows longer than the model's context are a fault.
    """
    from genolewm_assets.encoders import TINY_LLAMA, ask_hub, locate_model, read_identity
    from genolewm_assets.errors import MissingResourceError

    model = section.source or ""
    if model == TINY_LLAMA:
        return
    named = Path(place) if section.is_folder else model
    try:
        read_identity(named, **section.settings, window_bp=window_bp, download=False, sha256_of=_is_there)
    except MissingResourceError:
        if section.is_folder:
            raise
        sizes, where = ask_hub(model, str(section.revision)), "the hub"
    else:
        if section.is_folder:
            return
        files = locate_model(named, revision=section.revision, trusted_code=section.trusted_source, download=False)
        sizes = {name: (files.folder / name).stat().st_size for name in (*files.settings(), *files.weights())}
        where = "the hub, in this machine's cache"
    yield f"{counted(len(sizes), 'file')} of {where}, {sum(sizes.values()):,} bytes"


def _is_there(path: Path) -> str:
    """Return a digest without reading the file; raises FileNotFoundError if there is none."""
    path.stat()
    return _UNREAD
