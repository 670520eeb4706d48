"""Write docs/reliability.md: ``python -m torture.page [FILE ...]``.

Files are records of runs; they are joined into torture/results.json, from which the page follows. Without one, that file is used.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from torture import ROOT
from torture.__main__ import KINDS
from vadam import atomic

RECORD = ROOT / "torture" / "results.json"
PAGE = ROOT / "docs" / "reliability.md"
TITLES = {
    "kills": "Kills",
    "cuts": "Cuts",
    "signals": "Signals",
    "bad_input": "Bad input",
    "numbers": "Numbers",
    "distributed": "Many ranks",
    "pages": "Pages",
    "security": "Security",
    "soak": "Soak",
}
HEAD = """# Reliability

`make torture` attacks vadam for about ten minutes: it kills processes, interrupts steps, cuts trainings, damages files, gives
wrong arguments and extreme numbers, loses ranks, puts scripts into tables, and lets trainings run into exceptions. Every case
is repeatable: its kind, part, number and seed fix all random choices, and a failure is printed with the command that repeats it.

```text
make torture                                    about ten minutes on two cores
python -m torture --full --out FILE             the counts of this page, more than an hour
python -m torture --hours 8 --out FILE          as many as fit
python -m torture kills --out FILE --resume     one kind; other kinds in FILE stay
python -m torture --prove --out FILE            break a copy of the code, a line at a time, and see it caught
python -m torture.page FILE ...                 join records, and write this page
```

