"""Answers: the same question in other words has the same answer. A wrong number that nobody notices is the worst failure."""

from torture import bad_tables, same_curvatures, same_predictions, same_scores, same_tables, same_trainings
from torture.case import Break, Kind, Part

KIND = Kind(
    "answers",
    "The same question in other words has the same answer, and one that scipy or scikit-learn can also compute is theirs.",
    "answers",
    1_500,
    20_000,
    {
        "trainings": Part(same_trainings.trainings, share=25, cases_per_process=10),
        "curvatures": Part(same_curvatures.curvatures, share=15, cases_per_process=20),
        "predictions": Part(same_predictions.predictions, share=35, cases_per_process=20),
        "scores": Part(same_scores.scores, share=25, cases_per_process=20),
        "tables": Part(same_tables.tables, share=15, cases_per_process=2),
    },
    warm=bad_tables.warm,
    breaks=(
        Break(
            "src/vadam/optim/rescaling.py",
            "    if before.equal(now):\n",
            "    if True:\n",
            "trainings",
            "a loss that mixed precision scales gives another posterior",
        ),
        Break(
            "src/vadam/module_state.py",
            "            module.training = False\n",
            "            pass\n",
            "predictions",
            "a prediction of a network in training mode has dropout, and depends on the other rows of its batch",
        ),
        Break(
            "src/vadam/metrics/classes.py",
            "    mean_rank = (count.cumsum(0) - (count - 1) / 2)[value]\n",
            "    mean_rank = count.cumsum(0)[value]\n",
            "scores",
            "ties count as if the model had ranked them right",
        ),
        Break(
            "src/vadam/cli/number_texts.py",
            '    plain = matching.str.replace(".", "", regex=False).str.replace(",", ".", regex=False)\n',
            '    plain = matching.str.replace(",", "", regex=False)\n',
            "tables",
            "1.234,50 between semicolons is read as a little more than one",
        ),
    ),
)
