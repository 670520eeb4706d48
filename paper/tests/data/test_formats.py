import bz2
import zipfile

import numpy as np
import pytest

from vadam_paper.data import digest, formats
from vadam_paper.data.table import Table, Text


def test_libsvm_fills_zeros_and_joins_files(tmp_path):
    plain, packed = tmp_path / "a", tmp_path / "b.bz2"
    plain.write_text("+1 1:0.5 3:-2 \r\n\r\n-1 \n")
    packed.write_bytes(bz2.compress(b"3 2:1e-3\n"))
    X, y = formats.libsvm(plain, packed, d=3)
    np.testing.assert_array_equal(X, [[0.5, 0, -2], [0, 0, 0], [0, 1e-3, 0]])
    np.testing.assert_array_equal(y, [1, -1, 3])


def test_columns_leave_out_what_follows_the_target(tmp_path):
    path = tmp_path / "data.txt"
    path.write_text("1 2\t3 9\n 4 5 6 9\n")
    X, y = formats.columns(path, d=2)
    np.testing.assert_array_equal(X, [[1, 2], [4, 5]])
    np.testing.assert_array_equal(y, [3, 6])


def test_csv_skips_comments(tmp_path):
    path = tmp_path / "toy.csv"
    path.write_text("# x1,x2,y\n1,2,-1\n")
    X, y = formats.csv(path)
    np.testing.assert_array_equal(X, [[1, 2]])
    np.testing.assert_array_equal(y, [-1])


def test_a_digit_pair_of_the_matlab_file(tmp_path):
    savemat = pytest.importorskip("scipy.io").savemat
    rng = np.random.default_rng(0)
    digit = rng.integers(0, 10, size=40)
    images = rng.normal(size=(40, 256))
    labels = np.where(digit == np.arange(10)[:, None], 1, -1).astype(np.int16)
    parts = {"train_patterns": images[:25].T, "test_patterns": images[25:].T}
    savemat(tmp_path / "u.mat", {**parts, "train_labels": labels[:, :25], "test_labels": labels[:, 25:]})
    X, y = formats.digit_pair_mat(tmp_path / "u.mat", digits=(3, 5))
    wanted = [i for i in range(40) if digit[i] in (3, 5)]
    np.testing.assert_array_equal(X, images[wanted])
    np.testing.assert_array_equal(y, digit[wanted])


def test_checksum_of_fields_ignores_line_ends_only(tmp_path):
    clean, windows, other = tmp_path / "clean", tmp_path / "windows", tmp_path / "other"
    clean.write_bytes(b"+1 1:2 \n-1 1:3 \n")
    windows.write_bytes(b"+1  1:2\r\n\r\n-1 1:3")
    other.write_bytes(b"+1 1:2 -1\n1:3 \n")
    assert digest.of_fields(clean) == digest.of_fields(windows)
    assert digest.of_fields(clean) != digest.of_fields(other)
    assert digest.of_bytes(clean) != digest.of_bytes(windows)


def test_checksum_of_values_sees_every_value_but_not_the_memory_layout():
    X, y = np.arange(6.0).reshape(3, 2), np.arange(3)
    table = Table(X, y, ("a", "b"), "y")
    assert digest.of_values(Table(np.asfortranarray(X), y.astype(float), (), "")) == digest.of_values(table)
    assert digest.of_values(Table(X + np.eye(3, 2) * 1e-12, y, (), "")) != digest.of_values(table)
    assert digest.of_values(Table(X, y[::-1], (), "")) != digest.of_values(table)
    assert digest.of_values(Text(b"")) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@pytest.mark.parametrize("damage", ["a pickle", "announces more"])
def test_damaged_archives_are_refused(tmp_path, damage):
    path = tmp_path / "data.npz"
    np.savez(path, X=np.ones((3, 2)), y=np.zeros(3))
    np.testing.assert_array_equal(formats.uci_npz(path)[0], np.ones((3, 2)))
    if damage == "a pickle":
        path.write_bytes(np.ones(3).dumps())
    else:
        with zipfile.ZipFile(path) as archive:
            content = archive.read("X.npy").replace(b"(3, 2), }      ", b"(300000000, 2)}")
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("X.npy", content)
    with pytest.raises(ValueError, match="not an archive of arrays" if damage == "a pickle" else "the file is damaged"):
        formats.uci_npz(path)