"""
FOUND = (
    (
        "security",
        "a distributed checkpoint written by somebody else could run code when it was loaded",
        "test_the_description_of_a_checkpoint_runs_no_code",
    ),
    (
        "security",
        "a search that was given another file as its journal cut off the last line of that file",
        "test_a_file_that_is_no_journal_is_refused_and_stays_as_it_is",
    ),
    (
        "security",
        "compiled code was loaded from a cache in the temporary folder, whoever had made it",
        "test_native_code_of_another_user_is_not_loaded",
    ),
    (
        "distributed",
        "`ZeroRedundancyOptimizer` was accepted, although every rank would perturb only its own part of the weights",
        "test_zero_redundancy_optimizer_is_refused",
    ),
    (
        "distributed",
        "EVON resumed from a distributed checkpoint to other bits: its axes lay otherwise in memory",
        "test_state_lies_in_memory_as_a_checkpoint_brings_it_back",
    ),
    (
        "a hostile reader",
        'a distributed checkpoint lost the state silently where the prior was `"init"` or a posterior, or gradients were left',
        "test_a_checkpoint_carries_every_prior_also_where_gradients_are_left",
    ),
    (
        "a hostile reader",
        "a distributed checkpoint lost the schedule of `learn_prior_every`",
        "test_the_schedule_of_a_learned_prior_survives_a_checkpoint_of_ranks",
    ),
    (
        "a hostile reader",
        "without a prior, IVON, EVON and VON wrote NaN into weights whose gradient was zero for very long",
        "test_a_precision_that_underflows_moves_nothing",
    ),
    (
        "signals",
        'Ctrl-C at the end of a step with `curvature="score"`, or of `posterior()`, could leave autograd off',
        "the cases themselves",
    ),
    (
        "bad input",
        '`prior_precision=Decimal("0.1")` passed the check and failed as an operand',
        "test_a_number_that_torch_cannot_use_is_refused_by_name",
    ),
    (
        "a hostile reader",
        "an error before the native loops drew a sample left memory without a value in the weights",
        "test_an_error_before_the_weights_are_drawn_leaves_the_mean",
    ),
    (
        "a hostile reader",
        "`vadam fit` and `vadam predict` replaced the table or the model that they read, if told to write there",
        "test_a_file_that_is_read_is_never_replaced",
    ),
    (
        "a hostile reader",
        "EVON lost the mean where `torch.func` transformed a forward pass of the attached model; native loops failed",
        "test_a_forward_pass_inside_a_transform_samples_plain_weights",
    ),
    (
        "a hostile reader",
        "two optimizers over the same weights could take each other's sample for the mean",
        "test_a_second_optimizer_is_refused_while_the_first_holds_a_sample",
    ),
    (
        "a hostile reader",
        "a model that was copied, pickled or saved whole between forward and `step()` held the sample",
        "test_a_model_that_is_copied_in_a_sample_is_copied_at_its_mean",
    ),
    (
        "a hostile reader",
        "a schedule that wrote NaN or a negative number into a parameter group made the weights NaN",
        "test_a_wrong_value_written_into_a_group_is_refused_by_name",
    ),
    (
        "a hostile reader",
        "a checkpoint with negative or NaN averages was loaded, and the next step wrote NaN",
        "test_a_checkpoint_with_an_unsound_precision_is_refused",
    ),
    (
        "a hostile reader",
        "a posterior of integers was accepted, and its draws were rounded",
        "test_wrong_use_is_explained",
    ),
    (
        "a hostile reader",
        "`vadam.save` wrote a config that is no dict, and `vadam.load` could not read the file",
        "test_a_config_that_could_not_be_read_again_is_refused",
    ),
    (
        "bad_input",
        "a saved estimator whose noise or temperature is impossible was loaded, and failed when it was used",
        "test_an_impossible_temperature_is_refused",
    ),
    (
        "bad_input",
        "VadaGrad took a `beta` that is infinite in float32, and the weights became NaN",
        "test_wrong_arguments",
    ),
    (
        "pages",
        "`vadam fit --target` did not find a column whose name ends in white space, and a line separator in a name cut the header",
        "test_a_target_is_found_as_names_are_read",
    ),
    (
        "a hostile reader",
        "with activation checkpointing, an evaluation between forward and backward pass gave a gradient at the mean",
        "test_a_backward_pass_at_the_mean_is_refused_where_autograd_does_not_notice",
    ),
    (
        "a hostile reader",
        '`vadam predict` read the category "007" as 7, unknown to the model, where no text stood beside it',
        "test_a_category_is_known_whatever_other_rows_hold",
    ),
    (
        "a hostile reader",
        "rows with one cell more than the header were shifted by a column",
        "test_rows_with_more_cells_than_the_header_are_refused",
    ),
    (
        "a hostile reader",
        '"10,126" beside decimal points and semicolons was read as 10.126, and "0.126" as 126',
        "test_thousands_beside_decimal_points_are_no_decimal_commas",
    ),
    (
        "a hostile reader",
        "a date of 9999-12-31 ended `vadam predict` in a traceback",
        "test_days_that_nanoseconds_cannot_hold",
    ),
    (
        "a hostile reader",
        "a rate that numpy computed left a checkpoint that `torch.load` refuses",
        "test_numbers_of_numpy_leave_a_checkpoint_that_torch_loads",
    ),
    (
        "a hostile reader",
        "`vadam fit --seed -1`, and standard output on a full disk, ended in a traceback",
        "test_numbers_below_zero_and_a_full_disk_are_refused_in_words",
    ),
    (
        "bad input",
        "`vadam fit --task regression` on a target of words ended in a traceback",
        "test_a_regression_on_words_is_refused",
    ),
    (
        "bad input",
        "a model whose header had other quantiles, text in its scaling or lists as names was loaded and failed at the first prediction",
        "test_other_values_are_refused",
    ),
    (
        "a hostile reader",
        "threads that predicted with one model at the same time saw each other's draws, and one could stay in the model",
        "test_threads_that_share_a_model_predict_as_one_does",
    ),
    (
        "a hostile reader",
        "durations and periods of a table were read in the unit in which pandas kept them, gaps as −9·10¹⁸",
        "test_durations_are_seconds_in_every_unit",
    ),
    (
        "a hostile reader",
        "`auroc` of whole numbers was 0, and calibration errors summed in half precision",
        "test_numbers_of_every_type_count_alike",
    ),
    (
        "a hostile reader",
        "the coverage of intervals whose ends have shapes [n, 1] and [n] was that of n × n intervals",
        "test_ends_of_intervals_in_two_shapes_are_no_table",
    ),
    (
        "a hostile reader",
        "`vadam fit` read a quoted `0,302` between commas as 302",
        "test_numbers_are_read_as_europeans_write_them",
    ),
    (
        "a hostile reader",
        "`vadam fit` ended in a traceback for parquet files with an index of texts or dates",
        "test_an_index_with_a_name_is_a_column",
    ),
    (
        "a hostile reader",
        "a checkpoint of EVON or FullVON for other shapes was loaded, and the next step failed",
        "test_a_checkpoint_of_other_shapes_is_refused_and_changes_nothing",
    ),
    (
        "a reviewer",
        "gradients of several samples that cancel while their squares overflow made the state infinite",
        "test_squares_that_overflow_where_samples_cancel_are_refused",
    ),
    (
        "a reviewer",
        "native noise followed the order in memory: after `to(memory_format=…)` inside a sample the mean did not come back",
        "test_memory_whose_order_changes_inside_a_sample",
    ),
    (
        "a reviewer",
        "a weight that the closure froze between two samples was perturbed by native loops all the same",
        "test_a_weight_that_a_closure_freezes_holds_its_mean_in_the_next_samples",
    ),
    (
        "a reviewer",
        "`vadam run --no-resume` with changed files cleared what was recorded, and then refused to run",
        "test_a_refused_run_keeps_what_is_recorded",
    ),
    (
        "bad input",
        "a carriage return in a cell of the target cut a row of the predictions in two",
        "test_a_carriage_return_in_a_cell_ends_no_row",
    ),
    (
        "pages",
        "a name with dollar signs or a backslash ended the page of the demo in a traceback",
        "test_a_name_is_drawn_as_it_is",
    ),
    (
        "a hostile reader",
        "a posterior read from a Lightning checkpoint lost the prior's mean, the temperature and the shares",
        "test_a_checkpoint_holds_the_mean_of_the_prior_and_the_temperature",
    ),
    (
        "a hostile reader",
        "`prior=post.tempered(4)` made the prior narrower instead of wider at a temperature other than 1",
        "test_a_tempered_posterior_is_a_wider_prior_at_every_temperature",
    ),
    (
        "a hostile reader",
        '`target_transform="quantile"` scored targets of whole numbers on knots that were cut to whole numbers',
        "test_a_transformed_prediction_takes_whole_numbers_and_keeps_gaps",
    ),
    (
        "a hostile reader",
        "a `noise_precision` of one number a row, [B], against outputs [B, 1] counted every row with the noise of all others",
        "test_wrong_use_is_explained",
    ),
    (
        "a hostile reader",
        "in single precision a `NegativeBinomial` near Poisson, and a Poisson of large counts, were wrong by up to whole nats",
        "test_counts_are_likely_as_scipy_says_in_single_precision",
    ),
    (
        "a hostile reader",
        "an embedding with `max_norm` was rescaled in the sample only: the mean grew without a bound",
        "test_sampled_weights_that_a_layer_rescales_are_refused",
    ),
    (
        "a hostile reader",
        "`FullGaussian.of` a pruned posterior sampled the pruned weights again",
        "test_wrong_use_is_explained",
    ),
    (
        "a hostile reader",
        "the attention of all members of a stack started from the same weights, those of the network that was given",
        "test_every_weight_of_attention_starts_from_the_members_seed",
    ),
    (
        "a hostile reader",
        "a posterior of a stack lost the prior's mean, and its KL was that to the tempered prior",
        "test_a_cold_posterior_of_a_stack_knows_its_prior",
    ),
    (
        "a hostile reader",
        "`from_adam` counted the draws of a sampler with replacement as training examples",
        "test_the_draws_of_a_sampler_are_not_counted_as_examples",
    ),
    (
        "a hostile reader",
        "a deep ensemble whose members were in training mode predicted with their dropout",
        "test_members_are_in_evaluation_mode_and_take_batches_of_a_loader",
    ),
    (
        "a hostile reader",
        "KL to a posterior that has pruned a weight was finite, the density of a weight that is exactly zero",
        "test_wrong_use_is_explained",
    ),
    (
        "a hostile reader",
        "`vadam fit` took a long UTF-8 file for Windows' text where a letter lay across the first million bytes",
        "test_a_long_file_keeps_its_letters",
    ),
    (
        "a hostile reader",
        "`vadam predict` changed ids and other columns that it keeps: 00123 to 123, 12E4 to 120000, long numbers beside gaps",
        "test_ids_stand_beside_the_predictions_as_they_were_written",
    ),
    (
        "a hostile reader",
        "`vadam predict` rounded predictions of numbers near 1e-13 to 0",
        "test_predictions_of_tiny_numbers_keep_their_digits",
    ),
    (
        "a hostile reader",
        "`vadam predict` replaced a column of the table named as one of its own without saying so",
        "test_a_column_that_a_prediction_replaces_is_named",
    ),
    (
        "a hostile reader",
        '`vadam fit` left out the rows of the class "none", and of "-" beside "+", as rows without a target',
        "test_words_for_gaps_that_are_classes",
    ),
    (
        "a hostile reader",
        "`vadam fit` chose the logarithm of the target and then refused a 0 among the rows held out",
        "test_a_target_of_zero_among_the_rows_held_out",
    ),
    (
        "a hostile reader",
        "mean and deviation under a transform of the target left out the tails: at log noise of 1, 20 % of the deviation",
        "test_moments_of_a_transformed_prediction_hold_in_the_tails",
    ),
    (
        "a hostile reader",
        "`sample_weight` counted in the training, but not in the calibration: noise of rows that hardly count set all intervals",
        "test_the_noise_is_that_of_the_rows_that_count",
    ),
    (
        "a hostile reader",
        "`predict_interval` was narrower at 0.99 than at 0.98 where the held-out rows were too few for 0.99",
        "test_a_higher_level_is_never_a_narrower_interval",
    ),
    (
        "a hostile reader",
        "`partial_fit` of a model for several targets took one target for all of them",
        "test_new_rows_have_as_many_targets_as_the_first",
    ),
    (
        "a hostile reader",
        '`vadam fit` read "$1,234" beside "$999" between tabs, and "1.234" beside "999" between semicolons, as 1.234',
        "test_thousands_beside_smaller_numbers_are_thousands",
    ),
    (
        "a hostile reader",
        '`vadam predict` read "4.235" between semicolons, or "4,235" between tabs, as 4.235 where the training had thousands',
        "test_a_number_of_two_meanings_has_that_of_the_training",
    ),
    (
        "a hostile reader",
        "`vadam predict` rounded long ids beside gaps in a parquet file to 16 digits",
        "test_long_ids_beside_gaps_in_parquet_stay_as_they_are",
    ),
    (
        "a hostile reader",
        "outliers of a column whose spread is below 1e-12 were not squeezed: the unit of a column changed the predictions",
        "test_units_of_the_inputs_change_nothing",
    ),
    (
        "a hostile reader",
        "`vadam predict` wrote texts such as 007 in a sheet as 7.0",
        "test_ids_of_a_sheet_stay_as_they_are",
    ),
    (
        "a hostile reader",
        "`vadam fit` said that a table has one class only where all rows of the other were held out",
        "test_a_class_whose_rows_are_all_held_out_is_learned",
    ),
    (
        "a hostile reader",
        '`vadam fit` read 9.673 between commas as 9.673 beside "1.234,50", and "9,673" between tabs as 9.673 beside "$1,234.50"',
        "test_other_columns_tell_the_sign_of_thousands",
    ),
    (
        "a hostile reader",
        'a column of "722.99 €" was taken for text and left out',
        "test_signs_beside_numbers_stand_on_both_sides",
    ),
    (
        "a hostile reader",
        "`vadam fit` read the classes 007 and 012 as 7 and 12, and `vadam predict` wrote these",
        "test_classes_keep_their_leading_zeros",
    ),
    (
        "a hostile reader",
        "`vadam predict` lost texts such as NA of a sheet, wrote True beside gaps as 1, and failed to write mixed cells as parquet",
        "test_all_kinds_of_cells_of_a_sheet_are_kept",
    ),
    (
        "a hostile reader",
        "a damaged .xlsx file ended `vadam fit` and `vadam predict` in a traceback",
        "test_a_damaged_sheet_is_refused",
    ),
    (
        "a hostile reader",
        "a fit to more than 200 rows of which all but one in 200 had the same target failed with an IndexError",
        "test_a_skewed_target_may_be_transformed",
    ),
    (
        "a hostile reader",
        "`VadamRegressor` took durations as targets in the unit in which pandas kept them, and gaps for −9·10¹⁸",
        "test_bad_input",
    ),
    (
        "a hostile reader",
        "`crps` of draws far from 0 was off by some percent in single precision",
        "test_crps_of_draws_far_from_zero_does_not_round",
    ),
    (
        "a hostile reader",
        "`vadam report` ended in a traceback where a manifest lacked the version of torch, or the commit of a row was no text",
        "test_a_manifest_with_an_impossible_value_is_named",
    ),
    (
        "a hostile reader",
        "several samples, clipped or scaled: VON, BBVI, IVON and EVON took steps of deterministic weights up to 256 times too short",
        "test_scaling_gradients_equals_scaling_the_loss_for_deterministic_weights",
    ),
    (
        "a hostile reader",
        "several samples or evaluations in one block of `torch.autocast` saw the weights of the first: autocast kept copies of them",
        "test_every_pass_in_one_block_of_autocast_sees_the_weights_as_they_are",
    ),
    (
        "a hostile reader",
        "of parameters of one name, as two modules' `named_parameters()` give them, `posterior()` had only the last one",
        "test_parameters_of_one_name_are_not_lost_from_the_posterior",
    ),
    (
        "a hostile reader",
        "`PosteriorCallback` ended in a KeyError after manual optimization that returns no loss, and could not save FullVON's posterior",
        "test_manual_optimization_without_a_returned_loss",
    ),
    (
        "a hostile reader",
        "`LastLayerLaplace` ended in a traceback where the last layer shares its weight with another",
        "test_a_last_layer_that_shares_its_weight_with_another",
    ),
    (
        "a hostile reader",
        "a stack of perceptrons whose layers share weights ended in a KeyError",
        "test_layers_that_share_a_weight_are_no_perceptron",
    ),
    (
        "a hostile reader",
        "`integrations.checkpoint` saved FullVON and VON with exact, Hutchinson's or score curvature, and could not load them",
        "test_an_optimizer_that_evaluates_the_loss_resumes",
    ),
    (
        "a hostile reader",
        "`MCDropout` masked weights of another layer that shares them, or failed when it predicted",
        "test_layers_that_share_a_weight_are_refused",
    ),
    (
        "a hostile reader",
        "`torch.export` of an attached model that held a sample lost the mean; in training mode it broke the optimizer",
        "test_a_model_exported_in_a_sample_is_exported_at_its_mean",
    ),
    (
        "a hostile reader",
        "an earlier posterior as prior, matched by order, gave a layer the prior of a frozen one of the same shape; so did `from_adam`",
        "test_an_earlier_posterior_is_matched_by_name_where_layers_are_frozen_or_new",
    ),
    (
        "a hostile reader",
        "`prior=` a pruned posterior sampled the pruned weights again",
        "test_a_pruned_posterior_is_no_prior",
    ),
    (
        "a hostile reader",
        "`tuning.noise_precision` compared every target with every output where targets were [n] and outputs [S, n, 1]",
        "test_targets_and_outputs_without_their_last_axis",
    ),
    (
        "a hostile reader",
        "`from_adam` counted the items of a loader with `batch_size=None`, which are batches, as training examples",
        "test_items_that_may_be_batches_are_not_counted_as_examples",
    ),
    (
        "a hostile reader",
        "a posterior that was tempered by a number of torch, or a float32 of numpy, could not be saved",
        "test_a_temperature_of_numpy_or_torch_is_saved",
    ),
    (
        "a hostile reader",
        "a damaged MATLAB file of USPS in a data folder ended in a traceback, or in a crash of scipy",
        "test_a_damaged_matlab_file_is_refused_unread",
    ),
    (
        "a hostile reader",
        "the posterior of a stack that went on from an earlier one lost its temperature, and was too narrow a prior",
        "test_a_posterior_that_went_on_knows_its_temperature",
    ),
    (
        "a hostile reader",
        "`Member(earlier=…)` took a posterior of another temperature or a pruned one, and ended in a KeyError for other weights",
        "test_an_earlier_posterior_that_does_not_fit_is_refused",
    ),
    (
        "a hostile reader",
        "`tune` ended in a KeyError for the accuracy of a regression, after its first round, and for cells without a text as name",
        "test_wrong_arguments",
    ),
    (
        "a hostile reader",
        "`VadamClassifier(logit_temperature=0)` was taken for 1",
        "test_bad_input",
    ),
    (
        "a hostile reader",
        "rows with a value that was never seen were predicted otherwise beside other rows: 17 to 37 for the same row",
        "test_rows_with_unseen_values_are_predicted_as_if_they_were_alone",
    ),
    (
        "a hostile reader",
        "`vadam fit` and `vadam predict` read 0.680 and -1.576 as 680 and -1576 beside a column with decimal commas",
        "test_a_number_beside_europeans_numbers_has_the_size_of_the_training",
    ),
    (
        "a hostile reader",
        "`VadamClassifier` was certain where it predicted all held-out rows right: a log-likelihood of -0.72 instead of -0.12",
        "test_classes_without_an_error_among_the_held_out_rows_are_not_certain",
    ),
    (
        "a hostile reader",
        "`vadam predict` wrote versions such as 1.10 beside 1.9 as 1.1",
        "test_ids_stand_beside_the_predictions_as_they_were_written",
    ),
    (
        "a hostile reader",
        "a model of a frame with numbered columns, one of them constant, refused the array of the same numbers",
        "test_an_array_predicts_as_a_frame_of_numbered_columns_of_which_one_is_left_out",
    ),
    (
        "a hostile reader",
        "`vadam fit` left out texts such as 1.234,50 € of a sheet, and `vadam predict` read its 4.235 as 4.235, not as thousands",
        "test_texts_of_a_sheet_are_read_as_europeans_write_numbers",
    ),
    (
        "a hostile reader",
        "`vadam fit` said that the columns say little where all rows held out were of one class, and divided by zero for R²",
        "test_held_out_rows_that_are_alike_do_not_judge_the_columns",
    ),
    (
        "a hostile reader",
        "a posterior of FullVON lost its temperature: its marginals were too narrow or too wide a prior for the next task",
        "test_a_full_posterior_knows_its_temperature_as_the_prior_of_the_next_task",
    ),
    (
        "a hostile reader",
        "`InputNoiseStudentT` took large log scales and NaN for a wrong `noise_precision`: predictions far from the data failed",
        "test_noise_of_an_input_may_have_every_scale_and_none",
    ),
    (
        "a hostile reader",
        "`adaptive_ece` depended on the order of the rows where confidences are equal, as at probabilities of 1",
        "test_the_order_of_rows_with_one_confidence_does_not_matter",
    ),
    (
        "a hostile reader",
        "`predict` left a draw in a module that stands in the network twice, where torch's `functional_call` loses its weights",
        "test_a_module_in_two_places_keeps_its_weights_in_a_prediction",
    ),
    (
        "a hostile reader",
        "`predict` ended in an error of torch for a model in `DataParallel`",
        "test_a_model_in_data_parallel_predicts_as_itself",
    ),
    (
        "a hostile reader",
        "`predict` let a state that a model keeps in a buffer go from draw to draw",
        "test_a_state_that_a_model_keeps_does_not_go_from_draw_to_draw",
    ),
    (
        "a hostile reader",
        "`predict` took a loss, or a likelihood's class, as likelihood, and failed when it was asked for an answer",
        "test_a_loss_or_a_class_is_no_likelihood",
    ),
    (
        "a hostile reader",
        '`prior="init"` took the sample of another optimizer for the weights at construction',
        "test_the_prior_of_a_second_optimizer_is_the_mean_while_the_first_holds_a_sample",
    ),
    (
        "a hostile reader",
        "a group that became deterministic in a sample took no step, or a step from the sample; BBVI wrote NaN",
        "test_a_group_that_becomes_deterministic_in_a_sample_is_refused",
    ),
    (
        "a hostile reader",
        "`NegativeBinomial.cdf` was wrong from a `total_count` of 1e12 on, and NaN at 1e18",
        "test_a_negative_binomial_of_large_total_count_is_nearly_poisson",
    ),
    (
        "a hostile reader",
        "`Anneal` of `prior_precision` did nothing where the prior is a posterior",
        "test_a_schedule_without_effect_is_refused",
    ),
    (
        "a hostile reader",
        "`elbo` without `num_data` or of arrays, and `plot.posterior` of a mixture, ended in a traceback",
        "test_a_mixture_has_no_summary_to_draw",
    ),
    (
        "a hostile reader",
        "Laplace approximations ended in an error for `StudentT` and noise that depends on the input, whose curvature may be negative",
        "test_curvature_that_could_be_negative_is_the_fisher_information",
    ),
    (
        "a hostile reader",
        "`predict` copied a model's buffers for each batch: large masks times many batches filled the memory",
        "test_buffers_are_copied_once_for_all_batches",
    ),
    (
        "a hostile reader",
        "the page on saving loaded the mean without BatchNorm's weights, which `from_adam` trains and does not sample",
        "test_the_mean_as_the_page_on_saving_loads_it_has_weights_that_are_not_sampled",
    ),
    (
        "a hostile reader",
        "`predict` took the labels of a loader for an argument of a model that needs none of its arguments, as those of Hugging Face",
        "test_a_loader_of_pairs_where_the_model_needs_none_of_its_arguments",
    ),
    (
        "a hostile reader",
        "weights [n, 1] counted every row with the weights of all in `TemperatureScaling` and `log_likelihood`; lists of weights failed",
        "test_weights_may_be_columns_lists_or_have_an_axis_more",
    ),
)
"""What the torture has found so far: by what, what it was, and the test that keeps it mended."""
LIMITS = """Two limits are torch's own. On more than two ranks DDP adds the gradients of its first step in another order than those of
later steps, so a resumed training differs in the last bits, with Adam too. And torchrun's own restarts (`--max-restarts`) cannot
connect gloo again, with or without vadam: start torchrun again instead.

