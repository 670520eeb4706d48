"""The text of the page; statements are computed from the numbers, so that the page claims only what was measured."""

from vadam.demo import digits, ellipses, tabular, wave
from vadam.demo.methods import INIT_PRECISION_FACTOR, METHODS
from vadam.demo.regression import BATCH_SIZE, DRAWS, FINAL_RATE
from vadam.demo.trainings import RAW, Results, Size
from vadam.demo.wave import Band
from vadam.report.html import Table, listed

WIDER = 1.5  # a band counts as wider if the ratio of standard deviations is at least this

STOPPED = "The demo was stopped early: missing methods were not trained."

DIFF_BEFORE = "<p>Replace one line and attach the model; afterwards any prediction has an uncertainty:</p>"

DIFF = """\
-opt = torch.optim.Adam(model.parameters(), lr=1e-3)
+opt = vadam.Vadam(model.parameters(), lr=1e-3, num_data=N, batch_size=M)
+opt.attach(model)                       # N = len(train_set), M = batch size

 for x, y in loader:                     # the loop stays as it is
     opt.zero_grad()
     loss_fn(model(x), y).backward()     # mean negative log-likelihood
     opt.step()

+post = opt.posterior(model)             # mean and precision of every weight
+pred = vadam.predict(model, post, x_new, likelihood=vadam.Categorical())
+pred.probs, pred.entropy                # class probabilities, uncertainty
"""

DIFF_AFTER = (
    "<p>For regression the likelihood is <code>vadam.Gaussian(noise_precision)</code>, with <code>pred.mean</code>, "
    "<code>pred.epistemic</code> and <code>pred.interval(0.9)</code>. <code>MSELoss</code> alone means noise of precision 2.</p>"
)

DIGITS = (
    f"<p>One network by AdamW and one by Vadam, on {digits.TRAINING_IMAGES} handwritten digits: the same start, minibatches, rate and "
    "number of steps. Vadam’s other settings are those of <code>vadam.from_adam</code>, not tuned here. How sure are the predictions "
    f"for the {1797 - digits.TRAINING_IMAGES:,} other digits, and for images that are no digits?</p>"
)

DIGIT_SCORES = {
    "accuracy, %": (lambda doubt: 100 * doubt.accuracy, 2, True),
    "NLL": (lambda doubt: doubt.nll, 3, False),
    "calibration error, %": (lambda doubt: 100 * doubt.ece, 2, False),
    "answered at 1 % error, %": (lambda doubt: 100 * doubt.answered, 1, True),
    "error at 80 % answered, %": (lambda doubt: 100 * doubt.error_at_coverage, 2, False),
    "AUROC (inverted)": (lambda doubt: doubt.auroc["inverted"], 3, True),
    "AUROC (on their side)": (lambda doubt: doubt.auroc["on their side"], 3, True),
    "AUROC (noise)": (lambda doubt: doubt.auroc["noise"], 3, True),
    "seconds of training": (lambda doubt: doubt.seconds, 1, False),
}
"""Scores of the digits: how to read each, its digits, and True if higher is better."""

GAP = (
    "<p>Eighty noisy points of a sine curve, none of them in the shaded gap and none beyond ±4.5. A network should be "
    "uncertain there. MAP-Adam is one network trained as usual and cannot show it: its band is the noise, the same "
    "everywhere. The other methods learn a distribution over the weights.</p>"
)

GAP_KEY = (
    "<p>Line: the mean. Band: the 90 % interval for a new observation. Dotted: the curve that the points came from.</p>"
    f"<p>The networks have one hidden layer of {wave.HIDDEN} tanh units and see x through {wave.BINS} soft bins, bumps of "
    "width 0.6. Weights of bins without data keep their prior, so the band can widen there. This choice matters: "
    f"“{RAW}” is Vadam with the same hidden layer on x itself. Far outside its units saturate, and the posterior is as "
    "certain there as among the data. Without the bins it can fail in the gap too: on a cubic with a gap, tanh and ReLU "
    "networks of one and two layers that fitted the data were about as certain in the middle of the gap as among the "
    "data, most of them more certain. A posterior of independent weights ignores their correlations, which makes many "
    "networks overconfident between data (Foong et al. 2020).</p>"
)

GAP_SCORES = (
    f"200 new points spread evenly over [−{wave.EDGE}, {wave.EDGE}], gap and far ends included. Log-likelihood is in nats per "
    "point; higher is better. “More certain half”: the half of the points with the smaller epistemic standard deviation."
)

POSTERIOR = (
    "<p>With two weights the true posterior can be computed on a grid (grey: regions that hold 90, 50 and 10 % of it). "
    "MF-Exact is the best Gaussian with independent weights, found by Newton’s method. VOGN and Vadam approximate it by "
    "perturbing weights. With one example per step (M = 1) Vadam comes close, as the paper says. With ten (M = 10) it is "
    "farther away: it squares the mean of the ten gradients, where VOGN takes the mean of their squares. The square of "
    "a mean is smaller, so Vadam’s ellipse is too wide. Use VOGN, or Vadam with small minibatches. "
    "This is one run of each: over four other seeds VOGN ended 0.01 to 0.03 nats away, Vadam 0.02 to 0.11 at M = 1 "
    "and 3.0 to 3.3 at M = 10.</p>"
)

TABULAR = {"boston": "Boston", "concrete": "Concrete"}

TARGETS = {
    "boston": "The median price of homes in 506 districts around Boston, in 1000 $, from 13 columns",
    "concrete": "The compressive strength of 1030 samples of concrete, in MPa, from 8 columns",
}

