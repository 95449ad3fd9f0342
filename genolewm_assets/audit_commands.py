"""Commands ``genolewm audit`` and ``genolewm evaluate``: what of a holdout a package leaks, and how well it teaches."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import typer
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

from genolewm_assets.artefact_commands import JsonOption, PackagePath
from genolewm_assets.console import ConsoleProgress, err, out
from genolewm_assets.errors import InputError, UnknownTermError, counted

if TYPE_CHECKING:
    from genolewm_assets.audit import AuditReport, Layout, Membership, SearchResult
    from genolewm_assets.encoders import CausalLMLoss, CausalLMStateEncoder

_PACKAGE = "package"
#: Exit codes of an audit that is not clean.
LEAK, INCONCLUSIVE = 5, 6

_COLOURS = {"clean": "green", "leak": "red", "inconclusive": "yellow", "not_applicable": "dim"}


class _PackageFirst(TyperGroup):
    """A group whose first word is a command, or else the package that ``run`` audits."""

    #: Command that a first word which is none is given to.
    default: ClassVar[str] = "run"

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] != "--help":
            args = [self.default, *args]
        return super().parse_args(ctx, args)


audit_app = typer.Typer(
    cls=_PackageFirst,
    no_args_is_help=True,
    help="Look for held-out data in a package's training, by code that no filter uses.\n\n"
    "Example: `genolewm audit data/packages/2026-02-26/0a1b2c3d4e5f`",
)

FastaOption = Annotated[
    Path | None, typer.Option("--reference", readable=False, help="Indexed FASTA; default: that of the package's root.")
]

HoldoutsOption = Annotated[
    Path | None, typer.Option("--holdouts", help="Folder of holdout tables; default: the package's own.")
]


LayoutOption = Annotated[
    str | None, typer.Option("--layout", help="`package` or `geno-lewm`; default: what the folder is.")
]
EncoderOption = Annotated[
    str | None, typer.Option("--encoder", help="Folder of a DNA language model: also compare states of edited windows.")
]
MembershipOption = Annotated[
    int,
    typer.Option("--membership", min=0, help="Held-out windows whose loss by --encoder is compared with matched ones."),
]
LayerOption = Annotated[int, typer.Option("--layer", help="Hidden state of --encoder, as in the catalogue.")]
ComputeOption = Annotated[
    Literal["float32", "bfloat16"], typer.Option("--compute", help="Precision of --encoder, as in the catalogue.")
]


@audit_app.command("run")
def audit(
    package: PackagePath,
    reference: FastaOption = None,
    *,
    clinvar: Annotated[
        Path | None, typer.Option("--clinvar", readable=False, help="ClinVar VCF of the package's release.")
    ] = None,
    clinvar_t0: Annotated[
        Path | None, typer.Option("--clinvar-t0", readable=False, help="ClinVar VCF of T0, for `knowledge: T0`.")
    ] = None,
    holdouts: HoldoutsOption = None,
    tuples: Annotated[
        int, typer.Option("--tuples", min=0, help="Training tuples to draw at least; 0: none.")
    ] = 1_000_000,
    power: Annotated[
        int, typer.Option("--power", min=0, help="Leaks of each kind to plant in a part of it and look for; 0: none.")
    ] = 0,
    layout: LayoutOption = None,
    encoder: EncoderOption = None,
    layer: LayerOption = -1,
    compute: ComputeOption = "float32",
    membership: MembershipOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Look for every kind of leak in a package; exit with 5 for a leak, 6 if something could not be searched.

    DIR may also be a data folder of geno-lewm 0.2.1; name the FASTA, the holdouts and the VCF that count.

    Example: `genolewm audit data/packages/2026-02-26/0a1b2c3d4e5f --power 20`
    """
    from genolewm_assets.audit import audit_package, measure_membership

    found_layout = _layout_of(package, layout)
    if membership and encoder is None:
        raise InputError("--membership", "needs a model", expected="--encoder FOLDER", remedy="Name one")
    if power and found_layout != _PACKAGE:
        raise InputError(
            "--power", f"plants in packages only, {package} is one of {found_layout}", remedy="Leave it out"
        )
    fasta, vcf, vcf_t0 = _files_beside(package, found_layout, holdouts, (reference, clinvar, clinvar_t0))
    model = None if encoder is None else _load_encoder(encoder, layer, compute)
    with ConsoleProgress(err) as progress:
        report = audit_package(
            package,
            fasta,
            holdouts=holdouts,
            layout=found_layout,
            clinvar=vcf,
            clinvar_t0=vcf_t0,
            least_tuples=tuples,
            progress=progress,
            encoder=None if model is None else model.encode_edited,
            encoder_is_causal=model is None or model.is_causal,
            planted=power,
        )
        signal = None
        if membership and encoder is not None:
            loss = _load_loss(encoder)
            signal = measure_membership(
                package,
                fasta,
                loss.nats_per_base,
                number=membership,
                holdouts=holdouts,
                layout=found_layout,
                progress=progress,
            )
    _print_report(report, signal, as_json=as_json)
    if report.verdict != "clean":
        raise typer.Exit(LEAK if report.verdict == "leak" else INCONCLUSIVE)


