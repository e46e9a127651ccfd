"""Runs in S3 (against moto's server) and in Google Cloud Storage (against an emulator)."""

from __future__ import annotations

import json

import pytest
from tests.runs.remote.test_cache import contents, published
from typer.testing import CliRunner

import fivestar
from fivestar.cli.main import app
from fivestar.errors import DamagedRun, DownloadFailed, OutputError, SourceNotFound
from fivestar.runs.remote import locate_run
from fivestar.runs.remote.address import parse_address
from fivestar.runs.remote.object_store import ObjectStore

SECRET = "verysecretkeyverysecretkey"  # noqa: S105
S3 = "s3://runs/some/people"
GS = "gs://runs/some/people"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def s3_server():
    """A server of S3, with a bucket; in a thread of this process."""
    pytest.importorskip("s3fs")
    moto = pytest.importorskip("moto.server")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    yield "http://{}:{}".format(*server.get_host_and_port())
    server.stop()


@pytest.fixture
def s3(s3_server, cache, monkeypatch):
    settings = {
        "AWS_ENDPOINT_URL": s3_server,
        "AWS_ACCESS_KEY_ID": "AKIAABCDEFGHIJKLMNOP",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_MAX_ATTEMPTS": "1",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    store = ObjectStore(parse_address(S3))
    store.files.makedir("runs")
    yield store.files
    store.files.rm("runs", recursive=True)


def test_a_run_in_s3(s3, runs):
    one, two = runs
    assert fivestar.push(one, S3).is_new
    found = {path.removeprefix("runs/some/people/"): s3.cat_file(path) for path in s3.find("runs")}
    assert found == published(one)
    assert contents(locate_run(S3)) == published(one)
    assert fivestar.load(S3).predict_tails("p1", "lives_in").as_json()
    assert not fivestar.push(one, S3).is_new
    with pytest.raises(OutputError, match="another run is there"):
        fivestar.push(two, S3)
    done = CliRunner().invoke(app, ["push", str(two), S3, "--force"])
    assert done.exit_code == 0, done.output
    assert contents(locate_run(S3)) == published(two)
    fivestar.push(one, S3, existing="replace")
    assert len(s3.find("runs")) == len(published(one))


def test_clear_errors_of_s3(s3, run, monkeypatch, cache):
    with pytest.raises(SourceNotFound, match=r"s3://runs/nothing: there is no run"):
        fivestar.load("s3://runs/nothing")
    with pytest.raises(SourceNotFound, match="there is no run"):
        fivestar.load("s3://no-such-bucket/people")
    with pytest.raises((OutputError, SourceNotFound), match="no-such-bucket"):
        fivestar.push(run, "s3://no-such-bucket/people")
    fivestar.push(run, S3)
    manifest = json.loads(s3.cat_file("runs/some/people/manifest.json"))
    manifest["files"]["../../evil"] = "0" * 64
    s3.pipe_file("runs/some/people/manifest.json", json.dumps(manifest).encode())
    with pytest.raises(DamagedRun, match="names a file that is refused"):
        fivestar.load(S3)
    fivestar.push(run, S3, existing="replace")
    s3.pipe_file("runs/some/people/graph/train.parquet", b"other")
    with pytest.raises(DamagedRun, match=r"graph/train\.parquet is not the file"):
        fivestar.load(S3)
    s3.rm_file("runs/some/people/graph/train.parquet")
    with pytest.raises(DamagedRun, match=r"graph/train\.parquet: is missing"):
        fivestar.load(S3)


def test_s3_without_network_or_credentials(s3, run, monkeypatch):
    fivestar.push(run, S3)
    folder = locate_run(S3)
    with monkeypatch.context() as changed:
        changed.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
        with pytest.warns(UserWarning, match="the store does not respond"):
            assert locate_run(S3) == folder
        with pytest.raises(DownloadFailed, match="s3://runs/other: the store does not respond"):
            locate_run("s3://runs/other")
        with pytest.raises(OutputError, match="the store does not respond"):
            fivestar.push(run, S3)
    with monkeypatch.context() as changed:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            changed.delenv(name)
        changed.setenv("HOME", str(folder))
        changed.setenv("AWS_SHARED_CREDENTIALS_FILE", str(folder / "none"))
        with pytest.raises(DownloadFailed, match="not allowed; check the address and your cred"):
            locate_run(S3)


def test_what_s3_denies(s3, run, monkeypatch):
    """A server that allows nothing, and repeats what it was sent."""

    def denied(self, path, **_):
        from botocore.exceptions import ClientError  # noqa: PLC0415

        code = {"Code": "AccessDenied", "Message": f"not you, {SECRET}"}
        answer = {"Error": code, "ResponseMetadata": {"HTTPStatusCode": 403}}
        from s3fs.errors import translate_boto_error  # noqa: PLC0415

        raise translate_boto_error(ClientError(answer, "HeadObject"))

    import s3fs  # noqa: PLC0415

    monkeypatch.setattr(s3fs.S3FileSystem, "info", denied)
    for call in (lambda: fivestar.load(S3), lambda: fivestar.push(run, S3)):
        with pytest.raises((DownloadFailed, OutputError), match="not allowed") as failed:
            call()
        assert SECRET not in str(failed.value)


@pytest.fixture
def gs(cache, monkeypatch):
    """An emulator of Google Cloud Storage, with a bucket."""
    pytest.importorskip("gcsfs")
    emulator = pytest.importorskip("gcp_storage_emulator.server")
    server = emulator.create_server("127.0.0.1", 0, in_memory=True, default_bucket="runs")
    server.start()
    port = server._api._httpd.server_port
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{port}")
    yield server
    server.stop()


def test_a_run_in_google_cloud_storage(gs, runs):
    one, two = runs
    assert fivestar.push(one, GS).is_new
    assert contents(locate_run(GS)) == published(one)
    fivestar.push(two, GS, existing="replace")
    assert contents(locate_run(GS)) == published(two)
    with pytest.raises(SourceNotFound, match="there is no run"):
        fivestar.load("gs://runs/nothing")
