"""Bad input: generated arguments, tensors, tables, calls and damaged files."""

from torture import bad_arguments, bad_files, bad_tables, bad_tensors
from torture.case import Break, Kind, Part


def warm() -> None:
    """Import what the commands need, and make the files that cases damage."""
    bad_tables.warm()
    bad_files.warm()


KIND = Kind(
    "bad_input",
    "Wrong input is refused in words and changes nothing; what is accepted gives sound numbers. No command ends in a traceback.",
    "cases",
    3_000,
    10_000,
    {
        "arguments": Part(bad_arguments.arguments, share=30, cases_per_process=5),
        "tensors": Part(bad_tensors.tensors, share=25, cases_per_process=5),
        "files": Part(bad_files.files, share=20, cases_per_process=1),
        "checkpoints": Part(bad_files.states, share=12, cases_per_process=5),
        "journals": Part(bad_files.journals, share=5, cases_per_process=2),
        "results": Part(bad_files.results_part, share=4, cases_per_process=1, seconds=400),
        "tables": Part(bad_tables.tables_part, share=2, cases_per_process=2, seconds=600),
        "commands": Part(bad_tables.calls_part, share=2, cases_per_process=2, seconds=600),
    },
    warm=warm,
    breaks=(
        Break(
            "src/vadam/persist.py",
            "            _check_seal(content)\n",
            "            pass\n",
            "files",
            "a posterior in which a bit has flipped loads and predicts other numbers",
        ),
        Break(
            "src/vadam/optim/resume.py",
            '            self.__dict__["state"], self.__dict__["param_groups"], self._skipped, random = before\n',
            "            random = before[-1]\n",
            "checkpoints",
            "a damaged checkpoint is refused, but half of it was loaded",
        ),
    ),
)
