"""Downloads against a local HTTP server that can cut connections, refuse, send wrong content and stall."""

import dataclasses
import hashlib
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from vadam_paper import data
from vadam_paper.data import registry
from vadam_paper.data.digest import of_bytes
from vadam_paper.data.download import fetch
from vadam_paper.data.spec import File

CONTENT = np.random.default_rng(0).bytes(300_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.ranges.append(self.headers.get("Range"))
        behaviour = self.server.behaviour
        if behaviour == "missing":
            self.send_error(404)
            return
        body, start = self.server.content, 0
        if self.headers.get("Range") and behaviour != "ignores ranges":
            start = int(self.headers["Range"].removeprefix("bytes=").rstrip("-"))
            if start >= len(body):
                self.send_error(416)
                return
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        else:
            self.send_response(200)
        if behaviour != "without length":
            self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        if behaviour == "slow":
            time.sleep(0.2)
        self.wfile.write(body[start : len(body) // 2 if behaviour == "cut" else None])

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        httpd.content, httpd.behaviour, httpd.ranges = CONTENT, "well", []
        httpd.url = f"http://127.0.0.1:{httpd.server_port}/file"
        thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield httpd
        httpd.shutdown()
        thread.join()


@pytest.fixture
def target(tmp_path):
    return tmp_path / "folder" / "file"


def part_of(target):
    return target.with_name("file.part")


def run(server, target, progress=None):
    fetch(server.url, target, sha256=SHA256, checksum=of_bytes, progress=progress)


@pytest.mark.parametrize("behaviour", ["well", "without length"])
def test_whole_file_with_progress(server, target, behaviour):
    server.behaviour = behaviour
    seen = []
    run(server, target, lambda done, total: seen.append((done, total)))
    assert target.read_bytes() == CONTENT
    assert not part_of(target).exists()
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1] == (len(CONTENT), None if behaviour == "without length" else len(CONTENT))


def test_a_file_that_is_there_is_not_fetched_again(server, target):
    run(server, target)
    run(server, target)
    assert len(server.ranges) == 1


def test_a_cut_connection_is_reported_and_resumed(server, target):
    server.behaviour = "cut"
    with pytest.raises(data.DownloadFailed, match=r"ended after 150000 of 300000 bytes. Run the same command again"):
        run(server, target)
    assert not target.exists()
    assert part_of(target).read_bytes() == CONTENT[:150_000]

    server.behaviour = "well"
    seen = []
    run(server, target, lambda done, total: seen.append((done, total)))
    assert target.read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=150000-"]
    assert seen[0][0] > 150_000
    assert seen[-1] == (300_000, 300_000)


def test_a_connection_lost_while_reading_is_reported(server, target, monkeypatch):
    def lost(self, amount):
        raise ConnectionResetError("reset by peer")

    monkeypatch.setattr("http.client.HTTPResponse.read", lost)
    with pytest.raises(data.DownloadFailed, match="ended after 0 of 300000 bytes"):
        run(server, target)


@pytest.mark.parametrize("behaviour", ["well", "ignores ranges"])
@pytest.mark.parametrize("part", [CONTENT[:1000], b"of another version", CONTENT, CONTENT + b"more", b""])
def test_whatever_the_part_holds_the_result_is_the_file(server, target, part, behaviour):
    server.behaviour = behaviour
    target.parent.mkdir()
    part_of(target).write_bytes(part)
    run(server, target)
    assert target.read_bytes() == CONTENT
    if behaviour == "ignores ranges" or CONTENT.startswith(part):
        assert len(server.ranges) == 1


def test_a_wrong_checksum_is_refused_and_nothing_is_kept(server, target):
    server.content = b"<html>please log in</html>"
    with pytest.raises(data.ChecksumMismatch, match=f"sent a file with sha256 .*, but the published one has {SHA256}"):
        run(server, target)
    assert not target.exists()
    assert not part_of(target).exists()


def test_not_found(server, target):
    server.behaviour = "missing"
    with pytest.raises(data.DownloadFailed, match="answered 404 Not Found: the file may have moved"):
        run(server, target)


def test_no_network(target):
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    with pytest.raises(data.DownloadFailed, match=r"cannot be reached .*: check the network connection"):
        fetch(f"http://127.0.0.1:{port}/file", target, sha256=SHA256, checksum=of_bytes)


def test_no_folder_to_write_to(server, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(data.DownloadFailed, match="set VADAM_CACHE to one that you can write to"):
        run(server, tmp_path / "file" / "file")


def test_an_interruption_keeps_the_part(server, target):
    def interrupt(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(server, target, interrupt)
    assert CONTENT.startswith(part_of(target).read_bytes())
    run(server, target)
    assert target.read_bytes() == CONTENT
    assert server.ranges[1].startswith("bytes=")


def test_two_at_a_time_make_one_download(server, target):
    server.behaviour = "slow"
    threads = [threading.Thread(target=run, args=(server, target)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert target.read_bytes() == CONTENT
    assert len(server.ranges) == 1


@pytest.fixture
def war_and_peace(server, monkeypatch):
    """Return the registry's row with a short text at a local address."""
    row = registry.find("war-and-peace")
    (file,) = row.download.files
    form = dataclasses.replace(row.download, files=(File(file.path, SHA256, server.url),))
    monkeypatch.setitem(registry._BY_KEY, "war-and-peace", dataclasses.replace(row, on_disk=(form,), sha256=SHA256))


def test_load_downloads_into_the_cache_once(war_and_peace, server, cache):
    assert not data.available("war-and-peace")
    seen = []
    assert data.load("war-and-peace", progress=lambda *counts: seen.append(counts)).content == CONTENT
    assert seen[-1] == (300_000, 300_000)
    assert (cache / "text" / "war_and_peace.txt").read_bytes() == CONTENT
    assert data.get("war-and-peace").origin == data.check("war-and-peace").origin == "cache"
    assert len(server.ranges) == 1


def test_a_failed_download_says_what_to_do(war_and_peace, server, cache):
    server.behaviour = "missing"
    with pytest.raises(data.DataNotAvailable) as caught:
        data.load("war-and-peace")
    message = str(caught.value)
    assert "'war-and-peace' could not be downloaded" in message
    assert "404 Not Found" in message
    assert f"put the file at {cache / 'text' / 'war_and_peace.txt'}" in message
    assert "or set VADAM_DATA to a folder that has text/war_and_peace.txt" in message
