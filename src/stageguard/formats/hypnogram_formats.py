"""The formats hypnograms come in. A part of `registry`, which is what to ask."""

from __future__ import annotations

from stageguard.formats import sniffing as sniffing
from stageguard.formats import stage_sniffing as stages
from stageguard.formats.file_format import FileFormat
from stageguard.formats.stage_codes import NUMBERINGS

_P, _S, _E = "probabilities", "start time", "epoch length"
_A = "other annotations"
_O = "part of an epoch before the first"
_EPOCHS = (_P, _S, _E, _O, "scorer", _A)
_USLEEP_WORDS = frozenset(("w", "n1", "n2", "n3", "rem", "r", "unknown", "out_of_bounds"))
_LUNA_WORDS = frozenset(
    ("w", "wake", "n1", "n2", "n3", "n4", "nrem1", "nrem2", "nrem3", "nrem4", "r", "rem", "nr", "?")
) | frozenset("umlg")
_T = "test_hypnogram_"
_WRITTEN = "test_write.py::test_a_night_comes_back_from_every_format"


def _text(
    name: str,
    title: str,
    suffixes: tuple[str, ...],
    sniff: sniffing.Sniff,
    reader: str,
    test: str,
    loses: tuple[str, ...],
    write: str | None = None,
) -> FileFormat:
    own = test.removeprefix("../")
    proof = f"{_T}{test}" if own == test else own
    if write is not None:
        proof = f"{proof}, {_WRITTEN}"
    return FileFormat(name, title, suffixes, sniff, hypnogram=reader, write=write, loses=loses, test=proof)


def _numbers(numbering: str, whose: str) -> FileFormat:
    return _text(
        f"numbers-{numbering}",
        f"stage numbers of {whose}",
        (".txt", ".csv", ".npy"),
        stages.holds_numbers(NUMBERINGS[numbering]),
        f"numbers:read_{numbering}_numbers",
        "text.py::test_numbers_of_a_named_numbering",
        _EPOCHS,
    )


