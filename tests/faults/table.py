"""The faults that rmixup must survive, by number: what each is, and which tests elsewhere provoke it too.

`make faults` runs the tests in this folder and those named here, and prints one row a fault.
"""

from typing import NamedTuple


class Fault(NamedTuple):
    """A fault: what happens, and the tests outside this folder that make it happen."""

    name: str
    elsewhere: tuple[str, ...] = ()


FAULTS = {
    1: Fault(
        "SIGKILL at random moments and named points of a study",
        (
            "study/test_kills.py::test_a_command_that_is_stopped_leaves_no_workers_and_no_half_cells",
            "study/test_runner.py::test_a_worker_that_dies_is_replaced_and_its_stack_run_again",
            "study/test_runner.py::test_a_stack_that_kills_its_workers_is_given_up_and_said_so",
        ),
    ),
    2: Fault(
        "killed between writing and renaming",
        (
            "study/test_store.py::test_left_overs_of_the_dead_are_swept_those_of_the_living_stay",
            "data/test_store.py::test_what_a_killed_writer_left_is_swept_by_the_next",
            "data/test_store.py::test_living_and_foreign_writers_are_left_alone",
            "data/test_store.py::test_a_folder_moved_aside_by_a_dead_writer_comes_back",
        ),
    ),
    3: Fault(
        "files truncated and bits flipped",
        (
            "study/test_store.py::test_a_missing_file_or_a_cell_under_a_false_name_is_damage",
            "study/test_store.py::test_a_damaged_cell_is_never_read_as_a_number",
            "study/test_runner.py::test_a_damaged_cell_is_moved_aside_and_redone",
            "augment/test_prepare.py::test_a_damaged_entry_is_computed_again_with_a_warning",
            "cli/test_study.py::test_verify_finds_damage_says_no_and_resume_heals_it",
        ),
    ),
    4: Fault(
        "disk full, size limit, read-only folder",
        (
            "study/test_runner.py::test_a_full_disk_stops_the_run_and_leaves_nothing_half",
            "study/test_tables.py::test_an_export_that_cannot_be_written_is_told_and_leaves_nothing",
            "augment/test_prepare.py::test_a_cache_that_cannot_be_written_is_named",
        ),
    ),
    5: Fault(
        "NaN and infinity in series and matrices",
        (
            "augment/test_prepare.py::test_bad_networks_are_named_all_at_once",
            "spd/test_api.py::test_every_function_refuses_what_the_door_refuses",
            "data/test_connectivity.py::test_bad_series",
            "data/readers/test_load.py::test_undefined_correlations_are_told_of_together_and_dropped_on_request",
        ),
    ),
    6: Fault(
        "a node that does not vary",
        (
            "data/test_connectivity.py::test_constant_nodes_are_named",
            "data/test_connectivity.py::test_constant_nodes_as_unconnected_or_undefined",
            "data/test_connectivity.py::test_constant_up_to_rounding",
            "data/test_connectivity.py::test_a_person_without_any_variation_is_unconnected",
        ),
    ),
    7: Fault(
        "asymmetric matrices",
        ("augment/test_prepare.py::test_networks_that_are_almost_symmetric_give_symmetric_ones",),
    ),
    8: Fault(
        "indefinite and rank-deficient matrices",
        (
            "spd/test_spectral.py::test_singular_matrices_are_refused_with_their_index_and_what_to_do",
            "spd/test_spectral.py::test_roots_take_singular_but_not_indefinite_matrices",
            "augment/test_prepare.py::test_singular_networks_need_a_regulariser",
            "augment/test_prepare.py::test_the_regulariser_is_that_of_spd_and_recorded",
            "study/test_work.py::test_one_method_that_is_refused_fails_alone_in_its_stack",
        ),
    ),
    9: Fault(
        "series too short or of unequal length",
        (
            "data/readers/test_load.py::test_series_too_short_are_told_of_together_and_dropped_on_request",
            "study/test_work.py::test_too_short_series_are_named",
            "data/test_doctor.py::test_series_too_short_for_everybody_are_one_error",
        ),
    ),
    10: Fault(
        "duplicate people and repeated sessions",
        (
            "data/test_splits.py::test_families_and_repeated_people_stay_whole",
            "data/test_splits.py::test_travelling_people_and_their_families_do_not_train",
            "data/test_splits.py::test_overlap_is_refused",
            "data/test_doctor.py::test_identical_series_are_found_without_matrices",
            "data/readers/test_expression.py::test_no_sample_and_no_patient_is_in_two_networks_that_a_split_may_part",
        ),
    ),
    11: Fault(
        "labels missing, extra, in another order",
        (
            "data/test_networks.py::test_join_is_by_id_never_by_position",
            "data/test_networks.py::test_join_reports_who_is_missing_and_who_is_extra",
            "data/readers/test_load.py::test_people_without_a_label_are_left_out_on_request_only",
            "data/readers/test_load.py::test_people_without_a_row_are_left_out_on_request_only",
            "data/readers/test_phenotype.py::test_other_ids_are_shown_side_by_side",
        ),
    ),
    12: Fault(
        "wrong shapes, mixed atlases, other node order",
        (
            "data/test_networks.py::test_what_the_door_refuses",
            "data/readers/test_tables.py::test_two_atlases_are_named",
            "data/readers/test_tables.py::test_nodes_in_another_order_are_named",
            "data/readers/test_arrays.py::test_stacks_that_do_not_fit_together",
        ),
    ),
    13: Fault(
        "a class unseen in training or missing in a fold",
        (
            "train/test_baselines.py::test_a_class_that_training_lacks_still_has_its_output",
            "train/test_scores.py::test_a_run_without_a_class_is_undefined_by_name_and_the_others_are_not",
            "train/test_engine.py::test_a_validation_set_without_a_class_is_judged_by_its_loss_and_says_so",
            "data/test_splits.py::test_a_class_too_rare_for_three_sides_is_named",
            "study/test_work.py::test_an_undefined_score_is_nan_with_its_reason",
        ),
    ),
    14: Fault(
        "leakage: canaries in test networks and labels, whole pipeline",
        (
            "study/test_work.py::test_test_people_and_their_labels_change_nothing_that_is_trained",
            "train/test_engine.py::test_a_canary_in_validation_and_test_does_not_sing",
            "train/test_engine.py::test_a_networks_own_training_rows_do_matter",
        ),
    ),
    15: Fault(
        "leakage: the same canary for every prepare",
        ("augment/test_prepare.py::test_the_canary_nothing_outside_the_training_rows_has_an_influence",),
    ),
    16: Fault(
        "malicious pickles under every name",
        (
            "data/test_store.py::test_nothing_is_unpickled",
            "data/readers/test_files.py::test_objects_are_never_unpickled",
        ),
    ),
    17: Fault(
        "zip bombs, huge headers, a million members, ../, links",
        (
            "data/test_store.py::test_hostile_arrays_are_refused_by_name",
            "data/test_store.py::test_a_path_outside_the_folder_is_not_followed",
            "data/readers/test_files.py::test_npy_files_that_lie_are_refused_before_memory_is_taken",
            "data/readers/test_files.py::test_members_outside_the_archive_are_refused",
            "data/readers/test_files.py::test_links_in_an_archive_are_refused",
            "data/readers/test_files.py::test_an_archive_that_unpacks_a_hundredfold_is_refused",
            "data/readers/test_files.py::test_a_mat_file_is_not_believed",
            "data/readers/test_expression.py::test_a_compressed_table_that_unpacks_without_end_is_refused",
            "data/readers/test_files.py::test_links_to_other_files_are_not_followed",
            "data/readers/test_files.py::test_data_in_other_files_are_not_followed",
            "data/readers/test_files.py::test_a_dataset_larger_than_its_file_is_refused",
        ),
    ),
    18: Fault(
        "hostile ids and names in paths, HTML and CSV",
        (
            "data/test_store.py::test_known_hostile_names_come_back",
            "study/test_runner.py::test_hostile_names_come_back_exactly_and_never_become_paths",
            "study/test_tables.py::test_an_export_holds_everything_and_no_formula",
            "data/test_doctor.py::test_text_and_html_show_a_few_names_and_escape_them",
            "cli/test_check.py::test_names_that_look_like_markup_are_shown_as_they_are",
        ),
    ),
    19: Fault(
        "GPU out of memory (provoked in the engine's loop, without a GPU)",
        (
            "train/test_engine.py::test_a_stack_too_large_is_halved_and_says_so",
            "train/test_engine.py::test_one_run_that_does_not_fit_is_an_error_also_as_the_last_of_a_stack",
        ),
    ),
    20: Fault(
        "eigh fails or returns what is not orthonormal",
        (
            "spd/test_spectral.py::test_a_failed_or_wrong_decomposition_is_done_again_one_by_one",
            "spd/test_spectral.py::test_what_cannot_be_decomposed_at_all_is_named",
        ),
    ),
    21: Fault(
        "other numbers of processes, workers, threads; other order and hash seed",
        (
            "study/test_work.py::test_two_processes_shuffled_cells_and_other_stacks_give_the_same",
            "study/test_runner.py::test_one_process_two_and_none_give_the_same",
            "test_loader.py::test_any_number_of_workers_gives_the_same_stream",
            "data/test_splits.py::test_a_split_depends_on_the_key_and_not_on_the_order_of_rows",
        ),
    ),
    22: Fault(
        "data, environment or code changed before resuming",
        (
            "study/test_project.py::test_a_changed_spec_is_refused_with_all_that_differs_or_written_down",
            "study/test_project.py::test_changed_data_is_refused_and_if_allowed_old_results_are_not_mixed_in",
            "study/test_project.py::test_another_environment_or_work_is_refused",
            "cli/test_study.py::test_a_changed_spec_is_refused_in_one_line_unless_allowed",
        ),
    ),
    23: Fault(
        "two runners, stale claims, SIGINT and SIGTERM",
        (
            "study/test_runner.py::test_two_runners_share_a_study_and_do_each_cell_once",
            "study/test_claims.py::test_of_many_at_once_exactly_one_gets_it",
            "study/test_claims.py::test_the_claim_of_a_dead_process_here_is_taken_over_at_once",
            "study/test_claims.py::test_a_claim_from_elsewhere_counts_while_its_heart_beats",
            "study/test_claims.py::test_a_zombie_is_dead",
        ),
    ),
    24: Fault(
        "divergence",
        (
            "study/test_runner.py::test_a_failed_cell_is_recorded_and_the_others_go_on",
            "study/test_tables.py::test_a_failed_cell_makes_its_mean_undefined_and_is_counted",
            "study/test_work.py::test_a_divergence_is_a_failure_with_its_epoch",
            "train/test_engine.py::test_a_diverged_run_is_reported_and_leaves_the_others_alone",
        ),
    ),
    25: Fault(
        "λ of 0 and 1, extreme α, batches of one, one class",
        (
            "augment/test_methods.py::test_mixes_are_symmetric_positive_definite_and_exact_at_the_ends",
            "augment/test_methods.py::test_raw_batches_of_one_and_of_odd_size_work",
            "augment/test_pairs.py::test_raw_batches_mix_a_lone_sample_with_itself",
            "augment/test_labels_and_plans.py::test_a_class_of_one_member_and_one_class_only_are_refused",
            "augment/test_labels_and_plans.py::test_alpha_must_be_positive",
        ),
    ),
    26: Fault(
        "folders of a newer and of an older schema",
        (
            "study/test_project.py::test_a_study_of_a_newer_schema_is_refused_before_anything_else",
            "study/test_spec.py::test_the_keys_of_schema_1_never_change",
        ),
    ),
    27: Fault(
        "Dask: worker killed, scheduler restarted, network cut",
        (
            "study/test_dask.py::test_a_worker_killed_in_the_middle_changes_nothing",
            "study/test_dask.py::test_a_scheduler_that_is_gone_stops_the_run_and_loses_nothing",
            "study/test_dask.py::test_a_stack_that_dask_gives_up_is_reported_lost",
        ),
    ),
    28: Fault(
        "network access by a command other than fetch", ("cli/test_fetch.py::test_no_network_is_one_clear_line",)
    ),
    29: Fault(
        "little memory",
        (
            "data/test_store.py::test_memory_does_not_grow_with_the_number_of_people",
            "augment/test_prepare.py::test_memory_does_not_grow_with_the_data_set",
        ),
    ),
    30: Fault("bad input to a command"),
}
NUMBERS = {f"tests/{node}": number for number, fault in FAULTS.items() for node in fault.elsewhere}
