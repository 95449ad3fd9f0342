"""What events of Dagster have in common, as the dictionary of :mod:`~genolewm_assets.defs.packed_events`.

It is a part of a format on disk: another dictionary is another name and another first byte.
"""

from __future__ import annotations

_NO_STEP = '"pid": null, "pipeline_name": "__ASSET_JOB", "solid_handle": null, "step_handle": null, "step_key": '
_HANDLE = '{"__class__": "SolidHandle", "name": "corpus__windows", "parent": null}'
_STEP = (
    f'"pid": 1234, "pipeline_name": "__ASSET_JOB", "solid_handle": {_HANDLE}, "step_handle": {{"__class__": '
    f'"StepHandle", "key": "corpus__windows", "solid_handle": {_HANDLE}}}, "step_key": "corpus__windows", '
    '"step_kind_value": "COMPUTE"}, '
)
_RUN = '"run_id": "01234567-89ab-4cde-8f01-23456789abcd", '
_TAGS = (
    '"logging_tags": {"job_name": "__ASSET_JOB", "op_name": "corpus__windows", "resource_fn_name": "None", '
    f'"resource_name": "None", {_RUN}"step_key": "corpus__windows"}}, '
)
_END = (
    f'"error_info": null, "level": 10, "message": "", "pipeline_name": "__ASSET_JOB", {_RUN}"step_key": '
    '"corpus__windows", "timestamp": 17958418'
)
_BEGIN = '{"__class__": "EventLogEntry", "dagster_event": {"__class__": "DagsterEvent", "event_specific_data": '
_KEY = '"asset_key": {"__class__": "AssetKey", "path": ["corpus", "windows"]}'
_NAMES = '[\\"corpus\\", \\"windows\\"]'
_CHECK = "schema_as_declared"

_ENTRIES = tuple(
    '"metadata_entries": [{"__class__": "EventMetadataEntry", "description": null, "entry_data": '
    f'{{"__class__": "{kind}MetadataEntryData", {value}}}, "label": "'
    for kind, value in (
        ("Text", '"text": ""'),
        ("Int", '"value": 1'),
        ("Float", '"value": 0.5'),
        ("Bool", '"value": false'),
        ("Path", '"path": ""'),
        ("Url", '"url": "/assets/corpus/windows?view=checks&checkDetail="'),
        ("Markdown", '"md_str": "| what | count |\\n|---|---:|\\n| records_in | 0 |\\n"'),
    )
)
_TABLE = (
    '"TableMetadataEntryData", "records": [{"__class__": "TableRecord", "data": {"file": "windows.parquet", "rows": 0, '
    '"size": "0.01 MB"}}], "schema": {"__class__": "TableSchema", "columns": [{"__class__": "TableColumn", '
    '"constraints": {"__class__": "TableColumnConstraints", "nullable": true, "other": [], "unique": false}, '
    '"description": null, "name": "file", "type": "string"}], "constraints": {"__class__": "TableConstraints", '
    '"other": []}}}, "label": "files"}, {"__class__": "TableColumnLineageMetadataValue", "column_lineage": '
    f'{{"__class__": "TableColumnLineage", "deps_by_column": {{"name": [{{"__class__": "TableColumnDep", {_KEY}, '
    f'"column_name": "start"}}, {{"__class__": "TableColumnDep", {_KEY}, "column_name": "end"}}], '
)
_VERSIONS = (
    '"tags": {"dagster/code_version": "1", "dagster/data_version": "sha256:", '
    '"dagster/data_version_is_user_provided": "true", "dagster/input_data_version/reference/genome": "sha256:", '
    '"dagster/input_event_pointer/reference/genome": "'
)
_ERROR = (
    '"error": {"__class__": "SerializableErrorInfo", "cause": null, "cls_name": "Failure", "context": null, "message": '
    '"dagster._core.definitions.events.Failure: ", "stack": ["  File \\"'
)
_MATERIALIZATION = (
    f'{_BEGIN}{{"__class__": "StepMaterializationData", "asset_lineage": [], "materialization": {{"__class__": '
    f'"AssetMaterialization", {_KEY}, "description": null, '
)
_ENGINE = (
    f'{_BEGIN}{{"__class__": "EngineEventData", "error": null, "marker_end": null, "marker_start": null, '
    '"metadata_entries": []}, "event_type_value": "ENGINE_EVENT", "logging_tags": {}, "message": "'
)
_PLANNED = (
    f'{_BEGIN}{{"__class__": "AssetMaterializationPlannedData", {_KEY}, "partition": "", "partitions_subset": null}}, '
    '"event_type_value": "ASSET_MATERIALIZATION_PLANNED", "logging_tags": {}, "message": "__ASSET_JOB intends to '
    f'materialize asset {_NAMES}", '
)
_CHECK_PLANNED = (
    f'{_BEGIN}{{"__class__": "AssetCheckEvaluationPlanned", {_KEY}, "check_name": "{_CHECK}", "partitions_subset": '
    '{"__class__": "DefaultPartitionsSubset", "subset": {"__set__": [""]}}}, "event_type_value": '
    '"ASSET_CHECK_EVALUATION_PLANNED", "logging_tags": {}, "message": "__ASSET_JOB intends to execute asset check '
    f'{_CHECK} on asset {_NAMES}", {_NO_STEP}"corpus__windows", "step_kind_value": null}}, '
)
_OUTPUT = (
    f'{_BEGIN}{{"__class__": "StepOutputData", "metadata_entries": [], "step_output_handle": {{"__class__": '
    f'"StepOutputHandle", "mapping_key": null, "output_name": "corpus__windows_{_CHECK}", "step_key": '
    '"corpus__windows"}, "type_check_data": {"__class__": "TypeCheckData", "description": null, "label": '
    f'"corpus__windows_{_CHECK}", "metadata_entries": [], "success": true}}, "version": null}}, '
    f'"event_type_value": "STEP_OUTPUT", {_TAGS}"message": "Yielded output \\"corpus__windows_{_CHECK}\\" of type '
    f'\\"Any\\". (Type check passed).", {_STEP}'
)
_EVALUATION = (
    f'{_BEGIN}{{"__class__": "AssetCheckEvaluation", {_KEY}, "blocking": true, "check_name": "{_CHECK}", '
    '"description": null, "metadata": {"compared": {"__class__": "IntMetadataEntryData", "value": 1}}, "partition": '
    'null, "severity": {"__enum__": "AssetCheckSeverity.ERROR"}, "success": true, "target_materialization_data": '
    f'{{"__class__": "AssetCheckEvaluationTargetMaterializationData", {_RUN}"storage_id": 37254, "timestamp": '
    f'1795841860.27}}}}, "event_type_value": "ASSET_CHECK_EVALUATION", {_TAGS}"message": "Asset check \'{_CHECK}\' on '
    f'\'corpus/windows\' passed.", {_STEP}{_END}, "user_message": "'
)

#: The most frequent events last, which are then found nearest.
DICTIONARY_1 = "".join(
    (
        *(*_ENTRIES, _TABLE, _VERSIONS, _ERROR, _MATERIALIZATION),
        *(_ENGINE, _PLANNED, _CHECK_PLANNED, _OUTPUT, _EVALUATION),
    )
).encode()