HYPNOGRAM_FORMATS: tuple[FileFormat, ...] = (
    FileFormat(
        "stageguard-tsv",
        "a hypnogram written by stageguard",
        (".hypnogram.tsv",),
        sniffing.is_own_table,
        hypnogram="text:read_text_hypnogram",
        write="outputs:write_own_tsv",
        loses=("probabilities of the other stages", "other annotations"),
        test="test_hypnograms.py::test_an_output_of_decode_comes_back_with_its_argmax_profile_and_start"
        ", test_write.py::test_a_decoding_saved_as_our_own_table",
    ),
    FileFormat(
        "stageguard-csv",
        "a table of stages and probabilities written by stageguard",
        (".csv",),
        stages.has_own_probabilities,
        sniff_hypnogram=stages.has_own_stages,
        density="own_table:read_stage_density",
        hypnogram="own_table:read_stage_hypnogram",
        write="own_table:write_stage_table",
        loses=("scorer", "other annotations"),
        test=_WRITTEN,
    ),
    FileFormat(
        "parquet",
        "a Parquet table",
        (".parquet", ".pq"),
        sniffing.begins_with(b"PAR1"),
        hypnogram="parquet:read_parquet_hypnogram",
        write="parquet:write_parquet",
        loses=("other annotations",),
        test=f"{_WRITTEN}, test_write.py::test_a_cohort_in_one_parquet_file",
    ),
    FileFormat(
        "yasa-json",
        "YASA JSON",
        (".json",),
        stages.is_yasa_json,
        hypnogram="yasa:read_yasa_json",
        write="yasa:write_yasa_json",
        loses=(_O, "other annotations"),
        test=f"{_T}yasa.py::test_json_of_the_installed_yasa, {_WRITTEN}",
    ),
    _text(
        "yasa-events", "events of YASA", (".csv", ".tsv"),
        stages.has_columns("onset", "duration", "value", "description"),
        "yasa:read_yasa_events", "yasa.py::test_events_of_the_installed_yasa", (_P, _S),
    ),
    _text(
        "edf-annotations", "EDF+ annotations", (".edf",), sniffing.begins_with(b"0       "),
        "edf_annotations:read_edf_hypnogram",
        "../test_scorings.py::test_sleep_edf_annotations", (_P, "scorer"),
        "edf_annotations:write_edf",
    ),
    _text(
        "profusion-xml", "Compumedics Profusion XML", (".xml",), sniffing.has_xml_root("CMPStudyConfig"),
        "profusion:read_profusion_xml",
        "../test_scorings.py::test_profusion_codes", (_P, _S, _O, "scorer"),
        "profusion:write_profusion_xml",
    ),
    _text(
        "nsrr-xml", "NSRR XML", (".xml",), sniffing.has_xml_root("PSGAnnotation"),
        "nsrr:read_nsrr_xml", "../test_scorings.py::test_nsrr_stages", (_P, "scorer"),
        "nsrr:write_nsrr_xml",
    ),
    _text(
        "wonambi-xml", "wonambi XML", (".xml",), sniffing.has_xml_root("annotations"),
        "wonambi:read_wonambi_xml", "tools.py::test_wonambi_xml", (_P,),
    ),
    _text(
        "wonambi-csv", "CSV exported from wonambi", (".csv",), stages.is_wonambi_csv,
        "wonambi:read_wonambi_csv", "tools.py::test_wonambi_csv", (_P, _S, "scorer"),
    ),
    _text(
        "mne-fif", "annotations of MNE (-annot.fif)", (".fif",), stages.is_fif,
        "mne:read_fif", "mne.py::test_fif_of_the_installed_mne", (_P, "scorer"),
        "mne:write_fif",
    ),
    _text(
        "gssc-fif", "annotations of GSSC (-annot.fif)", (".fif",), stages.never,
        "mne:read_gssc_fif", "mne.py::test_numbers_of_gssc_must_be_named", (_P, "scorer"),
    ),
    _text(
        "gssc-csv", "GSSC CSV", (".csv",), stages.is_gssc_csv,
        "numbers:read_gssc_csv", "text.py::test_csv_of_gssc", (_S, _E, "scorer"),
    ),
    _text(
        "mne-txt", "annotations of MNE as text", (".txt",), stages.is_mne_text,
        "mne:read_text", "mne.py::test_text_and_csv_of_the_installed_mne", (_P, "scorer"),
    ),
    _text(
        "mne-csv", "annotations of MNE as CSV", (".csv",), stages.is_mne_csv,
        "mne:read_csv", "mne.py::test_text_and_csv_of_the_installed_mne", (_P, "scorer"),
    ),
    _text(
        "luna-annot", "Luna .annot", (".annot",), stages.is_luna_annot,
        "luna:read_annot", "luna.py::test_annot_of_the_installed_luna",
        (_P, "start time, unless its times are dates", "scorer"),
        "luna:write_annot",
    ),
    _text(
        "luna-eannot", "Luna .eannot", (".eannot",), stages.holds_words(_LUNA_WORDS, ".eannot"),
        "luna:read_eannot", "luna.py::test_eannot", _EPOCHS,
        "luna:write_eannot",
    ),
    _text(
        "luna-stages", "table of Luna's command STAGE", (".txt", ".tsv", ".csv"),
        stages.has_columns("e", "stage", "start_sec"),
        "luna:read_stage_table",
        "luna.py::test_stages_of_the_installed_lunapi", (_P, _S, "scorer"),
    ),
    _text(
        "usleep-hyp", "U-Sleep .hyp", (".hyp",), stages.holds_words(_USLEEP_WORDS, ".hyp"),
        "usleep:read_hyp", "tools.py::test_usleep_hyp", _EPOCHS,
        "usleep:write_hyp",
    ),
    _text(
        "usleep-ids", "U-Sleep .ids", (".ids",), stages.is_usleep_ids,
        "usleep:read_ids", "tools.py::test_usleep_runs", (_P, _S, "scorer", _A),
        "usleep:write_ids",
    ),
    _text(
        "usleep-tsv", "U-Sleep .tsv", (".tsv",), stages.has_columns("init_sec", "duration_sec", "stage"),
        "usleep:read_tsv", "tools.py::test_usleep_runs", (_P, _S, "scorer", _A),
        "usleep:write_tsv",
    ),
    _text(
        "accusleepy-csv", "AccuSleePy labels", (".csv",), stages.has_columns("brain_state"),
        "accusleep:read_csv", "tools.py::test_accusleepy_csv", _EPOCHS,
        "accusleep:write_csv",
    ),
    _text(
        "accusleep-mat", "AccuSleep labels (.mat)", (".mat",), stages.is_mat,
        "accusleep:read_mat", "tools.py::test_accusleep_mat", _EPOCHS,
    ),
    _text(
        "dreem-json", "Dreem scorer's JSON list", (".json",), stages.is_dreem_json,
        "dreem:read_json", "tools.py::test_dreem_json", _EPOCHS,
    ),
    _text(
        "dreem-h5", "Dreem night (.h5)", (".h5", ".hdf5"), stages.is_hdf5,
        "dreem:read_h5", "tools.py::test_dreem_h5", (_P, _E, "scorer"),
    ),
    _text(
        "visbrain-times", "Visbrain text of stages and end times", (".txt", ".csv"), stages.is_visbrain_times,
        "visbrain:read_times", "tools.py::test_visbrain_times", (_P, _S, "scorer"),
    ),
    _text(
        "visbrain-samples", "Visbrain text of numbers with its description", (".txt",),
        stages.is_visbrain_sample,
        "visbrain:read_samples", "tools.py::test_visbrain_samples", (_P, _S, "scorer"),
    ),
    _text(
        "elan-hyp", "Elan .hyp", (".hyp",), stages.is_elan,
        "visbrain:read_elan", "tools.py::test_elan", (_P, _S, "scorer"),
    ),
    _text(
        "bids-events", "BIDS events", ("_events.tsv", "_hypnogram.tsv"), stages.is_bids_events,
        "bids:read_bids_events", "bids.py::test_trial_types",
        ("probabilities of the other stages", "start time, unless stageguard wrote it"),
        "bids:write_bids_events",
    ),
    _text(
        "boas-events", "events of the Bitbrain Open Access Sleep dataset", ("_events.tsv",),
        stages.is_boas_events,
        "bids:read_boas_events", "bids.py::test_real_boas_events", (_P, _S),
    ),
    _text(
        "edfbrowser-csv", "CSV of annotations for EDFbrowser", (".csv",), stages.is_edfbrowser_csv,
        "edfbrowser:read_edfbrowser_csv",
        "../test_write.py::test_annotations_besides_stages_survive", (_P, _S, "scorer"),
        "edfbrowser:write_edfbrowser_csv",
    ),
    _numbers("yasa", "YASA, Dreem, Visbrain or GSSC (4 is REM)"),
    _numbers("rk", "Rechtschaffen and Kales, NSRR or Elan (5 is REM)"),
    _numbers("usleep", "U-Sleep (4 is REM, 5 unknown)"),
    _numbers("sleepecg", "SleepECG (1 is N3, 5 is W)"),
    _numbers("accusleep", "AccuSleep (1 is REM, 2 W, 3 NREM)"),
    FileFormat(
        "text",
        "text or a table with one stage per epoch",
        (".txt", ".csv", ".tsv"),
        sniffing.is_text,
        hypnogram="text:read_text_hypnogram",
        write="text:write_text",
        loses=_EPOCHS,
        test=f"test_hypnograms.py::test_tables_are_read_by_the_name_of_the_column, {_WRITTEN}",
        is_general=True,
    ),
)  # fmt: skip