def _load_encoder(model: str, layer: int, compute: str) -> CausalLMStateEncoder:
    from genolewm_assets.encoders import CausalLMStateEncoder

    return CausalLMStateEncoder(Path(model).resolve(), layer=layer, compute=compute, device="auto")


def _load_loss(model: str) -> CausalLMLoss:
    from genolewm_assets.encoders import CausalLMLoss

    return CausalLMLoss(Path(model).resolve(), device="auto")


def _layout_of(package: Path, stated: str | None) -> Layout:
    from genolewm_assets.audit import Layout, find_layout

    if stated is not None and stated not in list(Layout):
        known = " or ".join(map(repr, map(str, Layout)))
        raise UnknownTermError("--layout", "is unknown", expected=known, got=repr(stated))
    return find_layout(package) if stated is None else Layout(stated)


def _files_beside(
    package: Path, layout: Layout, holdouts: Path | None, stated: tuple[Path | None, Path | None, Path | None]
) -> tuple[Path, Path | None, Path | None]:
    """Return the FASTA and the VCFs of the release and of T0: as stated, or else those of the package's root."""
    from genolewm_assets.audit import earlier_release, find_clinvar, find_fasta, open_files

    reference, clinvar, clinvar_t0 = stated
    if layout != _PACKAGE:
        if reference is None:
            raise InputError("--reference", f"is needed for a folder of {layout}", remedy="Name an indexed FASTA")
        return reference, clinvar, clinvar_t0
    files = open_files(package, holdouts)
    return (
        reference or find_fasta(files),
        clinvar or find_clinvar(files, files.release),
        clinvar_t0 or find_clinvar(files, earlier_release(files)),
    )


