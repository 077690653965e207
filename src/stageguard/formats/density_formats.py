"""The file formats of stage probabilities, for the registry. Reads none.

Those whose content does not tell them are never found by sniffing: an array's columns may have any order.
"""

from __future__ import annotations

from stageguard.formats import sniffing as sniffing
from stageguard.formats.file_format import FileFormat

_NPY = sniffing.begins_with(b"\x93NUMPY")
_ZIP = sniffing.begins_with(b"PK\x03\x04", b"PK\x05\x06")
_UNNAMED = ("epoch length", "start time")

DENSITY_FORMATS: tuple[FileFormat, ...] = (
    FileFormat(
        "csv",
        "a CSV or TSV table",
        (".csv", ".tsv", ".txt"),
        sniffing.is_text,
        density="tables.probabilities:read_table",
        loses=("start time",),
        test="test_tables.py::test_columns_are_matched_by_name_not_by_place",
        is_general=True,
    ),
    FileFormat(
        "npy",
        "a NumPy array (.npy)",
        (".npy",),
        _NPY,
        density="arrays:read_npy",
        loses=("stage names", *_UNNAMED),
        test="test_arrays.py::test_npy_in_the_order_of_the_given_stages",
    ),
    FileFormat(
        "npz",
        "a ZIP archive (.npz)",
        (".npz",),
        _ZIP,
        density="arrays:read_npz",
        write="arrays:write_npz",
        loses=("stages", "scorer", "other annotations"),
        test="test_arrays.py::test_npz_carries_stages_epoch_length_and_start, "
        "test_write.py::test_probabilities_come_back_exactly",
    ),
    FileFormat(
        "parquet",
        "a Parquet table",
        (".parquet", ".pq"),
        sniffing.begins_with(b"PAR1"),
        density="parquet:read_parquet",
        loses=("start time, unless stageguard wrote it",),
        test="test_density_files.py::test_parquet_by_column_name",
    ),
    FileFormat(
        "yasa-json",
        "JSON of a yasa.Hypnogram",
        (".json",),
        sniffing.is_yasa_json,
        density="yasa_probabilities:read_yasa_json",
        loses=("digits of probabilities behind the sixth",),
        test="test_density_yasa.py::test_json_of_yasa_gives_its_probabilities",
    ),
    FileFormat(
        "yasa-confidence-csv",
        "stage and confidence as YASA's examples write them",
        (".csv", ".tsv", ".txt"),
        sniffing.is_yasa_confidence,
        density="confidence_tables:read_yasa_confidence",
        loses=("probabilities of the other stages", *_UNNAMED),
        test="test_density_files.py::test_a_stage_and_its_confidence_are_not_a_distribution",
    ),
    FileFormat(
        "usleep-npy",
        "an array of U-Time or U-Sleep",
        (".npy", ".npz"),
        sniffing.never,
        density="arrays:read_tool_array",
        loses=("stage names", *_UNNAMED),
        test="test_density_arrays.py::test_summed_softmaxes_of_u_time",
    ),
    FileFormat(
        "gssc-csv",
        "CSV of GSSC",
        (".csv",),
        sniffing.is_gssc_csv,
        density="gssc:read_gssc_csv",
        loses=("start time",),
        test="test_density_files.py::test_csv_of_gssc",
    ),
    FileFormat(
        "gssc",
        "an array of GSSC",
        (".npy", ".npz"),
        sniffing.never,
        density="arrays:read_tool_array",
        loses=("stage names", *_UNNAMED),
        test="test_density_arrays.py::test_log_softmax_of_gssc",
    ),
    FileFormat(
        "luna-pops",
        "Luna's POPS or SOAP table per epoch",
        (".txt", ".tsv", ".csv"),
        sniffing.is_luna_pops,
        density="luna:read_luna_pops",
        loses=("start time", "excluded epochs at the end"),
        test="test_density_luna.py::test_epochs_that_luna_left_out_keep_their_place",
    ),
    FileFormat(
        "luna-edf",
        "EDF with Luna's channels of posteriors",
        (".edf",),
        sniffing.is_luna_edf,
        density="luna:read_luna_edf",
        loses=("digits of probabilities behind 16 bits",),
        test="test_density_luna.py::test_channels_of_posteriors_in_an_edf",
    ),
    FileFormat(
        "stanford-stages",
        "a hypnodensity of Stanford STAGES",
        (".hypnodensity.txt", ".hypnodensity.csv"),
        sniffing.is_stanford_stages,
        density="stanford:read_stanford_stages",
        loses=("stage names", *_UNNAMED),
        test="test_density_files.py::test_hypnodensity_of_stanford_stages",
    ),
    FileFormat(
        "accusleepy-csv",
        "labels and confidences of AccuSleePy",
        (".csv",),
        sniffing.is_accusleepy_csv,
        density="confidence_tables:read_accusleepy_csv",
        loses=("probabilities of the other stages", "stage names", *_UNNAMED),
        test="test_density_files.py::test_accusleepy_is_refused_unless_named",
    ),
    FileFormat(
        "sleepecg",
        "an array of SleepECG",
        (".npy", ".npz"),
        sniffing.never,
        density="arrays:read_tool_array",
        loses=("stage names", *_UNNAMED),
        test="test_density_arrays.py::test_arrays_of_sleepecg",
    ),
    FileFormat(
        "braindecode",
        "logits of braindecode, windows of (stages, epochs)",
        (".npy", ".npz"),
        sniffing.never,
        density="arrays:read_tool_array",
        loses=("stage names", *_UNNAMED),
        test="test_density_arrays.py::test_windows_of_braindecode_and_physioex",
    ),
    FileFormat(
        "physioex",
        "logits of PhysioEx, windows of (epochs, stages)",
        (".npy", ".npz"),
        sniffing.never,
        density="arrays:read_tool_array",
        loses=("stage names", *_UNNAMED),
        test="test_density_arrays.py::test_windows_of_braindecode_and_physioex",
    ),
)
