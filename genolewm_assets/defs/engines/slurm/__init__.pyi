from .job_messages import as_failure as as_failure
from .job_messages import failure_in as failure_in
from .job_messages import outcome_in as outcome_in
from .pipes_client import PipesSlurmClient as PipesSlurmClient
from .pipes_client import SlurmJobError as SlurmJobError
from .settings import read_settings as read_settings
