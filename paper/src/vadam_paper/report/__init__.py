"""Turn recorded results into one static page: the claims ledger, then figure, table and deviations of each artefact.

``build(results, out)`` writes ``out/index.html``, which needs no network and no server, the figures beside it as PNG and
SVG, and the ledger as JSON.
"""

from vadam_paper.report.build import build

__all__ = ["build"]
