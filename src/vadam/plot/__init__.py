"""Figures of predictions and posteriors: each function draws into matplotlib axes and returns them.

    band(pred, x)            a curve with its uncertainty
    reliability(pred, y)     stated against observed frequencies
    rejection(pred, y)       the error of the answers that remain when the least certain are refused
    posterior(post)          mean, standard deviation and signal-to-noise ratio of the weights

``ax`` are the axes to draw into, e.g. of ``plt.subplots()``; without them a new figure is made. They need ``pip install
"vadam[plot]"``. ``vadam.plot.theme`` is the style of this project's own pages.
"""

from vadam.plot.posteriors import posterior
from vadam.plot.predictions import band, rejection, reliability

__all__ = ["band", "posterior", "rejection", "reliability"]
