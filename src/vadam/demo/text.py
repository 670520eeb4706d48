"""What the page says. Verdicts come from the numbers, so that the page cannot promise what was not measured."""

from vadam.demo import ellipses, tabular, wave
from vadam.demo.methods import METHODS, SHARPNESS
from vadam.demo.plan import RAW, Results, Size
from vadam.demo.regression import BATCH_SIZE, DRAWS, LAST_RATE
from vadam.demo.wave import Band
from vadam.report.html import Table

WIDER = 1.5  # a band counts as wider from this ratio of standard deviations

STOPPED = "The demo was stopped early: what is missing here was not trained."

DIFF_BEFORE = "<p>One import, and one line for another:</p>"

DIFF = """\
+import vadam

-opt = torch.optim.Adam(model.parameters(), lr=1e-3)
+opt = vadam.Vadam(model.parameters(), lr=1e-3, num_data=len(train_set)).attach(model)

 for x, y in loader:                     # the loop stays as it is
     opt.zero_grad()
     loss_fn(model(x), y).backward()     # the mean negative log-likelihood
     opt.step()
"""

DIFF_AFTER = "<p>Afterwards, any prediction comes with its uncertainty:</p>"

PREDICTION = """\
post = opt.posterior(model)              # mean and precision of every weight
pred = vadam.predict(model, post, x_new)
pred.mean, pred.epistemic                # the answer, and how unsure of it the posterior is
"""

GAP = (
    "<p>Eighty noisy points of a sine curve, none of them in the shaded gap and none beyond ±4.5. A network should be unsure "
    "there. MAP-Adam, one network trained as usual, cannot say so: its band is the noise, everywhere the same. The others "
    "learn a distribution over the weights.</p>"
)

GAP_KEY = (
    "<p>Line: the mean. Band: the 90 % interval for a new observation. Dotted: the curve that the points came from.</p>"
    f"<p>The networks have one hidden layer of {wave.HIDDEN} tanh units and see x through {wave.BINS} soft bins, bumps of "
    "width 0.6: weights of bins without data keep their prior, so the band can widen there. That is a choice, and it "
    f"matters: “{RAW}” is Vadam with the same hidden layer on x itself. Far outside its units saturate, and the posterior "
    "is as sure there as among the data. Without the bins it can fail in the gap too: on a cubic with a "
    "gap, tanh and ReLU networks of one and two layers that fitted the data were about as sure in the middle of the gap as "
    "among the data, most of them surer. An optimizer finds a posterior of the network it is given. And a posterior of "
    "independent weights leaves their correlations out, which makes many networks too sure between data (Foong et al. "
    "2020).</p>"
)

GAP_SCORES = (
    f"200 new points spread evenly over [−{wave.EDGE}, {wave.EDGE}], gap and far ends included. Log-likelihood is in nats a "
    "point, the higher the better. “Surer half”: the half of the points where the method is surest of its function."
)

POSTERIOR = (
    "<p>With two weights the true posterior can be computed on a grid (grey: regions that hold 90, 50 and 10 % of it). "
    "MF-Exact is the best Gaussian with independent weights, found by Newton’s method. VOGN and Vadam find it by "
    "perturbing weights. With one example a step (M = 1) Vadam comes close, as the paper says. With ten (M = 10) it is "
    "farther off: it squares the mean of the ten gradients, where VOGN takes the mean of their squares, and the square of a "
    "mean is smaller, so its ellipse is too wide. That is what VOGN is for, and why Vadam likes small minibatches. "
    "This is one run of each: over four other seeds VOGN ended 0.01 to 0.03 nats away, Vadam 0.02 to 0.11 at M = 1 "
    "and 3.0 to 3.3 at M = 10.</p>"
)

TABULAR = {"boston": "Boston", "concrete": "Concrete"}

TARGETS = {
    "boston": "The median price of homes in 506 districts around Boston, in 1000 $, from 13 columns",
    "concrete": "The compressive strength of 1030 samples of concrete, in MPa, from 8 columns",
}

