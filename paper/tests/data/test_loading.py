"""The search order for a data set, and the errors for a missing or wrong one."""

import dataclasses
import hashlib

import numpy as np
import pytest

from vadam_paper import data
from vadam_paper.data import formats, registry
from vadam_paper.data.digest import of_values
from vadam_paper.data.spec import Dataset, File, InPackage, OnDisk

X, Y = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([-1.0, 1.0])
CSV = "1,2,-1\n3,4,1\n"


@pytest.fixture
def tiny(monkeypatch):
    """Register a two-row set on disk as ``tiny/tiny.csv``."""
    row = Dataset(
        name="tiny",
        task="binary",
        n=2,
        d=2,
        licence="none",
        address="http://example.org",
        sha256=of_values(data.Table(X, np.array([0.0, 1.0]), (), "")),
        classes=(-1, 1),
        on_disk=(OnDisk((File("tiny/tiny.csv", hashlib.sha256(CSV.encode()).hexdigest()),), formats.csv),),
    )
    monkeypatch.setitem(registry._BY_KEY, "tiny", row)
    return row


def put(folder, text=CSV):
    (folder / "tiny").mkdir(parents=True)
    (folder / "tiny" / "tiny.csv").write_text(text)
    return folder


def test_folders_are_searched_in_order(tiny, tmp_path, cache, monkeypatch):
    put(cache)
    assert data.locate("tiny").origin == "cache"
    monkeypatch.setenv("VADAM_DATA", str(put(tmp_path / "environment")))
    assert data.locate("tiny").origin == "VADAM_DATA"
    place = data.locate("tiny", put(tmp_path / "given"))
    assert (place.origin, place.where) == ("the given folder", str(tmp_path / "given" / "tiny" / "tiny.csv"))


def test_a_folder_without_the_set_is_passed_over(tiny, tmp_path, cache):
    put(cache)
    (tmp_path / "given").mkdir()
    assert data.check("tiny", tmp_path / "given").origin == "cache"


def test_the_package_comes_after_the_folders(tiny, cache, monkeypatch):
    package = InPackage("numpy", "data", lambda: (X, Y), "numpy")
    monkeypatch.setitem(registry._BY_KEY, "tiny", dataclasses.replace(tiny, in_package=package))
    assert data.locate("tiny").origin == "package"
    assert data.locate("tiny").where == f"numpy {np.__version__}"
    put(cache)
    assert data.locate("tiny").origin == "cache"


def test_a_package_that_is_not_installed_is_named(tiny, monkeypatch):
    package = InPackage("some-package", "data", lambda: (X, Y), "a_module_nobody_has")
    monkeypatch.setitem(registry._BY_KEY, "tiny", dataclasses.replace(tiny, in_package=package, on_disk=()))
    with pytest.raises(data.DataNotAvailable, match=r'bundled with some-package \(pip install "vadam\[data\]"\)'):
        data.load("tiny")


def test_labels_become_class_numbers(tiny, cache):
    put(cache)
    table = data.load("tiny")
    np.testing.assert_array_equal(table.X, X)
    np.testing.assert_array_equal(table.y, [0.0, 1.0])
    assert (table.feature_names, table.target_name) == (("x1", "x2"), "y")
    with pytest.raises(dataclasses.FrozenInstanceError):
        table.X = X


def test_a_missing_set_says_where_it_was_searched_and_how_to_get_it(tiny, tmp_path, cache):
    assert not data.available("tiny")
    assert data.locate("tiny") is None
    for call in (data.load, data.get, data.check):
        with pytest.raises(data.DataNotAvailable) as caught:
            call("tiny", tmp_path)
        message = str(caught.value)
        assert f"{tmp_path} (the given folder), {cache} (cache) for tiny/tiny.csv" in message
        assert "To get it: put tiny/tiny.csv into a data folder." in message


def test_a_folder_that_does_not_exist_is_an_error(tiny, tmp_path, cache, monkeypatch):
    put(cache)
    with pytest.raises(data.DataNotAvailable, match=r"the given folder is '.*nowhere', which is not a folder"):
        data.load("tiny", tmp_path / "nowhere")
    monkeypatch.setenv("VADAM_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(data.DataNotAvailable, match=r"VADAM_DATA is '.*nowhere', which is not a folder"):
        data.available("tiny")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,2,-1\n3,4.000001,1\n", "does not hold the published values of 'tiny'"),
        ("1,2,-1\n", "does not hold the published values"),
        ("1,2,-1\n3,4,7\n", r"cannot be read as 'tiny' \(labels \[.*7.*\] are not in the classes"),
        ("<html>", "cannot be read as 'tiny'"),
    ],
)
def test_a_file_that_is_not_the_published_one_is_refused(tiny, cache, text, message):
    put(cache, text)
    for call in (data.load, data.check):
        with pytest.raises(data.ChecksumMismatch, match=message):
            call("tiny")


def test_a_damaged_archive_is_refused(cache):
    (cache / "uci").mkdir(parents=True)
    (cache / "uci" / "yacht.npz").write_bytes(b"PK\x03\x04 cut off")
    with pytest.raises(data.ChecksumMismatch, match=r"yacht.npz cannot be read as 'yacht'"):
        data.load("yacht", download=False)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_an_archive_with_a_changed_byte_is_refused(save, cache):
    (cache / "uci").mkdir(parents=True)
    path, random = cache / "uci" / "yacht.npz", np.random.default_rng(0)
    save(path, X=np.arange(12.0).reshape(2, 6), y=np.arange(2.0))
    content = path.read_bytes()
    for place in range(len(content)):
        change = int(random.integers(1, 256))
        path.write_bytes(content[:place] + bytes([content[place] ^ change]) + content[place + 1 :])
        with pytest.raises(data.ChecksumMismatch, match=r"yacht.npz"):
            data.load("yacht", download=False)


def test_nothing_is_fetched_without_leave():
    with pytest.raises(data.DataNotAvailable, match=r"To get it: download from https://cs\.stanford\.edu"):
        data.load("war-and-peace", download=False)


def test_the_cache_defaults_to_the_home_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("VADAM_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    put(tmp_path / ".cache" / "vadam")
    from vadam_paper.data import folders

    assert folders.cache() == tmp_path / ".cache" / "vadam"


@pytest.mark.parametrize(
    "content", [b"", b"MATLAB 5.0 MAT-file", bytes(300), b"MATLAB".ljust(126) + b"IM\xff\xff\xff\xff" * 40]
)
def test_a_damaged_matlab_file_is_refused_unread(content, cache):
    """Scipy raises an error of its own at most of them, and crashes at some."""
    (cache / "usps").mkdir(parents=True)
    (cache / "usps/usps_resampled.mat").write_bytes(content)
    with pytest.raises(data.ChecksumMismatch, match=r"cannot be read as 'usps-3vs5' .its sha256 is"):
        data.load("usps-3vs5", download=False)
