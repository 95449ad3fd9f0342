"""Panel files of three makers, and files that are malformed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from genolewm_assets.errors import MissingResourceError, PanelError
from genolewm_assets.forensic import read_panel
from genolewm_assets_tests.worlds.forensic.runs import GENOTYPE, KIT, write_panel_files

OSIRIS = """<?xml version="1.0" encoding="UTF-8"?>
<KitData><Version>2.7</Version><Kits><Set><Name>Made</Name>
<FsaChannelMap>
<Channel><KitChannelNumber>1</KitChannelNumber><fsaChannelNumber>1</fsaChannelNumber></Channel>
<Channel><KitChannelNumber>2</KitChannelNumber><fsaChannelNumber>6</fsaChannelNumber></Channel>
</FsaChannelMap>
<Locus><Name>AMEL</Name><Channel>1</Channel><MinBP>82</MinBP><MaxBP>88</MaxBP><CoreRepeatNumber>6</CoreRepeatNumber>
<LadderAlleles><Allele><Name>1</Name><BP>82</BP></Allele><Allele><Name>2</Name><BP>88</BP></Allele></LadderAlleles></Locus>
<Locus><Name>M1</Name><Channel>2</Channel><MinBP>94</MinBP><MaxBP>110</MaxBP>
<LadderAlleles><Allele><Name>9.3</Name><BP>101</BP></Allele><Allele><Name>8</Name><BP>94</BP></Allele></LadderAlleles></Locus>
</Set></Kits></KitData>"""
GENEMARKER = """<?xml version="1.0" encoding="UTF-8"?>
<Panel><Vendor>GeneMarker</Vendor><PanelName>Made</PanelName><Loci>
<Locus><MarkerTitle>M1</MarkerTitle><DyeIndex>6</DyeIndex><n_NucleotideRepeats>4</n_NucleotideRepeats>
<LowerBoundary>80.9</LowerBoundary><UpperBoundary>120</UpperBoundary>
<Allele Label='8' Size='94.5' Left_Binning='0.50' Right_Binning='0.40' Control='1'></Allele>
<Allele Label='8.3' Size='97.5' Left_Binning='0.50' Right_Binning='0.40' Control='0'></Allele></Locus>
</Loci></Panel>"""


def write(folder: Path, *texts: str) -> list[Path]:
    paths = [folder / f"file{number}.txt" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    return paths


def test_genemapper_files_define_the_kit_in_either_order(tmp_path: Path) -> None:
    panel_file, bin_file = write_panel_files(tmp_path)
    panel = read_panel(panel_file, bin_file)
    assert panel == read_panel(str(bin_file), panel_file, panel_name="Made_v1")
    assert panel.name == "Made_v1"
    assert [locus.name for locus in panel.loci] == list(KIT)
    for locus, made in zip(panel.loci, KIT.values(), strict=True):
        assert (locus.channel, locus.repeat_bp) == (made.channel, made.repeat_bp)
        assert locus.control == tuple(GENOTYPE[locus.name])
        assert {each.allele for each in locus.ladder} == set(made.ladder)
        assert {each.allele: each.size_bp for each in locus.bins} == {
            allele: made.size(allele) for allele in (*made.ladder, *made.virtual)
        }
        assert [each.size_bp for each in locus.bins] == sorted(each.size_bp for each in locus.bins)
    assert panel.locus("M5").bins[0].left_bp == 0.5


def test_files_as_windows_saves_them_define_the_same_kit(tmp_path: Path) -> None:
    paths = write_panel_files(tmp_path)
    expected = read_panel(*paths)
    xml = write(tmp_path, OSIRIS)
    of_xml = read_panel(*xml)
    for encoding in ("utf-8-sig", "utf-16"):
        for path in (*paths, *xml):
            path.write_bytes(path.read_bytes().decode("utf-8-sig").encode(encoding))
        assert (read_panel(*paths), read_panel(*xml)) == (expected, of_xml)
        for path in (*paths, *xml):
            path.write_bytes(path.read_bytes().decode(encoding).encode())
    paths[0].write_bytes(paths[0].read_bytes() + "\xe9".encode("latin-1"))
    with pytest.raises(PanelError, match=r"is not text in UTF-8 .* byte 0xe9 at offset"):
        read_panel(*paths)
    xml[0].write_bytes(OSIRIS.replace("<Kits>", "<!DOCTYPE a><Kits>").encode("utf-16"))
    with pytest.raises(PanelError, match="declares a document type"):
        read_panel(*xml)


def test_osiris_maps_its_channels_and_names_amelogenin(tmp_path: Path) -> None:
    panel = read_panel(*write(tmp_path, OSIRIS))
    first, second = panel.loci
    assert (panel.name, first.channel, second.channel) == ("Made", 1, 6)
    assert [each.allele for each in first.bins] == ["X", "Y"]
    assert [each.allele for each in second.bins] == ["8", "9.3"]
    assert (first.repeat_bp, second.repeat_bp) == (6, 4)
    assert second.start_bp < 94
    assert second.end_bp > 110


def test_genemarker_tells_virtual_bins(tmp_path: Path) -> None:
    (locus,) = read_panel(*write(tmp_path, GENEMARKER)).loci
    assert (locus.channel, locus.start_bp, locus.end_bp) == (6, 80.9, 120)
    bins = [(each.allele, each.in_ladder, each.right_bp) for each in locus.bins]
    assert bins == [("8", True, 0.4), ("8.3", False, 0.4)]


@pytest.mark.parametrize(
    ("text", "old", "new", "message"),
    [
        (OSIRIS, "<Kits>", "<!DOCTYPE a><Kits>", "declares a document type"),
        (OSIRIS, "</Kits>", "", "is not XML"),
        (OSIRIS, "KitData>", "Kit>", "is no panel: expected <KitData> or <Panel>, got <Kit>"),
        (OSIRIS, "<Channel>2</Channel>", "<Channel>7</Channel>", "locus 'M1': its channel is not in the map"),
        (OSIRIS, "<BP>94</BP>", "<BP>nan</BP>", "a size is no number: expected a number, got 'nan'"),
        (OSIRIS, "<BP>94</BP>", "", "<Allele> has no <BP>"),
        (OSIRIS, "<MinBP>94</MinBP><MaxBP>110", "<MinBP>94</MinBP><MaxBP>-110000", "locus 'M1'"),
        (OSIRIS, "<Name>8</Name>", "<Name>9.3</Name>", "bins appear twice: got 9.3"),
        (OSIRIS, "<Name>M1</Name>", "<Name>AMEL</Name>", "loci appear twice: got AMEL"),
        (OSIRIS, "CoreRepeatNumber>", "Core_RepeatNumber>", "a word is misspelt: expected 'CoreRepeatNumber'"),
        (GENEMARKER, "Control=", "control=", "a word is misspelt: expected 'Control', got 'control'"),
        (GENEMARKER, "Control='1'", "Control='0'", "it has no ladder alleles"),
        (GENEMARKER, ">120<", ">70<", "its range is none: expected start below end, got 80.9 to 70.0"),
        (GENEMARKER, ">4<", ">4.5<", "the repeat is no whole number"),
    ],
)
def test_malformed_xml_is_named(tmp_path: Path, text: str, old: str, new: str, message: str) -> None:
    assert old in text
    paths = write(tmp_path, text.replace(old, new))
    if message == "locus 'M1'":
        assert read_panel(*paths).locus("M1").end_bp == 103
        return
    with pytest.raises(PanelError) as caught:
        read_panel(*paths)
    assert str(caught.value).startswith(str(paths[0]))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("which", "old", "new", "message"),
    [
        (0, "Panel\tMade_v1", "Panel\tOther", "locus 'AMELX': has no bins"),
        (0, "\tgreen\t", "\tmauve\t", "unknown colour: expected blue, green, yellow, red, orange, purple, got 'mauve'"),
        (0, "M3\tgreen\t", "M3\t", "a locus has too few columns|unknown colour|is no number"),
        (0, "M2\t", "M1\t", "locus 'M1': ladder alleles have no bin"),
        (0, "Panel\tMade_v1\tnull", "Panel\tTwo\nM9\tblue\t1\t2\t\t4\nPanel\tMade_v1", "'Made_v1', 'Two', got None"),
        (0, "Panel\tMade_v1", "Pannel\tTwo\nPanel\tMade_v1", r":\d+: a word is misspelt: expected 'Panel', got 'Pan"),
        (1, "\tvirtual", "\tvirtaul", r"bins:\d+: a word is misspelt: expected 'virtual', got 'virtaul'"),
        (1, "Marker Name\tM4", "Marker Name\tM44", "locus 'M4': has no bins"),
        (1, "\n9.3\t", "\n9.9\t", "locus 'M4': ladder alleles have no bin: expected 14, got 1 less"),
        (1, "\t0.5\t0.5\r\nY", "\r\nY", "a bin has too few columns: expected at least 4, got 2"),
        (1, "BinSet Name", "Something", ""),
    ],
)
def test_malformed_text_is_named(tmp_path: Path, which: int, old: str, new: str, message: str) -> None:
    paths = write_panel_files(tmp_path)
    text = paths[which].read_bytes().decode()
    assert old in text
    paths[which].write_bytes(text.replace(old, new, 1).encode())
    if not message:
        assert len(read_panel(*paths).loci) == len(KIT)
        return
    with pytest.raises(PanelError, match=message):
        read_panel(*paths)


def test_files_that_are_no_panel_are_named(tmp_path: Path) -> None:
    panel_file, bin_file = write_panel_files(tmp_path)
    for paths in ([], [panel_file], [bin_file], [panel_file, panel_file], write(tmp_path, "hello", "world")):
        with pytest.raises(PanelError, match="are no panel files"):
            read_panel(*paths)
    with pytest.raises(MissingResourceError):
        read_panel(tmp_path / "missing.txt", bin_file)
    with pytest.raises(PanelError, match="no such locus: expected a locus of the kit, got 'M99'"):
        read_panel(panel_file, bin_file).locus("M99")


def test_mutated_panel_files_are_panels_or_named(tmp_path: Path) -> None:
    panel_file, bin_file = write_panel_files(tmp_path)
    seeds = [panel_file.read_bytes(), OSIRIS.encode(), GENEMARKER.encode()]
    draw, refused = random.Random(5), 0
    for _ in range(600):
        data = bytearray(draw.choice(seeds))
        for _ in range(draw.randint(1, 4)):
            at = draw.randrange(len(data))
            data[at : at + draw.choice((0, 1, 8))] = draw.choice((b"", b"\t", b"<", b"-1", b"1e999", b"\xff", b"\n"))
        path = tmp_path / "mutant"
        path.write_bytes(data)
        try:
            read_panel(*([path, bin_file] if b"Chemistry" in data else [path]))
        except PanelError:
            refused += 1
    assert 60 < refused < 600