SINGLE_NETWORK = (
    "With its noise measured on held-out rows a single network is hard to beat on a small table, and a posterior of "
    "independent weights tends to underfit one: in the paper’s Table 1 it stands behind MC-Dropout."
)

SETTINGS = (
    "<p>All choices are fixed, and the same for every method unless the table says otherwise. The rates were chosen on "
    "training rows of Boston and Concrete, a fifth of them held out, never on test rows. The curve and its network were "
    "picked out of about a dozen combinations because the band widens there, and the rates and the prior of the logistic "
    "regression out of a few by the distance from MF-Exact: those two sections show what can happen, they do not compare "
    "tuned methods. Everything is one seed. Seconds are those of training on this machine: with networks this small they measure "
    "the overhead of a step more than its arithmetic.</p>"
)


def widening(band: Band) -> str:
    if not band.among_data:
        return "no: it has no posterior"
    wider = {"in the gap": band.in_gap, "far outside": band.beyond}
    where = [place for place, width in wider.items() if width >= WIDER * band.among_data]
    return f"{' and '.join(where)}" if where else "no"


def tabular_text(name: str, results: Results) -> tuple[str, str]:
    """A paragraph, and the caption of the table."""
    rows = len(next(iter(results.intervals[name].values())).actual)
    noise = results.noise_precision[name] ** -0.5
    intro = (
        f"<p>{TARGETS[name]}: a ReLU network with {tabular.HIDDEN} hidden units, judged on the {rows} test rows of "
        "the first published split. Left: predictions with their 90 % intervals; rows outside theirs are not coloured. "
        "Right: what share of the rows lies in intervals of other levels.</p>"
        f"<p>{_compared(name, results)} {_told_apart(name, results)}</p>"
    )
    caption = (
        f"{rows} test rows, so one row is {1 / rows:.1%} of coverage. All methods assume noise as large as MAP-Adam’s errors on "
        f"held-out training rows ({noise:.2f} standard deviations of the target); those with a posterior add their own "
        "uncertainty to it, which makes them careful."
    )
    return intro, caption


def _compared(name: str, results: Results) -> str:
    """Who has the highest log-likelihood, whoever it is; where it is MAP-Adam, why, the first time."""
    best = _best(name, results)
    said = f"{best} has the highest log-likelihood here."
    first = next((table for table in TABULAR if results.scores.get(table) and _best(table, results) == best), name)
    return f"{said} {SINGLE_NETWORK}" if best == "MAP-Adam" and first == name else said


def _best(name: str, results: Results) -> str:
    scores = results.scores[name]
    return max(scores, key=lambda method: scores[method].log_likelihood)


def _told_apart(name: str, results: Results) -> str:
    """Whether errors are larger where a posterior is less sure."""
    halves = [score.rmse_halves for score in results.scores[name].values() if score.rmse_halves]
    if not halves:
        return ""
    right = sum(surer < other for surer, other in halves)
    return (
        f"What a posterior adds: for {right} of the {len(halves)} methods that have one, the errors are larger on the half of "
        "the rows where it is less sure."
    )


def settings(size: Size) -> Table:
    regression = [(name, method.settings) for name, method in METHODS.items()]
    logistic = [(f"logistic regression: {name}", run.settings) for name, run in ellipses.RUNS.items()]
    rows = [
        (
            "prior precision λ",
            f"1; {wave.RAW_PRIOR_PRECISION} for the raw input; {ellipses.PRIOR_PRECISION} for the logistic regression",
        ),
        ("precision of q at the start", f"{SHARPNESS:.0f} λ; 1 for the logistic regression"),
        (
            "noise precision",
            "known for the curve; for the tables from MAP-Adam’s errors on a fifth of the training rows",
        ),
        ("steps", f"{size.regression}; {size.logistic} for the logistic regression"),
        ("minibatch", f"{BATCH_SIZE} rows, one Monte-Carlo sample a step"),
        ("learning rate", f"falls linearly to {LAST_RATE:.0%} of itself"),
        ("predictions", f"{DRAWS} draws from the posterior"),
        *regression,
        *logistic,
    ]
    return Table("Settings", ("what", "value"), rows)