@audit_app.command("plant")
def plant(
    package: PackagePath,
    output: Annotated[Path, typer.Argument(metavar="OUT", help="Folder to write; it must not exist.")],
    *,
    kind: Annotated[
        list[str] | None, typer.Option("--kind", help="Kind of leak; may be repeated; default: every kind.")
    ] = None,
    number: Annotated[int, typer.Option("--number", min=1, help="Leaks of each kind.")] = 1,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of every random choice.")] = 0,
    reference: FastaOption = None,
    holdouts: HoldoutsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a copy of a package with planted leaks to OUT/package, and the holdouts to audit it by to OUT/holdouts.

    Example: `genolewm audit plant data/packages/2026-02-26/0a1b2c3d4e5f planted --kind copy_95`
    """
    from genolewm_assets.audit import find_clinvar, find_fasta, open_files, plant_leaks
    from genolewm_assets.packages import open_tables

    open_tables(package, allow_unaudited=True)  # raises if it is damaged
    files = open_files(package, holdouts)
    fasta, vcf = reference or find_fasta(files), find_clinvar(files, files.release)
    planted, failed = plant_leaks(package, output, fasta, kind or (), number=number, seed=seed, holdouts=holdouts)
    if as_json:
        out.print_json(data={"planted": [asdict(one) for one in planted], "not_planted": failed})
        return
    out.say(*(f"{one.plant}: {one.key}" for one in planted))
    out.say(*(f"{name}: not planted: {why}" for name, why in failed.items()))
    words = f"Audit it: genolewm audit {output}/package --reference {fasta} --holdouts {output}/holdouts"
    out.say(words if vcf is None else f"{words} --clinvar {vcf}")


def evaluate(
    package: PackagePath,
    *,
    encoder: Annotated[Path, typer.Option("--encoder", help="Encoder of its states: a folder, Hugging Face format.")],
    tuples: Annotated[
        int | None, typer.Option("--tuples", min=100, help="Training tuples, and most test tuples of a holdout [4096].")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of training tuples, probe and intervals.")] = 0,
    frozen: Annotated[
        Path | None, typer.Option("--frozen", help="Frozen epochs to read training tuples from: their root or store.")
    ] = None,
    device: Annotated[str, typer.Option("--device", help="Torch device of the encoder; auto: the best one.")] = "cpu",
    output: Annotated[Path | None, typer.Option("--output", help="Also write the table: a new Parquet file.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Train a linear and a small residual probe on a package, and score them on the test tuples of every holdout.

    Example: `genolewm evaluate data --encoder data/models/tiny-llama-random --output scores.parquet`
    """
    from genolewm_assets.packages import open_available
    from genolewm_assets.store.tables import TableFormat, check_output, write_table_file

    if output is not None:
        check_output(output, overwrite=False)
    opened = open_available(package)
    from genolewm_assets.evaluation import EVALUATION, TUPLES, load_encoder
    from genolewm_assets.evaluation import evaluate as evaluate_package

    model = load_encoder(opened, encoder.resolve(), device=device)
    with ConsoleProgress(err) as progress:
        table = evaluate_package(opened, model, tuples=tuples or TUPLES, seed=seed, frozen=frozen, progress=progress)
    if output is not None:
        write_table_file(output, EVALUATION.arrow, table.to_batches(), TableFormat.PARQUET)
    rows = table.to_pylist()
    if as_json:
        out.print_json(data=rows)
        return
    shown = Table("holdout", "model", "latent error", "AUROC (95 %)", "less zero-shot (95 %)")
    for row in rows:
        error = "" if row["latent_error"] is None else f"{row['latent_error']:.3f}"
        scores = (_with_interval(row, name) for name in ("auroc", "gain"))
        shown.add_row(row["holdout"].removeprefix("holdout-"), row["model"], error, *scores)
    out.print(shown)
    for row in (row for row in rows if row["model"] == "zero_shot"):
        bench = f"{row['n_harmful']:,} P/LP and {row['n_benign']:,} B/LB of {counted(row['n_genes'], 'gene')}"
        said = f"{bench}; zero_shot ranks by {row['score'].replace('_', ' ')}" if row["n_genes"] else "no bench"
        line = f"{row['holdout']}: {counted(row['n_tuples'], 'tuple')}, {said}"
        out.say(line)


def _with_interval(row: dict[str, Any], name: str) -> str:
    if row[name] is None:
        return ""
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return f"{row[name]:.2f}" if low is None else f"{row[name]:.2f} ({low:.2f}, {high:.2f})"


def _print_report(report: AuditReport, signal: Membership | None, *, as_json: bool) -> None:
    if as_json:
        shown = {} if signal is None else {"membership": signal.as_dict()}
        out.print_json(data=report.as_dict() | shown)
        return
    out.say(report.headline)
    table = Table("kind", "verdict", "searched", "planted leaks found", "result")
    for result in report:
        searched = ", ".join(f"{number:,} {unit}" for unit, number in result.searched.items())
        found = ", ".join(map(str, result.power)) or "not measured"
        verdict = Text(str(result.verdict).replace("_", " "), style=_COLOURS[str(result.verdict)])
        table.add_row(Text(result.kind.words), verdict, Text(searched), Text(found), Text(result.reason))
    out.print(table)
    for result in report:
        _print_rows(result)
    out.say(*(f"{number:,} {what}" for what, number in report.measured.items()))
    if signal is not None:
        out.say(str(signal))


def _print_rows(result: SearchResult) -> None:
    """Print the first findings of a search."""
    if result.found.rows:
        out.print(Text(f"{result.kind.words}: {result.method}", style="bold"), soft_wrap=True)
    for row in result.found.rows:
        text = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in row.items() if name != "what")
        out.print(f"  {row['what']}: {text}" if text else f"  {row['what']}", markup=False, soft_wrap=True)
    if more := len(result.found.keys) - len(result.found.rows):
        out.print(f"  and {more:,} more, which are not listed", markup=False, soft_wrap=True)
