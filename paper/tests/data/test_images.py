import io
import zipfile

import numpy as np
import pytest

from vadam_paper import data


def png(path, pixels, mode=None):
    Image = pytest.importorskip("PIL.Image")
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.fromarray(pixels)
    (image.convert(mode) if mode else image).save(path)


def test_folder_of_classes(tmp_path):
    grey = np.random.default_rng(0).integers(0, 256, size=(3, 5, 4), dtype=np.uint8)
    png(tmp_path / "cat" / "b.png", grey[1])
    png(tmp_path / "cat" / "a.png", grey[0])
    png(tmp_path / "dog" / "a.png", grey[2])
    loaded = data.images(tmp_path)
    assert loaded.class_names == ("cat", "dog")
    np.testing.assert_array_equal(loaded.y, [0, 0, 1])
    np.testing.assert_array_equal(loaded.X, (grey / np.float32(255))[:, None])
    assert loaded.X.dtype == np.float32


def test_colour_comes_channels_first(tmp_path):
    colour = np.random.default_rng(0).integers(0, 256, size=(5, 4, 3), dtype=np.uint8)
    png(tmp_path / "cat" / "a.png", colour)
    png(tmp_path / "cat" / "b.png", colour, mode="RGBA")
    X = data.images(tmp_path).X
    assert X.shape == (2, 3, 5, 4)
    np.testing.assert_allclose(X[1].transpose(1, 2, 0) * 255, colour)


@pytest.mark.parametrize("shape", [(7, 5, 4), (7, 3, 5, 4)])
def test_npz(shape, tmp_path):
    X, y = np.random.default_rng(0).integers(0, 256, size=shape, dtype=np.uint8), np.arange(7) % 3
    np.savez(tmp_path / "set.npz", X=X, y=y)
    loaded = data.images(tmp_path / "set.npz")
    np.testing.assert_array_equal(loaded.X, X.reshape(7, -1, 5, 4) / np.float32(255))
    np.testing.assert_array_equal(loaded.y, y)
    assert loaded.class_names == ("0", "1", "2")


def test_floating_point_values_are_kept(tmp_path):
    X = np.linspace(-1, 1, 24).reshape(2, 3, 4)
    np.savez(tmp_path / "set.npz", X=X, y=[0, 1])
    np.testing.assert_array_equal(data.images(tmp_path / "set.npz").X[:, 0], X.astype(np.float32))


def test_errors_say_what_is_wrong(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"neither an .npz file nor a folder"):
        data.images(tmp_path / "nothing")
    np.savez(tmp_path / "a.npz", Z=np.zeros(3))
    with pytest.raises(ValueError, match="has no X and no y, only Z"):
        data.images(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", X=np.zeros((3, 2, 2)), y=[0, 1])
    with pytest.raises(ValueError, match=r"got X \(3, 1, 2, 2\) and y \(2,\)"):
        data.images(tmp_path / "b.npz")
    np.savez(tmp_path / "c.npz", X=np.zeros((1, 2, 2)), y=[-1])
    with pytest.raises(ValueError, match="class numbers from 0, got -1"):
        data.images(tmp_path / "c.npz")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="has no <class>"):
        data.images(tmp_path / "empty")


@pytest.mark.parametrize(
    ("X", "y", "says"),
    [
        (np.zeros((5, 16, 16, 3)), np.zeros(5), r"looks like \[n, h, w, c\]"),
        (np.full((5, 4, 4), np.nan), np.zeros(5), "80 values of X are not finite"),
        (np.zeros((5, 4, 4)), np.array([0, 1, 1.5, 0, 1]), "whole class numbers, got 1.5"),
        (np.zeros((5, 4, 4)), np.array(list("abcde")), "y must hold real numbers, got <U1"),
        (np.zeros((5, 4, 4), complex), np.zeros(5), "X must hold real numbers, got complex128"),
        (np.array([None] * 5), np.zeros(5), "X holds Python objects"),
    ],
)
def test_arrays_that_are_no_images_are_refused(X, y, says, tmp_path):
    np.savez(tmp_path / "set.npz", X=X, y=y)
    with pytest.raises(ValueError, match=says):
        data.images(tmp_path / "set.npz")


def test_what_is_no_archive_is_refused(tmp_path):
    (tmp_path / "set.npz").write_text("hello")
    with pytest.raises(ValueError, match=r"not an npz archive: write it with numpy.savez"):
        data.images(tmp_path / "set.npz")


def test_whole_numbers_in_floating_point_are_labels(tmp_path):
    np.savez(tmp_path / "set.npz", X=np.zeros((3, 4, 4)), y=np.array([0.0, 2.0, 1.0]))
    assert data.images(tmp_path / "set.npz").y.tolist() == [0, 2, 1]


def test_images_of_different_size_or_depth_are_refused(tmp_path):
    png(tmp_path / "sizes" / "cat" / "a.png", np.zeros((5, 4), np.uint8))
    png(tmp_path / "sizes" / "cat" / "b.png", np.zeros((4, 4), np.uint8))
    with pytest.raises(ValueError, match="differ in channels, height or width"):
        data.images(tmp_path / "sizes")
    png(tmp_path / "deep" / "cat" / "a.png", np.zeros((5, 4), np.uint16))
    with pytest.raises(ValueError, match="more than 8 bits per channel"):
        data.images(tmp_path / "deep")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_damaged_archive_is_refused(save, tmp_path):
    path, random = tmp_path / "set.npz", np.random.default_rng(0)
    save(path, X=np.arange(60.0).reshape(5, 3, 4), y=np.arange(5) % 2)
    content = path.read_bytes()
    refusals = []
    for place in range(len(content)):
        change = int(random.integers(1, 256))
        path.write_bytes(content[:place] + bytes([content[place] ^ change]) + content[place + 1 :])
        try:
            data.images(path)
        except ValueError as error:
            refusals.append(str(error))
    assert len(refusals) > len(content) // 2
    assert all(str(path) in refusal and "allow_pickle" not in refusal for refusal in refusals)


def test_an_archive_that_is_larger_than_any_memory_is_refused(tmp_path):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (2**60,)})
    with zipfile.ZipFile(tmp_path / "set.npz", "w") as archive:
        archive.writestr("X.npy", header.getvalue())
        archive.writestr("y.npy", header.getvalue())
    with pytest.raises(ValueError, match=r"set.npz: X cannot be read"):
        data.images(tmp_path / "set.npz")