"""


def page(record: dict[str, Any]) -> str:
    kinds = {name: record["kinds"][name] for name in TITLES if name in record["kinds"]}
    kinds = {name: section for name, section in kinds.items() if section["parts"]}
    parts = [HEAD, "## Figures\n\n", _table(kinds), _machines(kinds), _found()]
    parts += [_section(name, section) for name, section in kinds.items()]
    missing = [TITLES[name] for name in KINDS if name not in kinds]
    if missing:
        parts.append(f"## Not run yet\n\n{', '.join(missing)}.\n\n")
    return "".join(parts).rstrip() + "\n"


def _table(kinds: dict[str, Any]) -> str:
    rows = ["| kind | count | failures | minutes | commit |", "|---|---|---|---|---|"]
    for name, section in kinds.items():
        kind = import_module(f"torture.{name}").KIND
        counted = sum(part["found"]["counts"].get(kind.unit, 0) for part in section["parts"].values())
        failures = sum(len(part["failures"]) for part in section["parts"].values())
        minutes = sum(part["seconds"] for part in section["parts"].values()) / 60
        asked = "" if counted >= kind.full else f" of {kind.full:,}"
        rows.append(
            f"| [{TITLES[name]}](#{TITLES[name].lower().replace(' ', '-')}) | {counted:,}{asked} {kind.unit} | {failures} | "
            f"{minutes:.1f} | `{section['commit']}` |"
        )
    return "\n".join(rows) + "\n\n"


def _machines(kinds: dict[str, Any]) -> str:
    found = sorted(
        {", ".join(f"{name} {value}" for name, value in section["machine"].items()) for section in kinds.values()}
    )
    return f"Minutes are those of all processes together. Run on: {'; '.join(found)}.\n\n"


def _found() -> str:
    rows = [f"| {by} | {what} | {test if ' ' in test else f'`{test}`'} |" for by, what, test in FOUND]
    return "\n".join(["## Found and mended", "", "| found by | what | test |", "|---|---|---|", *rows, "", LIMITS])


def _section(name: str, section: dict[str, Any]) -> str:
    kind = import_module(f"torture.{name}").KIND
    lines = [f"## {TITLES[name]}", "", kind.promise, "", "| part | found |", "|---|---|"]
    for part, progress in section["parts"].items():
        counts = ", ".join(f"{number:,} {what}" for what, number in progress["found"]["counts"].items())
        figures = "".join(f"; {what}: {value:.3g}" for what, value in progress["found"]["worst"].items())
        lines.append(f"| {part} | {counts}{figures} |")
    failures = [failure for progress in section["parts"].values() for failure in progress["failures"]]
    lines += ["", *(f"- Failed: `{failure['command']}`" for failure in failures)]
    lines += [section["remark"], ""] if section.get("remark") else []
    lines += _broken(section["broken"])
    lines += _notes(section)
    return "\n".join(lines).rstrip() + "\n\n"


def _broken(broken: list[dict[str, Any]]) -> list[str]:
    """Return what was broken on purpose, and what caught it."""
    lines = []
    for one in broken:
        caught = "not caught" if one["caught"] is None else f"caught by *{one['part']}*: {_cell(one['caught'])}"
        change = f"`{one['was']}` became `{one['broken']}`" if one["broken"] else f"`{one['was']}` was removed"
        lines.append(f"- Broken on purpose: {one['path']}, line {one['line']}: {change}. Then {one['would']}; {caught}")
    return [*lines, ""] if lines else []


def _cell(text: str) -> str:
    short = " ".join(text.split())
    return f"`{short[:160].replace('`', chr(39))}`"


def _notes(section: dict[str, Any]) -> list[str]:
    notes = [note for progress in section["parts"].values() for note in progress["found"]["notes"]]
    listed = [note for note in notes if ": " in note and not note.startswith("known")]
    lines = [*(note[0].upper() + note[1:] + "." for note in notes if note not in listed), ""] if notes else []
    if listed:
        lines += ["Licences of what vadam installs; `(extra)` is installed only with an extra.", ""]
        lines += [
            "| package | licence |",
            "|---|---|",
            *(f"| {name} | {licence} |" for name, _, licence in (n.partition(": ") for n in listed)),
        ]
    return lines


def joined(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Return one record of several: of each kind the last that was run, with the last lines that were broken on purpose."""
    kinds: dict[str, Any] = {}
    for record in records:
        for name, section in record["kinds"].items():
            known = kinds.get(name, section)
            ran = section if section["parts"] else known
            kinds[name] = {**ran, "broken": section["broken"] or known["broken"]}
    return {"kinds": kinds}


def main(paths: list[Path]) -> None:
    if paths:
        record = joined([json.loads(path.read_text()) for path in paths])
        atomic.write_text(RECORD, json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    PAGE.write_text(page(json.loads(RECORD.read_text())))
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main([*map(Path, sys.argv[1:])])
