"""The page: complete, self-contained, well-formed; and what its parts do with odd input."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from vadam.report import html
from vadam_paper.experiments import experiments, find
from vadam_paper.experiments.ledger import Claim, Entry, Evidence, Verdict
from vadam_paper.experiments.runner import run, run_folder
from vadam_paper.experiments.tables import Table
from vadam_paper.report import build, claims, markdown
from vadam_paper.report.build import as_json

VOID = {"meta", "link", "input", "br", "img", "hr"}


class Reader(HTMLParser):
    """Collect what the tests ask for, and fail if tags do not match."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.ids += [given["id"] or ""] if "id" in given else []
        self.links += [given[name] or "" for name in ("href", "src", "xlink:href") if name in given]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    return reader


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a report on smoke runs of the two experiments that need no data; the others have no results."""
    root = tmp_path_factory.mktemp("report")
    for name in ("theory", "local-minima"):
        experiment = find(name)
        run(experiment, experiment.config("smoke", "text"), root / "results")
    build(root / "results", root / "out")
    return root / "out"


def test_the_page_is_well_formed_and_its_ids_are_unique(folder: Path) -> None:
    reader = read((folder / "index.html").read_text())
    assert len(reader.ids) == len(set(reader.ids))
    inner = {link[1:] for link in reader.links if link.startswith("#")}
    assert inner <= set(reader.ids)


def test_the_page_needs_no_network(folder: Path) -> None:
    text = (folder / "index.html").read_text()
    reader = read(text)
    for link in reader.links:
        assert link.startswith(("#", "data:", "figures/")), link
    outside = text.replace("http://www.w3.org/", "").replace("https://www.w3.org/", "")
    assert "http://" not in outside
    assert "https://" not in outside
    for link in reader.links:
        assert not link.startswith("figures/") or (folder / link).exists()


def test_every_claim_and_every_artefact_stands_on_it(folder: Path) -> None:
    reader = read((folder / "index.html").read_text())
    for experiment in experiments():
        assert experiment.name in reader.ids
        for claim in experiment.claims:
            assert f"claim-{claim.id}" in reader.ids
    written = json.loads((folder / "ledger.json").read_text())
    assert len(written["claims"]) == sum(len(e.claims) for e in experiments())
    assert written["counts"]["not run"] == sum(not claim["beyond_paper"] for claim in written["claims"])


def test_aims_beyond_the_paper_have_a_table_of_their_own(folder: Path) -> None:
    page = (folder / "index.html").read_text()
    paper, beyond = page.split('<section id="beyond">')
    aims = [claim.id for e in experiments() for claim in e.claims if claim.where == f"Aim of {e.name}"]
    assert aims
    for claim in aims:
        assert f'id="claim-{claim}"' not in paper
        assert f'id="claim-{claim}"' in beyond
    count = sum(len(e.claims) for e in experiments()) - len(aims)
    assert f"of {count} claims" in paper
    assert "none about it" in paper


def test_the_summary_tells_verdicts_on_published_data_from_claims() -> None:
    """Two runs of one claim are two verdicts."""
    yes, maybe = Evidence(Verdict.SUPPORTED, ""), Evidence(Verdict.UNDECIDED, "")
    claim = Claim("a", "§1", "It holds.")
    rows = [
        Entry("theory", "Theorem 1", claim, yes, shipped) for shipped in ({"1": yes, "2": maybe}, {"boxes": yes}, {})
    ]
    said = "give 3 verdicts on 2 of the claims (1 of them in two published runs): 2 supported, 1 undecided."
    assert said in claims.summary(rows)


def test_the_page_names_the_commits_of_the_rows(tmp_path: Path) -> None:
    experiment = find("theory")
    config = experiment.config("smoke", "text")
    run(experiment, config, tmp_path / "results")
    path = run_folder(tmp_path / "results", config) / "rows.jsonl"
    first, second, *rest = (json.loads(line) for line in path.read_text().splitlines())
    del first["commit"]
    rows = [first | {"landed": "0123456789ab"}, second | {"commit": "ba9876543210"}, *rest]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    page = build(tmp_path / "results", tmp_path / "out", (experiment,)).read_text()
    assert "0123456789ab" in page
    assert "ba9876543210" in page


def test_a_decided_claim_does_not_say_what_would_decide_it() -> None:
    claim = Claim("a", "§1", "It holds.")
    rows = [Entry("theory", "Theorem 1", claim, Evidence(v, "by 1e-17 [-2, 3-4]", "More seeds.")) for v in Verdict]
    rows = [claims.ledger([row], ()) for row in rows]
    assert ["More seeds." in row for row in rows] == [v in (Verdict.UNDECIDED, Verdict.NOT_RUN) for v in Verdict]
    assert all("by 1e−17 [−2, 3-4]" in row for row in rows)


def test_published_data_say_what_would_decide_them_too() -> None:
    yes, maybe = Evidence(Verdict.SUPPORTED, "", "More seeds."), Evidence(Verdict.UNDECIDED, "", "Another run.")
    entry = Entry("theory", "Theorem 1", Claim("a", "§1", "It holds."), yes, {"1": yes, "2": maybe})
    page = claims.ledger([entry], ())
    assert "Another run." in page
    assert "More seeds." not in page
    (row,) = as_json([entry])["claims"]
    assert [run["would_decide"] for run in (row, *row["published_data"].values())] == ["", "", "Another run."]


def test_figures_are_written_as_png_and_svg(folder: Path) -> None:
    names = {path.name for path in (folder / "figures").iterdir()}
    assert {"theory-theory.png", "theory-theory.svg", "local-minima-paths.png", "local-minima-paths.svg"} <= names
    assert (folder / "figures" / "theory-theory.png").read_bytes().startswith(b"\x89PNG")
    assert "currentColor" not in (folder / "figures" / "theory-theory.svg").read_text()  # readable on its own


def test_the_page_stays_small(folder: Path) -> None:
    assert (folder / "index.html").stat().st_size < 1_500_000


def test_a_page_without_results_says_what_to_do(tmp_path: Path) -> None:
    page = build(tmp_path / "nothing", tmp_path / "out").read_text()
    assert "vadam reproduce theory" in page
    read(page)


def test_text_is_escaped() -> None:
    table = Table("a < b", ("x", "y"), [("<script>", 'say "hi" & go')])
    assert "<script>" not in html.table(table)
    assert "&lt;script&gt;" in html.table(table)
    assert html.fill("{{a}} {b}", a="{{b}}") == "{{b}} {b}"


SCRIPT = "</script><script>document.title = 'owned'</script><!-- & \u2028\u2029"


def test_json_in_a_script_block_cannot_end_it() -> None:
    written = html.json_script({SCRIPT: SCRIPT})
    assert not set("<>&\u2028\u2029") & set(written)
    assert json.loads(written) == {SCRIPT: SCRIPT}


def test_text_in_a_recorded_row_does_not_run(tmp_path: Path) -> None:
    experiment = find("local-minima")
    config = experiment.config("smoke", "text")
    run(experiment, config, tmp_path / "results")
    rows = run_folder(tmp_path / "results", config) / "rows.jsonl"
    lines = [json.loads(line) for line in rows.read_text().splitlines()]
    paths = next(line for line in lines if line["cell"] == "paths")
    paths["result"]["variational"]["stddev"][0] = SCRIPT
    rows.write_text("".join(json.dumps(line) + "\n" for line in lines))
    page = build(tmp_path / "results", tmp_path / "out", (experiment,)).read_text()
    assert "owned" in page
    assert page.count("<script") == page.count("</script>") == 2  # the data of the player and the program of the page


def test_only_one_function_writes_json_into_pages() -> None:
    for path in Path(html.__file__).parents[1].rglob("*.py"):
        for block in re.findall(r"<script[^>]*>([^<]*)</script>", path.read_text()):
            assert block.startswith("{html.json_script("), path


def test_a_table_without_rows_is_left_out() -> None:
    assert html.table(Table("", ("x",), [])) == ""


def test_readme_sections() -> None:
    found = markdown.sections("# t\n\n## One\n\n*a*\n\n## Two\n\n1. b\n2. c\n")
    assert found["One"].strip() == "<p><em>a</em></p>"
    assert found["Two"].count("<li>") == 2
