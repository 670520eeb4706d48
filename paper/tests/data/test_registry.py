import dataclasses

import pytest

from vadam_paper import data
from vadam_paper.data import registry

UCI = {
    "boston": (506, 13),
    "concrete": (1030, 8),
    "energy": (768, 8),
    "kin8nm": (8192, 8),
    "naval": (11934, 16),
    "power": (9568, 4),
    "wine": (1599, 11),
    "yacht": (308, 6),
}
OTHERS = {
    "diabetes": (442, 10),
    "cubic-gap": (100, 1),
    "australian": (690, 14),
    "breast-cancer": (683, 10),
    "usps": (9298, 256),
    "usps-3vs5": (1540, 256),
    "usps-2vs4": (1781, 256),
    "digits": (1797, 64),
    "murphy": (60, 2),
    "murphy-like": (60, 2),
    "war-and-peace": (3258246, 87),
}


def test_sizes_are_the_published_ones():
    assert {name: (row.n, row.d) for name, row in registry.DATASETS.items()} == UCI | OTHERS


@pytest.mark.parametrize("row", registry.DATASETS.values(), ids=lambda row: row.name)
def test_rows_are_complete(row):
    assert row.licence
    assert row.address.startswith("http")
    assert row.how_to_get
    assert row.feature_names == () or len(row.feature_names) == row.d
    assert (row.sha256 is None) == (row.generate is not None)
    assert row.on_disk or row.in_package or row.generate
    for form in row.on_disk:
        assert all(len(file.sha256) == 64 for file in form.files)
    with pytest.raises(dataclasses.FrozenInstanceError):
        row.n = 1


def test_one_form_at_most_can_be_downloaded_and_only_over_https():
    for row in registry.DATASETS.values():
        forms = [form for form in row.on_disk if form.downloadable]
        assert len(forms) <= 1
        assert all(str(file.url).startswith("https://") for form in forms for file in form.files)


def test_only_the_toy_set_has_no_public_file():
    missing = [row.name for row in registry.DATASETS.values() if not (row.download or row.in_package or row.generate)]
    assert missing == ["murphy"]


@pytest.mark.parametrize(
    ("spelling", "name"),
    [("bostonHousing", "boston"), ("Boston", "boston"), ("australian_scale", "australian"), ("usps_3vs5", "usps-3vs5")],
)
def test_published_file_names_are_understood(spelling, name):
    assert registry.find(spelling).name == name


def test_unknown_names_get_a_suggestion():
    with pytest.raises(
        data.UnknownDataset, match=r"no data set is named 'bostn': did you mean 'boston'\? known are boston"
    ):
        data.load("bostn")
    with pytest.raises(data.UnknownDataset, match="no data set is named 'zzzzzz': known are"):
        data.splits("zzzzzz")