SINGLE_NETWORK = (
    "With its noise measured on held-out rows, a single network is hard to beat on a small table. A posterior of "
    "independent weights tends to underfit such tables: in the paper’s Table 1 it is behind MC-Dropout."
)

SETTINGS = (
    "<p>All choices are fixed, and the same for every method unless the table says otherwise. The rates were chosen on "
    "training rows of Boston and Concrete, a fifth of them held out, never on test rows. The curve and its network were "
    "chosen from about a dozen combinations because the band widens there. The rates and the prior of the logistic "
    "regression were chosen from a few by the distance from MF-Exact. These two sections illustrate; they do not compare "
    "tuned methods. Everything is one seed. Seconds are the training time on this machine: with networks this small they "
    "measure the overhead of a step more than its arithmetic.</p>"
)


def widening(band: Band) -> str:
    """Say where a band is wider than among the data."""
    if not band.among_data:
        return "no: it has no posterior"
    wider = {"in the gap": band.in_gap, "far outside": band.beyond}
    where = [place for place, width in wider.items() if width >= WIDER * band.among_data]
    return f"{' and '.join(where)}" if where else "no"


def tabular_text(name: str, results: Results) -> tuple[str, str]:
    """Return a paragraph about a table of data, and the caption of its scores."""
    rows = len(next(iter(results.intervals[name].values())).actual)
    noise = results.noise_precision[name] ** -0.5
    intro = (
        f"<p>{TARGETS[name]}: a ReLU network with {tabular.HIDDEN} hidden units, evaluated on the {rows} test rows of "
        "the first published split. Left: predictions with their 90 % intervals; rows outside their interval are grey. "
        "Right: the share of rows inside intervals of other levels.</p>"
        f"<p>{_best_sentence(name, results)} {_uncertainty_sentence(name, results)}</p>"
    )
    caption = (
        f"{rows} test rows, so one row is {1 / rows:.1%} of coverage. All methods assume noise as large as MAP-Adam’s errors on "
        f"held-out training rows ({noise:.2f} standard deviations of the target). Methods with a posterior add their "
        "epistemic uncertainty to it, which makes their intervals wider."
    )
    return intro, caption


def _best_sentence(name: str, results: Results) -> str:
    """Name the method with the highest log-likelihood; explain the first time that it is MAP-Adam."""
    best = _best(name, results)
    said = f"{best} has the highest log-likelihood here."
    first = next((table for table in TABULAR if results.scores.get(table) and _best(table, results) == best), name)
    return f"{said} {SINGLE_NETWORK}" if best == "MAP-Adam" and first == name else said


def _best(name: str, results: Results) -> str:
    scores = results.scores[name]
    return max(scores, key=lambda method: scores[method].log_likelihood)


def _uncertainty_sentence(name: str, results: Results) -> str:
    """Say how many methods make larger errors where their posterior is less certain."""
    halves = [score.rmse_halves for score in results.scores[name].values() if score.rmse_halves]
    if not halves:
        return ""
    right = sum(surer < other for surer, other in halves)
    return (
        f"For {right} of the {len(halves)} methods with a posterior, the errors are larger on the half of the rows where the "
        "posterior is less certain."
    )


def digits_table(results: Results) -> Table:
    """Return the scores on the digits, one row for each method."""
    rows = [
        (method, *(f"{read(doubt):.{places}f}" for read, places, _ in DIGIT_SCORES.values()))
        for method, doubt in results.digits.items()
    ]
    caption = (
        "Test digits. NLL is the negative log-likelihood; AUROC says how well the entropy detects inputs of another kind: 0.5 is chance, "
        "and below it the network is surer of them than of digits."
    )
    return Table(caption, ("method", *DIGIT_SCORES), rows)


def digits_verdict(results: Results) -> str:
    """Return a sentence that says which method is ahead in which score."""
    if len(results.digits) < len(digits.METHODS):
        return ""
    wins: dict[str, list[str]] = {method: [] for method in digits.METHODS}
    for title, (read, places, higher) in list(DIGIT_SCORES.items())[:-1]:  # seconds of one run say little
        first, second = (round(read(results.digits[method]), places) for method in digits.METHODS)
        if first != second:
            wins[digits.METHODS[(first > second) is not higher]].append(title.removesuffix(", %"))
    said = "; ".join(f"{method} is ahead in {listed(titles)}" for method, titles in wins.items() if titles)
    return f"<p>On this split {said}. One seed: small differences are chance.</p>"


def settings(size: Size) -> Table:
    """Return the table of settings."""
    regression = [(name, method.settings) for name, method in METHODS.items()]
    logistic = [(f"logistic regression: {name}", run.settings) for name, run in ellipses.RUNS.items()]
    rows = [
        (
            "prior precision λ",
            f"1; {wave.RAW_PRIOR_PRECISION} for the raw input; {ellipses.PRIOR_PRECISION} for the logistic regression",
        ),
        ("precision of q at the start", f"{INIT_PRECISION_FACTOR:.0f} λ; 1 for the logistic regression"),
        (
            "noise precision",
            "known for the curve; for the tables from MAP-Adam’s errors on a fifth of the training rows",
        ),
        ("steps", f"{size.regression}; {size.logistic} for the logistic regression; {size.digits} for the digits"),
        ("minibatch", f"{BATCH_SIZE} rows, one Monte-Carlo sample a step"),
        ("learning rate", f"falls linearly to {FINAL_RATE:.0%} of itself"),
        ("predictions", f"{DRAWS} draws from the posterior"),
        *regression,
        *logistic,
    ]
    return Table("Settings", ("setting", "value"), rows)
