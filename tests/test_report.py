"""Reports are read strictly: the golden one of each version, and the right sentence for all others."""

from pathlib import Path

import pytest

from envkit import places, report
from envkit.errors import InputError

DATA = Path(__file__).parent / "data"


def test_the_golden_report_of_version_1_0_is_still_read():
    told = report.read(DATA / "report-1.0.json")
    assert told.versions["torch"] == "2.13.0+cpu"
    assert told.cells["collate.mappings/counter"].kind == "ok"
    assert told.points[0].workload == "latency"


def test_writing_a_report_and_reading_it_gives_the_same(tmp_path):
    told = report.read(DATA / "report-1.0.json")
    report.write(tmp_path / "r.json", told)
    assert report.read(tmp_path / "r.json") == told
    assert (tmp_path / "r.json").read_bytes().endswith(b"}\n")


def test_a_report_of_a_newer_minor_version_is_read_with_unknown_fields_ignored(tmp_path):
    text = (DATA / "report-1.0.json").read_text().replace('"envkit-report": "1.0"', '"envkit-report": "1.9", "new": 1')
    (tmp_path / "r.json").write_text(text)
    assert report.read(tmp_path / "r.json").versions["torch"] == "2.13.0+cpu"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not JSON"),
        ("[]", "not an envkit report"),
        ('{"name": "x"}', "not an envkit report"),
        ('{"envkit-report": "2.0"}', "newer than this envkit"),
        ('{"envkit-report": "x"}', "no version"),
        ('{"envkit-report": "1.0", "envkit": 1}', "do not fit the format"),
    ],
)
def test_other_files_are_refused_with_the_reason(text, said, tmp_path):
    path = tmp_path / "r.json"
    path.write_text(text)
    with pytest.raises(InputError, match=said):
        report.read(path)


def test_all_fields_that_do_not_fit_are_told_with_their_paths(tmp_path):
    text = (DATA / "report-1.0.json").read_text()
    wrong = text.replace('"system": "Linux"', '"system": 3').replace('"workload": "latency"', '"workload": null', 1)
    (tmp_path / "r.json").write_text(wrong)
    with pytest.raises(InputError) as caught:
        report.read(tmp_path / "r.json")
    assert [detail.rpartition("`$")[2] for detail in caught.value.details] == [".host.system`", ".points[0].workload`"]


def test_the_schema_that_is_shipped_is_the_one_of_the_records():
    """To renew it: python -c 'from envkit import report; print(report.schema().decode(), end="")'."""
    assert (places.data("report-1.2.schema.json")).read_bytes() == report.schema()


def test_the_golden_report_holds_no_path_of_a_machine():
    text = (DATA / "report-1.0.json").read_text()
    assert "/root" not in text
    assert "/home" not in text
    assert "/tmp" not in text
